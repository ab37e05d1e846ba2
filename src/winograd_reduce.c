/* SPDX-License-Identifier: Apache-2.0 */
/* A task is one split of a block of pairs of channels. It gathers tiles until there are `run` of them, so that the sums
 * of a bin stay in registers over more than one row, and then adds up all bins. */
#include "winograd_reduce.h"

#include <math.h>
#include <string.h>

#include "partial.h"
#include "reduce.h"
#include "util.h"
#include "winograd_weights.h"

/* ---- workspace ---- */

struct scratch {
    struct winograd_reader x_reader, gy_reader;
    char *x, *gy; /* [channel][bin][tile] */
    char *loud;
    double *products; /* [bin][block of output channels][input channel][width tap][output channel of the block] */
    double *taps;     /* [output channel][input channel][tap] */
    int64_t x_channel, x_bin, gy_channel, gy_bin; /* elements */
};

static struct scratch carve(struct arena *a, const struct ogp_plan *plan, const struct tiling *t,
                            const struct winograd *f)
{
    const int64_t pairs = t->in_channels * t->out_channels;
    struct scratch s = {.x_bin = ogp_odd_lines(t->run * f->x_row, f->bytes),
                        .gy_bin = ogp_odd_lines(t->run * f->y_row, f->bytes)};
    s.x_channel = ogp_odd_lines(f->bins * s.x_bin, f->bytes);
    s.gy_channel = ogp_odd_lines(f->bins * s.gy_bin, f->bytes);
    s.x = arena_take(a, (size_t)(t->in_channels * s.x_channel * f->bytes));
    s.gy = arena_take(a, (size_t)(t->out_channels * s.gy_channel * f->bytes));
    s.loud = arena_take(a, (size_t)ogp_winograd_loud_bytes(f));
    s.products = arena_take(a, (size_t)(f->bins * pairs * f->taps) * sizeof(double));
    s.taps = arena_take(a, (size_t)(pairs * ogp_kernel_taps(&plan->problem)) * sizeof(double));
    ogp_winograd_carve_reader(a, f, &s.x_reader);
    ogp_winograd_carve_reader(a, f, &s.gy_reader);
    return s;
}

/* ---- one task ---- */

struct task {
    const struct job *job;
    const struct ogp_plan *plan;
    const struct winograd *f;
    struct scratch *s;
    char *direct; /* scratch of the direct plan */
    struct pairs pairs;
    double *bias;           /* or NULL */
    int64_t tiles, columns; /* gathered, and columns of each */
};

static void aim(const struct task *task, struct winograd_reader *r, bool is_x, int64_t n, const struct span span[3])
{
    const struct problem *const p = &task->plan->problem;
    const struct pairs *const pairs = &task->pairs;
    r->plan = task->plan;
    r->winograd = task->f;
    r->volume = is_x ? task->job->x : task->job->y;
    const int64_t first = is_x ? pairs->group * p->ci_g + pairs->ci : pairs->group * p->co_g + pairs->co;
    r->volume.data += (n * r->volume.n + first * r->volume.c) * task->f->bytes;
    for (int a = 0; a < 3; a++)
        r->sampling[a] =
            is_x ? ogp_winograd_sampling(task->plan, task->f, a, span[a])
                 : (struct sampling){span[a].start, span[a].step, span[a].count, p->axis[a].o, OGP_ZEROS};
    ogp_winograd_aim(r, !is_x);
}

