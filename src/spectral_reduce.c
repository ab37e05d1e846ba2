/* SPDX-License-Identifier: Apache-2.0 */
#include "spectral_reduce.h"

#include <math.h>
#include <string.h>

#include "partial.h"
#include "reduce.h"
#include "spectrum.h"
#include "tiling.h"
#include "util.h"

enum { BLOCK_MOST = 16 }; /* channels of either operand */

/* ---- workspace ---- */

static struct twiddles carve_shared(struct arena *a, const struct ogp_plan *plan, const struct tiling *t,
                                    const struct fourier *f)
{
    ogp_partials_carve(a, plan, t->splits);
    return ogp_fourier_carve_twiddles(a, f);
}

struct scratch {
    struct reader x, gy;
    char *x_spectra, *gy_spectra; /* of a chunk: [channel] */
    char *history;                /* of x: [channel][height place][depth place] */
    char *x_slab, *gy_slab;       /* [channel] */
    double *products;             /* [output channel][input channel][height place][depth place][width tap] pairs */
    double *taps;                 /* [output channel][input channel][tap] */
};

static struct scratch carve(struct arena *a, const struct ogp_plan *plan, const struct tiling *t,
                            const struct fourier *f)
{
    const int64_t bins = f->points[0] * f->points[1], ins = t->in_channels, outs = t->out_channels;
    const int64_t spectra = f->points[0] * f->plane * f->bytes, slab = f->points[0] * f->slab * f->bytes;
    struct scratch s = {0};
    /* what turns sums into taps takes their place in the end */
    s.x_spectra = arena_take(a, (size_t)ogp_max(ogp_spectrum_scratch(plan, f), (ins + outs) * spectra));
    s.gy_spectra = s.x_spectra ? s.x_spectra + ins * spectra : NULL;
    s.history = arena_take(a, (size_t)(ins * bins * 2 * f->history * f->bytes));
    s.x_slab = arena_take(a, (size_t)(ins * slab));
    s.gy_slab = arena_take(a, (size_t)slab);
    s.products = arena_take(a, (size_t)(outs * ins * bins * 2 * plan->problem.axis[2].k) * sizeof(double));
    s.taps = arena_take(a, (size_t)(outs * ins * ogp_kernel_taps(&plan->problem)) * sizeof(double));
    ogp_fourier_carve_reader(a, f, &s.x);
    ogp_fourier_carve_reader(a, f, &s.gy);
    return s;
}

/* ---- one task: one split of a block of pairs ---- */

struct task {
    const struct job *job;
    const struct ogp_plan *plan;
    const struct fourier *f;
    struct twiddles twiddles;
    struct scratch *s;
    char *direct; /* scratch of the direct plan */
    struct pairs pairs;
    double *bias; /* or NULL */
    int64_t n;
    struct unit unit;
    int64_t chunk, first; /* the first column of gy in the chunk */
};

/* Both readers see the same vectors: those that hold columns of x which some output needs. */
static void aim(const struct task *task, struct reader *r, bool is_x, int64_t channel)
{
    const struct ogp_plan *const plan = task->plan;
    const struct problem *const p = &plan->problem;
    const struct axis *const width = &p->axis[2];
    const int64_t at = ogp_fourier_column(task->f, task->chunk),
                  count = ogp_min(task->f->columns, width->o + task->f->window - 1 - at);
    const struct piece piece = ogp_piece_at(&plan->lattice[2], width->k, 0);
    r->plan = plan;
    r->fourier = task->f;
    r->begins = task->chunk == 0;
    r->vectors = ogp_ceil_div(count, plan->kernels->lanes);
    r->volume = is_x ? task->job->x : task->job->y;
    r->volume.data += (task->n * r->volume.n + channel * r->volume.c) * task->f->bytes;
    r->width = is_x ? (struct sampling){piece.in0 + task->f->step * at, task->f->step, count, width->i, p->padding}
                    : (struct sampling){task->first, 1, count, width->o, OGP_ZEROS};
    for (int tile = 0; tile < 2; tile++)
        for (int a = 0; a < 2; a++) {
            const struct span span = task->unit.span[tile][a];
            const struct axis *const axis = &p->axis[a];
            const struct piece whole = ogp_piece_at(&plan->lattice[a], axis->k, 0);
            r->sampling[tile][a] =
                is_x ? (struct sampling){whole.in0 + span.start * axis->s, whole.in_step,
                                         span.count ? span.count + axis->k - 1 : 0, axis->i, p->padding}
                     : (struct sampling){span.start, span.step, span.count, axis->o, OGP_ZEROS};
        }
    if (r->begins)
        ogp_fourier_aim(r);
}

