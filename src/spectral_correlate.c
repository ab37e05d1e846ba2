/* SPDX-License-Identifier: Apache-2.0 */
#include "spectral_correlate.h"

#include <math.h>
#include <string.h>

#include "spectral_output.h"
#include "spectrum.h"
#include "tiling.h"
#include "util.h"

static struct shared carve_shared(struct arena *a, const struct ogp_plan *plan, const struct fourier *f)
{
    struct shared s = {.twiddles = ogp_fourier_carve_twiddles(a, f)};
    s.depth = 2 * ogp_channels_in(plan) * plan->problem.axis[2].k;
    s.bin = f->points[0] * s.depth;
    s.channel = f->points[1] * s.bin;
    s.unfit = arena_take(a, sizeof *s.unfit);
    s.spectra = arena_take(a, (size_t)(plan->problem.g * ogp_channels_out(plan) * s.channel * f->bytes));
    return s;
}

/* The weights of output channel `out` and input channel `in` of a group, in the roles of the pass. */
static struct weights weights_at(const struct job *job, int64_t group, int64_t out, int64_t in)
{
    const struct problem *const p = &job->plan->problem;
    const bool adjoint = job->plan->pass == OGP_GRAD_INPUT;
    struct weights w = job->w;
    w.data +=
        ((group * p->co_g + (adjoint ? in : out)) * w.co + (adjoint ? out : in) * w.ci) * ogp_dtype_bytes(p->dtype);
    return w;
}

/* Task: the spectra of one pair of channels. */
static void transform_weights(const struct job *job, int64_t at, int worker)
{
    const struct ogp_plan *const plan = job->plan;
    const struct fourier f = ogp_fourier(plan, &plan->tiling);
    struct arena arena = {.base = job->shared};
    const struct shared s = carve_shared(&arena, plan, &f);
    const int64_t ins = ogp_channels_in(plan), outs = ogp_channels_out(plan), in = at % ins, out = at / ins;
    const struct weights w = weights_at(job, out / outs, out % outs, in);
    struct piece piece[3];
    for (int a = 0; a < 3; a++)
        piece[a] = ogp_fourier_piece(plan, a);
    char *const spectrum = s.spectra + (out * s.channel + 2 * in * piece[2].taps) * f.bytes;
    const double largest = ogp_spectrum_of_weights(plan, &f, &s.twiddles, spectrum, s.bin, s.depth, &w, piece,
                                                   ogp_job_scratch(job, worker));
    if (!ogp_fourier_in_range(plan->problem.dtype, largest))
        atomic_store_explicit(s.unfit, 1, memory_order_relaxed);
}

static struct spectral_scratch carve(struct arena *a, const struct tiling *t, const struct fourier *f)
{
    const int64_t ins = t->in_channels, slots = ogp_max(ins, t->out_channels), bins = f->points[0] * f->points[1];
    struct spectral_scratch s = {0};
    s.spectra = arena_take(a, (size_t)(slots * f->points[0] * f->plane * f->bytes));
    s.history = arena_take(a, (size_t)(ins * bins * 2 * f->history * f->bytes));
    s.x = arena_take(a, (size_t)(ins * f->points[0] * f->slab * f->bytes));
    s.y = arena_take(a, (size_t)(f->points[0] * f->bin * f->bytes));
    s.pitch = ogp_odd_lines(f->columns + OGP_ALIGN / f->bytes, f->bytes);
    for (int tile = 0; tile < 2; tile++) {
        char *const rows = arena_take(a, (size_t)(f->points[1] * s.pitch * f->bytes));
        s.out[tile] = rows ? rows + OGP_ALIGN : NULL;
    }
    s.onto = arena_take(a, (size_t)f->columns * sizeof(int64_t));
    s.carry = arena_take(a, (size_t)(t->out_channels * t->out[0] * 2 * t->out[1] * OGP_ALIGN));
    s.bits = arena_take(a, (size_t)(2 * ins * bins) * sizeof(uint64_t));
    s.window = arena_take(a, (size_t)(2 * bins) * sizeof(uint64_t));
    ogp_fourier_carve_reader(a, f, &s.reader);
    return s;
}