/* Transforms all channels of an operand into the next tile's place; whether each allows it. */
static bool read_operand(const struct task *task, bool is_x)
{
    const struct scratch *const s = task->s;
    const struct winograd *const f = task->f;
    const struct winograd_reader *const r = is_x ? &s->x_reader : &s->gy_reader;
    const int64_t channels = is_x ? task->pairs.ins : task->pairs.outs, row = is_x ? f->x_row : f->y_row;
    const int64_t channel = is_x ? s->x_channel : s->gy_channel, bin = is_x ? s->x_bin : s->gy_bin;
    bool fits = true;
    for (int64_t c = 0; c < channels; c++) {
        if (c + 1 < channels)
            ogp_winograd_foresee(r, c + 1);
        memset(s->loud, 0, (size_t)ogp_winograd_loud_bytes(f));
        ogp_winograd_read(r, c, (is_x ? s->x : s->gy) + (c * channel + task->tiles * row) * f->bytes, bin, s->loud);
        fits &= ogp_winograd_judge(r, s->loud).fits;
        if (!is_x && task->bias)
            task->bias[c] += ogp_winograd_sum(r);
    }
    return fits;
}

static int64_t channel_block(const struct task *task)
{
    return ogp_even_block(task->pairs.outs, task->plan->kernels->channels_most);
}

/* Adds the products of the gathered tiles in bin b, for a block of output channels that begins at `out`. */
static void multiply_bin(const struct task *task, int64_t b, int64_t out, struct ogp_reduce *m)
{
    const struct ogp_kernels *const k = task->plan->kernels;
    const struct winograd *const f = task->f;
    const struct scratch *const s = task->s;
    const int64_t channels = ogp_min(channel_block(task), task->pairs.outs - out), ins = task->pairs.ins;
    const int64_t most = ogp_even_block(f->taps, k->reduce_channels_taps);
    double *const sums = s->products + (b * task->pairs.outs + out) * ins * f->taps;
    m->gy = s->gy + (b * s->gy_bin + out * s->gy_channel) * f->bytes;
    for (int64_t in = 0; in < ins; in++)
        for (int64_t t = 0; t < f->taps; t += most) {
            m->sum = sums + (in * f->taps + t) * channels;
            m->x = s->x + (b * s->x_bin + in * s->x_channel + t * f->tap) * f->bytes;
            k->reduce_channels[channels][ogp_min(most, f->taps - t)](m);
        }
}

static void multiply(struct task *task)
{
    const struct winograd *const f = task->f;
    /* gy is zero in the lanes beyond its columns, and x finite: they need not be told apart */
    struct ogp_reduce m = {.gy_channel = task->s->gy_channel,
                           .gy_row = f->y_row,
                           .x_row = f->x_row,
                           .tap = f->tap,
                           .planes = 1,
                           .rows = task->tiles,
                           .n = ogp_round_up(task->columns, task->plan->kernels->lanes)};
    for (int64_t b = 0; b < f->bins && task->tiles > 0; b++)
        for (int64_t out = 0; out < task->pairs.outs; out += channel_block(task))
            multiply_bin(task, b, out, &m);
    task->tiles = 0;
}

static void go_direct(const struct task *task, int64_t n, const struct span span[3])
{
    const struct ogp_plan direct = ogp_direct_plan(task->plan);
    ogp_reduce_spans(task->job, &direct, task->direct, &task->pairs, n, span, task->s->taps);
}

static void add_tile(struct task *task, int64_t n, const struct span span[3])
{
    if (task->tiles > 0 && (task->tiles == task->plan->tiling.run || span[2].count != task->columns))
        multiply(task);
    task->columns = span[2].count;
    aim(task, &task->s->x_reader, true, n, span);
    aim(task, &task->s->gy_reader, false, n, span);
    const bool x_fits = read_operand(task, true), gy_fits = read_operand(task, false), fits = x_fits && gy_fits;
    ogp_job_tally(task->job, !fits);
    if (fits) {
        task->tiles++;
        return;
    }
    go_direct(task, n, span);
}

/* Adds taps [tap of depth and height][output channel of a block] of one input channel and width tap to their places. */
static void add_block(const struct task *task, const double *from, int64_t first, int64_t channels, int64_t in,
                      int64_t t)
{
    const int64_t taps = ogp_kernel_taps(&task->plan->problem), kw = task->f->taps;
    for (int64_t c = 0; c < channels; c++) {
        double *const to = task->s->taps + ((first + c) * task->pairs.ins + in) * taps + t;
        for (int64_t k = 0; k < taps / kw; k++)
            to[k * kw] += from[k * channels + c];
    }
}