/* Reads the chunk of the channels of one operand; the finding of all. */
static struct finding read_chunk(const struct task *task, bool is_x)
{
    const struct fourier *const f = task->f;
    const struct pairs *const pairs = &task->pairs;
    const struct problem *const p = &task->plan->problem;
    const int64_t first = is_x ? pairs->group * p->ci_g + pairs->ci : pairs->group * p->co_g + pairs->co;
    struct reader *const r = is_x ? &task->s->x : &task->s->gy;
    struct finding found = ogp_nothing_found;
    for (int64_t c = 0; c < (is_x ? pairs->ins : pairs->outs); c++) {
        aim(task, r, is_x, first + c);
        ogp_fourier_read(r, (is_x ? task->s->x_spectra : task->s->gy_spectra) + c * f->points[0] * f->plane * f->bytes,
                         task->twiddles.axis[1], &found, (struct segment){4, 2},
                         task->bias && !is_x ? task->bias + c : NULL);
    }
    return found;
}

/* Every height bin: depth transforms, and unless the chunk goes direct, the products. History is kept in any case. */
static void multiply(const struct task *task, bool fits)
{
    const struct fourier *const f = task->f;
    const struct ogp_plan *const plan = task->plan;
    struct scratch *const s = task->s;
    const int64_t taps = plan->problem.axis[2].k, slab = f->points[0] * f->slab, spectra = f->points[0] * f->plane;
    const int64_t history = 2 * f->points[0] * f->history, bin = 2 * f->points[0] * taps, pair = f->points[1] * bin;
    struct ogp_spectral m = {.y = s->gy_slab + f->history * f->bytes,
                             .bins = f->points[0],
                             .taps = taps,
                             .tap = f->tap,
                             .vectors = s->x.vectors,
                             .x_step = f->slab,
                             .x_imaginary = f->part,
                             .y_step = f->slab,
                             .y_imaginary = f->part};
    for (int64_t h = 0; h < f->points[1]; h++) {
        for (int64_t in = 0; in < task->pairs.ins; in++) {
            char *const x = s->x_slab + in * slab * f->bytes;
            char *const old = s->history + (in * f->points[1] + h) * history * f->bytes;
            ogp_fourier_slab(&s->x, x, s->x_spectra + in * spectra * f->bytes, h, task->twiddles.axis[0]);
            ogp_fourier_recall(plan, f, x, task->chunk ? old : NULL);
            ogp_fourier_keep(plan, f, old, x);
        }
        for (int64_t out = 0; out < task->pairs.outs && fits; out++) {
            ogp_fourier_slab(&s->gy, s->gy_slab, s->gy_spectra + out * spectra * f->bytes, h, task->twiddles.axis[0]);
            for (int64_t in = 0; in < task->pairs.ins; in++) {
                m.x = s->x_slab + (in * slab + f->history) * f->bytes;
                m.sum = s->products + (out * task->pairs.ins + in) * pair + h * bin;
                plan->kernels->spectral_reduce(&m);
            }
        }
    }
}

/* Outputs of the chunk, without transforms. */
static void go_direct(const struct task *task)
{
    const struct ogp_plan direct = ogp_direct_plan(task->plan);
    const int64_t lo = ogp_max(task->first, 0);
    const int64_t hi = ogp_min(task->first + task->f->columns, task->plan->problem.axis[2].o);
    for (int tile = 0; tile < 2; tile++) {
        const struct span span[3] = {task->unit.span[tile][0], task->unit.span[tile][1], {lo, 1, hi - lo}};
        if (span[0].count > 0 && hi > lo)
            ogp_reduce_spans(task->job, &direct, task->direct, &task->pairs, task->n, span, task->s->taps);
    }
}

static void add_unit(struct task *task)
{
    const struct fourier *const f = task->f;
    struct findings found = {.count = 0};
    for (task->chunk = 0; task->chunk < f->chunks; task->chunk++) {
        task->first = ogp_fourier_column(f, task->chunk) - (f->window - 1);
        const struct finding before = ogp_fourier_reached(f, &found);
        const struct finding x = read_chunk(task, true), gy = read_chunk(task, false);
        const bool fits =
            ogp_fourier_fits(task->plan, &x, &before) && ogp_fourier_fits(task->plan, &gy, &ogp_nothing_found);
        multiply(task, fits);
        if (!fits)
            go_direct(task);
        ogp_job_tally(task->job, !fits);
        ogp_fourier_note(&found, &x);
    }
}