/* ---- one unit ---- */

/* Most zeros of padding that a window reads beyond one end of axis a. Where outputs fold, what one adds to another lies
 * in the window of that one too, unless the padding is wider than half of the kernel. */
static int64_t padding_of(const struct ogp_plan *plan, int a)
{
    const struct lattice *const lat = &plan->lattice[a];
    const struct axis *const axis = &lat->axis;
    if (!lat->adjoint)
        return lat->padding == OGP_ZEROS ? ogp_max(axis->p, axis->q) : 0;
    const bool wide = lat->fold && 2 * ogp_max(axis->p, axis->q) >= axis->k;
    return axis->k - 1 - (wide ? 0 : ogp_min(axis->p, axis->q) / axis->l);
}

/* A window of zeros, what of it lies in the tensor, holds one segment at least: so many rows or planes, wherever they
 * begin. */
static int64_t segment_extent(const struct ogp_plan *plan, int a, int64_t most)
{
    const int64_t taps = plan->problem.axis[a].k;
    return ogp_max(1, ogp_min(most, ogp_min((taps + 1) / 2, taps - padding_of(plan, a))));
}

static struct segment segment_of(const struct ogp_plan *plan)
{
    return (struct segment){segment_extent(plan, 1, 4), segment_extent(plan, 0, 2)};
}

/* Whether a window can lie in the padding as a whole. One of grad input always holds an output. */
static bool leaves_tensor(const struct ogp_plan *plan)
{
    bool leaves = false;
    for (int a = 0; a < 3; a++) {
        const struct axis *const axis = &plan->lattice[a].axis;
        leaves |= ogp_max(axis->p, axis->q) > axis->l * (axis->k - 1);
    }
    return leaves && plan->pass == OGP_FORWARD && plan->problem.padding == OGP_ZEROS;
}

static void aim_reader(const struct spectral_task *task, int64_t in)
{
    const struct ogp_plan *const plan = task->plan;
    const bool adjoint = plan->pass == OGP_GRAD_INPUT;
    const enum ogp_padding padding = adjoint ? OGP_ZEROS : plan->lattice[0].padding;
    struct reader *const r = &task->s->reader;
    const int64_t all = ogp_fourier_extent(&plan->lattice[2]) + task->f->window - 1,
                  at = ogp_fourier_column(task->f, task->chunk);
    r->plan = plan;
    r->fourier = task->f;
    r->begins = task->chunk == 0;
    r->volume = adjoint ? task->job->y : task->job->x;
    r->volume.data +=
        (task->place.n * r->volume.n + (task->place.group * ogp_channels_in(plan) + in) * r->volume.c) * task->f->bytes;
    r->vectors = ogp_ceil_div(ogp_min(task->f->columns, all - at), plan->kernels->lanes);
    r->width = (struct sampling){task->in0 + task->f->step * at, task->f->step,
                                 ogp_min(task->f->columns, all - at), plan->lattice[2].in_extent, padding};
    for (int tile = 0; tile < 2; tile++)
        for (int a = 0; a < 2; a++) {
            const struct span span = task->unit.span[tile][a];
            const struct piece piece = ogp_whole_piece(&plan->lattice[a], span.start);
            r->sampling[tile][a] =
                (struct sampling){piece.in0, piece.in_step, span.count ? span.count + piece.taps - 1 : 0,
                                  plan->lattice[a].in_extent, padding};
        }
    if (r->begins)
        ogp_fourier_aim(r);
}