/* The bins of every pair back to taps. */
static void add_taps(const struct task *task)
{
    const struct winograd *const f = task->f;
    const int64_t outs = task->pairs.outs, ins = task->pairs.ins, block = channel_block(task);
    double taps[9 * OGP_WINOGRAD_COUNT];
    for (int64_t first = 0; first < outs; first += block)
        for (int64_t in = 0; in < ins; in++)
            for (int64_t t = 0; t < f->taps; t++) {
                const int64_t channels = ogp_min(block, outs - first);
                ogp_winograd_to_taps(f, taps, task->s->products + first * ins * f->taps + (in * f->taps + t) * channels,
                                     outs * ins * f->taps, channels);
                add_block(task, taps, first, channels, in, t);
            }
}

/* ---- tasks ---- */

static int64_t tile_count(const struct ogp_plan *plan, const struct tiling *t, const struct winograd *f)
{
    return plan->problem.n * ogp_winograd_tiles(plan, t, 0) * f->chunks * ogp_winograd_tiles(plan, t, 1);
}

/* The at-th tile: neighbours along the height follow one another; false where it is empty. */
static bool tile_at(const struct ogp_plan *plan, const struct winograd *f, int64_t at, int64_t *n, struct span span[3])
{
    const int64_t across = ogp_winograd_tiles(plan, &plan->tiling, 1),
                  down = ogp_winograd_tiles(plan, &plan->tiling, 0);
    const struct span width = {0, 1, plan->problem.axis[2].o};
    span[1] = ogp_winograd_span(plan, 1, at % across);
    at /= across;
    ogp_span_cut(width, f->columns, at % f->chunks, &span[2]);
    at /= f->chunks;
    span[0] = ogp_winograd_span(plan, 0, at % down);
    *n = at / down;
    return span[0].count > 0 && span[1].count > 0;
}

static void run_task(const struct job *job, int64_t at, int worker)
{
    const struct ogp_plan *const plan = job->plan;
    const struct tiling *const t = &plan->tiling;
    const struct winograd f = ogp_winograd(plan, t);
    struct arena arena = {.base = ogp_job_scratch(job, worker)};
    struct scratch scratch = carve(&arena, plan, t, &f);
    struct task task = {.job = job, .plan = plan, .f = &f, .s = &scratch};
    const int64_t split = at % t->splits, tiles = tile_count(plan, t, &f), taps = ogp_kernel_taps(&plan->problem);
    task.direct = ogp_job_scratch(job, worker) + plan->worker_bytes - plan->direct_bytes;
    task.pairs = ogp_pairs_at(plan, t, at / t->splits);
    if (job->b.data && task.pairs.ci == 0)
        task.bias = ogp_partials_bias(job, &task.pairs, split);
    const int64_t pairs = task.pairs.outs * task.pairs.ins;
    memset(scratch.products, 0, (size_t)(pairs * f.bins * f.taps) * sizeof(double));
    memset(scratch.taps, 0, (size_t)(pairs * taps) * sizeof(double));
    for (int64_t k = tiles * split / t->splits; k < tiles * (split + 1) / t->splits; k++) {
        struct span span[3];
        int64_t n;
        if (tile_at(plan, &f, k, &n, span))
            add_tile(&task, n, span);
    }
    multiply(&task);
    add_taps(&task);
    ogp_partials_put(job, &task.pairs, split, NULL, scratch.taps, taps);
}

void ogp_winograd_reduce_run(struct job *job)
{
    ogp_job_each(job, job->plan->tasks, run_task);
    ogp_partials_add(job);
}

/* ---- the model ---- */

static size_t bytes_of(const struct ogp_plan *plan, const struct tiling *t)
{
    const struct winograd f = ogp_winograd(plan, t);
    struct arena arena = {0};
    carve(&arena, plan, t, &f);
    return arena.bytes;
}