static void run_task(const struct job *job, int64_t at, int worker)
{
    const struct ogp_plan *const plan = job->plan;
    const struct tiling *const t = &plan->tiling;
    const struct fourier f = ogp_fourier(plan, t);
    struct arena shared = {.base = job->shared}, arena = {.base = ogp_job_scratch(job, worker)};
    struct scratch scratch = carve(&arena, plan, t, &f);
    struct task task = {
        .job = job, .plan = plan, .f = &f, .twiddles = carve_shared(&shared, plan, t, &f), .s = &scratch};
    const int64_t split = at % t->splits, units = ogp_fourier_units(plan, t), all = plan->problem.n * units;
    const int64_t taps = ogp_kernel_taps(&plan->problem), bins = f.points[0] * f.points[1];
    task.direct = ogp_job_scratch(job, worker) + plan->worker_bytes - plan->direct_bytes;
    task.pairs = ogp_pairs_at(plan, t, at / t->splits);
    if (job->b.data && task.pairs.ci == 0)
        task.bias = ogp_partials_bias(job, &task.pairs, split);
    const int64_t pairs = task.pairs.outs * task.pairs.ins, each = bins * 2 * plan->problem.axis[2].k;
    memset(scratch.products, 0, (size_t)(pairs * each) * sizeof(double));
    memset(scratch.taps, 0, (size_t)(pairs * taps) * sizeof(double));
    for (int64_t k = all * split / t->splits; k < all * (split + 1) / t->splits; k++) {
        task.n = k / units;
        task.unit = ogp_fourier_unit(plan, k % units);
        add_unit(&task);
    }
    for (int64_t k = 0; k < pairs; k++)
        ogp_spectrum_to_taps(plan, &f, &task.twiddles, scratch.taps + k * taps, scratch.products + k * each,
                             scratch.x_spectra);
    ogp_partials_put(job, &task.pairs, split, NULL, scratch.taps, taps);
}

void ogp_spectral_reduce_run(struct job *job)
{
    const struct ogp_plan *const plan = job->plan;
    const struct fourier f = ogp_fourier(plan, &plan->tiling);
    struct arena arena = {.base = job->shared};
    const struct twiddles twiddles = carve_shared(&arena, plan, &plan->tiling, &f);
    ogp_fourier_fill_twiddles(&f, &twiddles);
    ogp_job_each(job, plan->tasks, run_task);
    ogp_partials_add(job);
}

/* ---- the model ---- */

static size_t bytes_of(const struct ogp_plan *plan, const struct tiling *t)
{
    const struct fourier f = ogp_fourier(plan, t);
    struct arena arena = {0};
    carve(&arena, plan, t, &f);
    return arena.bytes;
}

static double cost_of(const struct ogp_plan *plan, const struct tiling *t)
{
    const struct fourier f = ogp_fourier(plan, t);
    const struct axis *const axis = plan->problem.axis;
    const double ins = (double)t->in_channels, outs = (double)t->out_channels, taps = (double)axis[2].k;
    const double planes = (double)(t->out[0] + axis[0].k - 1), rows = (double)(t->out[1] + axis[1].k - 1);
    const double read_x = ogp_fourier_read_cycles(&f, planes) + ogp_fourier_memory_cycles(plan, &f, 2 * planes * rows);
    const double read_gy = ogp_fourier_read_cycles(&f, (double)t->out[0]) +
                           ogp_fourier_memory_cycles(plan, &f, 2 * (double)(t->out[0] * t->out[1]));
    const double middle = (ins + outs) * ogp_fourier_depth_cycles(&f) + ins * ogp_fourier_history_cycles(&f);
    const double products =
        ins * outs * (double)(f.points[0] * f.points[1]) * (3.6 * taps + 4 * (taps + 4) / (double)f.vectors);
    const double blocks = (double)ogp_pairs_blocks(plan, t),
                 units = (double)(plan->problem.n * ogp_fourier_units(plan, t)),
                 splits = fmin((double)t->splits, units);
    const double chunks = (double)f.vectors_all * (ins * read_x + outs * read_gy + middle + products);
    const double cost =
        blocks * (units * chunks * 1.3 * ogp_fourier_spill(bytes_of(plan, t)) + /* 1.3: measured */
                  splits * ins * outs * ogp_fourier_spectrum_cycles(plan, &f));
    return cost * ogp_tiling_idle(cost, blocks * splits);
}

/* A transform serves all channels of the other operand in its block, but the sums of a pair are large: 144 KiB for 9
 * width taps of 32 x 32 points. */
bool ogp_spectral_reduce_prepare(struct ogp_plan *plan, int64_t limit)
{
    const int64_t ins = plan->problem.ci_g, outs = plan->problem.co_g, most = ogp_max(ins, outs);
    const int64_t room = ogp_worker_limit(limit) - (int64_t)plan->direct_bytes;
    bool found = false;
    if (!plan->direct_tiling.all_pieces)
        return false;
    for (int64_t channels = 1; channels <= BLOCK_MOST && channels < 2 * most; channels *= 2) {
        struct tiling start = {.in_channels = ogp_even_block(ins, channels),
                               .out_channels = ogp_even_block(outs, channels)};
        start.splits = ogp_partials_splits(plan, (double)ogp_pairs_blocks(plan, &start), INT64_MAX,
                                           ogp_shared_limit(limit));
        found |= ogp_fourier_choose(plan, start, room, bytes_of, cost_of);
    }
    if (!found)
        return false;
    struct tiling *const t = &plan->tiling;
    t->splits = ogp_min(t->splits, plan->problem.n * ogp_fourier_units(plan, t));
    const struct fourier f = ogp_fourier(plan, t);
    struct arena shared = {0};
    carve_shared(&shared, plan, t, &f);
    plan->tasks = ogp_pairs_blocks(plan, t) * t->splits;
    return ogp_plan_reserve(plan, limit, shared.bytes, bytes_of(plan, t) + plan->direct_bytes);
}