/* Reads the chunk of all input channels; the finding of all. */
static struct finding read_chunk(struct spectral_task *task, const struct finding *before)
{
    const struct fourier *const f = task->f;
    const int64_t ins = ogp_channels_in(task->plan), bins = 2 * f->points[0] * f->points[1];
    struct finding all = ogp_nothing_found;
    uint64_t padding = 0;
    for (int64_t in = 0; in < ins; in++) {
        struct finding found = ogp_nothing_found;
        uint64_t *const bits = ogp_spectral_bits(task, in);
        aim_reader(task, in);
        padding = ogp_fourier_padding_zeros(&task->s->reader);
        ogp_fourier_read(&task->s->reader, task->s->spectra + in * f->points[0] * f->plane * f->bytes,
                         task->shared->twiddles.axis[1], &found, segment_of(task->plan), NULL);
        for (int64_t k = 0; k < bins && task->remembered; k++)
            bits[k] = f->columns < 64 ? bits[k] >> f->columns : 0;
        found.zeros |= ogp_fourier_repeats_zeros(&task->s->reader, before->zeros);
        if (found.zeros)
            ogp_fourier_zeros(&task->s->reader, bits);
        else if (padding)
            for (int64_t k = 0; k < bins; k++)
                bits[k] |= padding;
        ogp_fourier_add_finding(&all, &found);
    }
    task->remembered = all.zeros || padding ? ogp_ceil_div(64, f->columns) : ogp_max(task->remembered - 1, 0);
    return all;
}

/* Every height bin: depth transforms, products, depth transforms back in place of the input's spectra. */
static void multiply(const struct spectral_task *task)
{
    const struct ogp_plan *const plan = task->plan;
    const struct fourier *const f = task->f;
    struct spectral_scratch *const s = task->s;
    const int64_t ins = ogp_channels_in(plan), taps = plan->problem.axis[2].k, x_size = f->points[0] * f->slab;
    const int64_t out_d = ogp_max(task->unit.span[0][0].count, task->unit.span[1][0].count);
    const int64_t spectra = f->points[0] * f->plane, history = 2 * f->points[0] * f->history;
    struct ogp_spectral m = {.y = s->y,
                             .x = s->x + f->history * f->bytes,
                             .bins = f->points[0],
                             .terms = ins,
                             .taps = taps,
                             .tap = f->tap,
                             .vectors = s->reader.vectors,
                             .x_step = f->slab,
                             .x_term = x_size,
                             .x_imaginary = f->part,
                             .y_step = f->bin,
                             .y_imaginary = f->columns};
    struct ogp_fft back = {.re_step = f->plane,
                           .im_step = f->plane,
                           .re_count = out_d,
                           .im_count = out_d,
                           .bins = s->y,
                           .twiddle = task->shared->twiddles.axis[0],
                           .step = f->bin,
                           .imaginary = f->columns,
                           .vectors = s->reader.vectors};
    for (int64_t h = 0; h < f->points[1]; h++) {
        for (int64_t in = 0; in < ins; in++) {
            char *const slab = s->x + in * x_size * f->bytes;
            char *const old = s->history + (in * f->points[1] + h) * history * f->bytes;
            ogp_fourier_slab(&s->reader, slab, s->spectra + in * spectra * f->bytes, h, task->shared->twiddles.axis[0]);
            ogp_fourier_recall(plan, f, slab, task->chunk ? old : NULL);
            ogp_fourier_keep(plan, f, old, slab);
        }
        for (int64_t out = 0; out < task->place.channels; out++) {
            ogp_spectral_foresee(task, out, h);
            m.w = task->shared->spectra +
                  (ogp_spectral_channel(task, out) * task->shared->channel + h * task->shared->bin) * f->bytes;
            plan->kernels->spectral(&m);
            back.re = s->spectra + (out * spectra + h * f->bin) * f->bytes;
            back.im = (char *)back.re + f->columns * f->bytes;
            f->fft[0]->inverse(&back);
            ogp_spectral_fold_depth(task, out, h);
        }
    }
}

static struct span clip(struct span span, int64_t extent)
{
    const int64_t end = ogp_min(span.start + span.step * span.count, extent);
    return span.step > 1 || span.start >= 0
               ? (struct span){span.start, span.step, ogp_min(span.count, ogp_max(0, end - span.start))}
               : (struct span){0, 1, ogp_max(0, end)};
}