static double cost_of(const struct ogp_plan *plan, const struct tiling *t)
{
    const struct winograd f = ogp_winograd(plan, t);
    const double ins = (double)t->in_channels, outs = (double)t->out_channels, taps = (double)f.taps;
    const double block = (double)ogp_even_block(t->out_channels, plan->kernels->channels_most);
    const double at_once = (double)ogp_even_block(f.taps, plan->kernels->reduce_channels_taps);
    const double vectors = (double)(f.columns / plan->kernels->lanes);
    const double line = (double)(plan->kernels->lanes * f.bytes) / 64;
    const double judge = 6 * vectors * (double)((f.bins + 3) / 4) + 200;
    const double read = ins * (ogp_winograd_read_cycles(plan, &f, false) + judge) +
                        outs * (ogp_winograd_read_cycles(plan, &f, true) + 0.5 * judge);
    const double slots = fmax(block * at_once, block + at_once * (1 + line));
    const double calls = (double)f.bins * ins * (outs / block) * (taps / at_once);
    const double products = calls * (vectors * 0.5 * slots * 1.15 + (3 * block * at_once + 30) / (double)t->run);
    const double each = read + products * ogp_winograd_spill((int64_t)bytes_of(plan, t));
    return 1.3 * (double)ogp_pairs_blocks(plan, t) * (double)tile_count(plan, t, &f) * each; /* 1.3: measured */
}

/* What a split costs whatever its size: sums cleared, transformed back and added up. */
static double split_cycles(const struct ogp_plan *plan, const struct tiling *t)
{
    return 500 * (double)(ogp_pairs_blocks(plan, t) * t->in_channels * t->out_channels * plan->problem.axis[2].k);
}

/* Splits cost a twentieth of all at most, unless that leaves too few tasks, and most gather their tiles twice. */
static int64_t splits_of(const struct ogp_plan *plan, const struct tiling *t, int64_t limit)
{
    const struct winograd f = ogp_winograd(plan, t);
    const double tiles = (double)tile_count(plan, t, &f), blocks = (double)ogp_pairs_blocks(plan, t), wanted = 24;
    const double cheap = 0.05 * plan->cost / split_cycles(plan, t),
                 most = fmax(tiles / (2 * (double)t->run), fmin(tiles, 8));
    const int64_t splits = (int64_t)fmax(1, fmin(most, fmax(cheap, wanted / blocks)));
    return ogp_partials_splits(plan, blocks, splits, ogp_shared_limit(limit));
}

bool ogp_winograd_reduce_prepare(struct ogp_plan *plan, int64_t limit)
{
    static const int64_t runs[] = {1, 2, 3, 4, 6, 8};
    const int64_t ins = plan->problem.ci_g, outs = plan->problem.co_g;
    const int64_t room = ogp_worker_limit(limit) - (int64_t)plan->direct_bytes;
    bool found = false;
    if (!plan->direct_tiling.all_pieces)
        return false;
    for (int64_t channels = ogp_min(ogp_max(ins, outs), 64); channels > 0; channels = channels > 8 ? channels / 2 : 0)
        for (size_t r = 0; r < OGP_COUNT(runs); r++) {
            const struct tiling start = {.in_channels = ogp_even_block(ins, channels),
                                         .out_channels = ogp_even_block(outs, channels),
                                         .splits = 1,
                                         .run = runs[r]};
            found |= ogp_winograd_choose(plan, start, room, bytes_of, cost_of);
        }
    if (!found)
        return false;
    struct tiling *const t = &plan->tiling;
    t->splits = splits_of(plan, t, limit);
    plan->cost += (double)t->splits * split_cycles(plan, t);
    if (!plan->forced && plan->cost > plan->direct_cost)
        return false;
    struct arena shared = {0};
    ogp_partials_carve(&shared, plan, t->splits);
    plan->tasks = ogp_pairs_blocks(plan, t) * t->splits;
    return ogp_plan_reserve(plan, limit, shared.bytes, bytes_of(plan, t) + plan->direct_bytes);
}