/* Outputs [first + lo, first + hi) of the width of both tiles, without transforms. */
static void go_direct(const struct spectral_task *task)
{
    const struct ogp_plan direct = ogp_direct_plan(task->plan);
    for (int tile = 0; tile < 2; tile++) {
        struct span span[3] = {
            task->unit.span[tile][0], task->unit.span[tile][1], {task->first + task->lo, 1, task->hi - task->lo}};
        for (int a = 0; a < 3; a++)
            if (direct.lattice[a].fold)
                span[a] = clip(span[a], direct.lattice[a].out_extent);
        if (span[0].count > 0 && span[1].count > 0)
            ogp_correlate_spans(task->job, &direct, task->direct, task->place, span);
    }
}

/* The whole width. */
static void go_all_direct(struct spectral_task *task)
{
    task->first = task->lo = 0;
    task->hi = task->plan->lattice[2].out_extent;
    go_direct(task);
}

/* Where outputs fold, a chunk also adds to outputs of another: then one that does not fit takes all of them with it. */
static void run_chunks(struct spectral_task *task)
{
    const struct fourier *const f = task->f;
    const struct lattice *const width = &task->plan->lattice[2];
    const int64_t from = ogp_fourier_first(width), extent = ogp_fourier_extent(width);
    const bool folds = ogp_fourier_folds(task->plan);
    struct findings found = {.count = 0};
    for (task->chunk = 0; task->chunk < f->chunks; task->chunk++) {
        task->first = from + ogp_fourier_column(f, task->chunk) - (f->window - 1);
        task->lo = ogp_max(0, from - task->first);
        task->hi = ogp_min(f->columns, from + extent - task->first);
        const struct finding before = ogp_fourier_reached(f, &found), now = read_chunk(task, &before);
        const bool fits = ogp_fourier_fits(task->plan, &now, &before);
        ogp_job_tally(task->job, !fits);
        if (!fits && folds) {
            go_all_direct(task);
            return;
        }
        multiply(task);
        task->muted = (now.zeros || before.zeros || leaves_tensor(task->plan)) && ogp_spectral_find_muted(task);
        if (task->hi > task->lo && fits) {
            ogp_spectral_write(task);
        } else if (task->hi > task->lo) {
            ogp_spectral_end_rows(task);
            go_direct(task);
        }
        ogp_fourier_note(&found, &now);
    }
}

static void run_unit(const struct job *job, int64_t at, int worker)
{
    const struct ogp_plan *const plan = job->plan;
    const struct tiling *const t = &plan->tiling;
    const struct fourier f = ogp_fourier(plan, t);
    struct arena shared_arena = {.base = job->shared}, arena = {.base = ogp_job_scratch(job, worker)};
    const struct shared shared = carve_shared(&shared_arena, plan, &f);
    struct spectral_scratch scratch = carve(&arena, t, &f);
    char *const direct = ogp_job_scratch(job, worker) + plan->worker_bytes - plan->direct_bytes;
    struct spectral_task task = {.job = job,
                                 .plan = plan,
                                 .f = &f,
                                 .shared = &shared,
                                 .s = &scratch,
                                 .in0 = ogp_fourier_piece(plan, 2).in0,
                                 .direct = direct};
    const int64_t units = ogp_fourier_units(plan, t), outs = ogp_channels_out(plan);
    const int64_t blocks = ogp_ceil_div(outs, t->out_channels);
    task.unit = ogp_fourier_unit(plan, at % units);
    at /= units;
    task.place.channel = at % blocks * t->out_channels;
    task.place.channels = ogp_min(t->out_channels, outs - task.place.channel);
    task.place.group = at / blocks % plan->problem.g;
    task.place.n = at / blocks / plan->problem.g;
    task.begun = -1;
    /* what a unit has added to an output cannot be taken back, should a later chunk turn out not to fit */
    if (atomic_load_explicit(shared.unfit, memory_order_relaxed) || (job->accumulate && ogp_fourier_folds(plan))) {
        go_all_direct(&task);
        return;
    }
    /* what lies before the first chunk is zero, or no output's window */
    memset(scratch.bits, 0xff, (size_t)(2 * t->in_channels * f.points[0] * f.points[1]) * sizeof *scratch.bits);
    task.remembered = ogp_ceil_div(64, f.columns);
    run_chunks(&task);
}

void ogp_spectral_correlate_run(struct job *job)
{
    const struct ogp_plan *const plan = job->plan;
    const struct fourier f = ogp_fourier(plan, &plan->tiling);
    struct arena arena = {.base = job->shared};
    const struct shared s = carve_shared(&arena, plan, &f);
    ogp_fourier_fill_twiddles(&f, &s.twiddles);
    atomic_init(s.unfit, 0);
    ogp_job_each(job, plan->problem.g * ogp_channels_out(plan) * ogp_channels_in(plan), transform_weights);
    ogp_job_each(job, plan->tasks, run_unit);
}

/* ---- the model ---- */

static size_t bytes_of(const struct ogp_plan *plan, const struct tiling *t)
{
    const struct fourier f = ogp_fourier(plan, t);
    struct arena arena = {0};
    carve(&arena, t, &f);
    return (size_t)ogp_max((int64_t)arena.bytes, ogp_spectrum_scratch(plan, &f));
}

static double task_count(const struct ogp_plan *plan, const struct tiling *t)
{
    return (double)(plan->problem.n * plan->problem.g * ogp_ceil_div(ogp_channels_out(plan), t->out_channels)) *
           (double)ogp_fourier_units(plan, t);
}

static double cost_of(const struct ogp_plan *plan, const struct tiling *t)
{
    const struct fourier f = ogp_fourier(plan, t);
    const struct axis *const axis = plan->problem.axis;
    const double ins = (double)t->in_channels, outs = (double)t->out_channels, taps = (double)axis[2].k;
    const double nd = (double)f.points[0], nh = (double)f.points[1];
    const double planes = (double)(t->out[0] + axis[0].k - 1), rows = (double)(t->out[1] + axis[1].k - 1);
    const double read =
        ins * (ogp_fourier_read_cycles(&f, planes) + ogp_fourier_memory_cycles(plan, &f, 2 * planes * rows));
    const double middle = (ins + outs) * ogp_fourier_depth_cycles(&f) + ins * ogp_fourier_history_cycles(&f);
    const double products = outs * nd * nh * (3.4 * ins * taps + 10);
    const double write = outs * (ogp_fourier_write_cycles(&f, (double)t->out[0], 2 * (double)t->out[1]) +
                                 ogp_fourier_memory_cycles(plan, &f, 4 * (double)(t->out[0] * t->out[1])));
    const double pairs = (double)(plan->problem.g * ogp_channels_in(plan) * ogp_channels_out(plan));
    const double cost = task_count(plan, t) * (double)f.vectors_all * (read + middle + products + write) *
                            ogp_fourier_spill(bytes_of(plan, t)) +
                        pairs * ogp_fourier_spectrum_cycles(plan, &f);
    return cost * ogp_tiling_idle(cost, task_count(plan, t));
}

bool ogp_spectral_correlate_prepare(struct ogp_plan *plan, int64_t limit)
{
    const struct tiling start = {
        .in_channels = ogp_channels_in(plan), .out_channels = ogp_channels_out(plan), .splits = 1};
    if (!ogp_fourier_choose(plan, start, ogp_worker_limit(limit) - (int64_t)plan->direct_bytes, bytes_of, cost_of))
        return false;
    const struct fourier f = ogp_fourier(plan, &plan->tiling);
    struct arena shared = {0};
    carve_shared(&shared, plan, &f);
    plan->tasks = (int64_t)task_count(plan, &plan->tiling);
    return (int64_t)shared.bytes <= ogp_shared_limit(limit) &&
           ogp_plan_reserve(plan, limit, shared.bytes, bytes_of(plan, &plan->tiling) + plan->direct_bytes);
}
