/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over blocks of output channels whose weights fit the shared memory; in each, a task is a few tiles along the
 * height of one sample and group. */
#include "winograd_correlate.h"

#include <math.h>
#include <string.h>

#include "util.h"
#include "winograd_output.h"
#include "winograd_weights.h"

/* ---- workspace ---- */

static struct winograd_shared carve_shared(struct arena *a, const struct ogp_plan *plan, const struct tiling *t,
                                           const struct winograd *f)
{
    struct winograd_shared s = {.group = ogp_channels_in(plan) * t->out_channels * f->taps};
    s.bin = ogp_odd_lines(plan->problem.g * s.group, f->bytes);
    s.unfit = arena_take(a, sizeof *s.unfit);
    s.first = arena_take(a, sizeof *s.first);
    s.weights = arena_take(a, (size_t)(f->bins * s.bin * f->bytes));
    return s;
}

static struct winograd_scratch carve(struct arena *a, const struct ogp_plan *plan, const struct tiling *t,
                                     const struct winograd *f)
{
    const int64_t ins = ogp_channels_in(plan);
    struct winograd_scratch s = {.x_bin = ogp_odd_lines(ins * f->x_row, f->bytes),
                                 .y_channel = ogp_odd_lines(f->bins * f->y_row, f->bytes)};
    s.x = arena_take(a, (size_t)(f->bins * s.x_bin * f->bytes));
    s.y = arena_take(a, (size_t)(t->together * s.y_channel * f->bytes));
    s.loud = arena_take(a, (size_t)ogp_winograd_loud_bytes(f));
    s.out = arena_take(a, (size_t)((f->outs[0] * f->outs[1] + 1) * f->y_row * f->bytes));
    s.to = arena_take(a, (size_t)(f->outs[0] * f->outs[1]) * sizeof(void *));
    s.zero = arena_take(a, (size_t)(f->bins * f->reach));
    s.offset = arena_take(a, (size_t)ins * sizeof(int64_t));
    ogp_winograd_carve_reader(a, f, &s.reader);
    return s;
}

/* ---- weights ---- */

static int64_t pass_channels(const struct ogp_plan *plan, const struct winograd_shared *s)
{
    return ogp_min(plan->tiling.out_channels, ogp_channels_out(plan) - *s->first);
}

/* The weights of output channel `out` of a group, in the roles of the pass. */
static struct weights weights_of(const struct job *job, int64_t group, int64_t out)
{
    const struct problem *const p = &job->plan->problem;
    const bool adjoint = job->plan->pass == OGP_GRAD_INPUT;
    struct weights w = job->w;
    if (adjoint) {
        w.co = job->w.ci;
        w.ci = job->w.co;
    }
    w.data += (group * p->co_g * job->w.co + out * w.co) * ogp_dtype_bytes(p->dtype);
    return w;
}

/* Task: all input channels of one output channel of the pass. */
static void transform_weights(const struct job *job, int64_t at, int worker)
{
    const struct ogp_plan *const plan = job->plan;
    const struct winograd f = ogp_winograd(plan, &plan->tiling);
    struct arena arena = {.base = job->shared};
    const struct winograd_shared s = carve_shared(&arena, plan, &plan->tiling, &f);
    const int64_t outs = pass_channels(plan, &s), ins = ogp_channels_in(plan), group = at / outs, out = at % outs;
    const int64_t block = ogp_winograd_block(plan), channels = ogp_winograd_block_channels(plan, out, outs);
    double *const bins = (double *)(void *)ogp_job_scratch(job, worker);
    struct weights w = weights_of(job, group, *s.first + out);
    struct piece piece[3];
    for (int a = 0; a < 3; a++)
        piece[a] = ogp_whole_piece(&plan->lattice[a], 0);
    double largest = 0;
    char *const first = s.weights + (group * s.group + out / block * block * ins * f.taps) * f.bytes;
    for (int64_t in = 0; in < ins; in++, w.data += w.ci * f.bytes) {
        largest = fmax(largest, ogp_winograd_of_weights(plan, &f, bins, &w, piece));
        for (int64_t b = 0; b < f.bins; b++)
            for (int64_t t = 0; t < f.taps; t++)
                ogp_store(plan->problem.dtype, first, b * s.bin + (in * f.taps + t) * channels + out % block,
                          bins[b * f.taps + t]);
    }
    if (!ogp_winograd_in_range(plan->problem.dtype, largest))
        atomic_store_explicit(s.unfit, 1, memory_order_relaxed);
}

/* ---- one tile ---- */

static void aim(const struct winograd_tile *tile)
{
    const struct ogp_plan *const plan = tile->plan;
    const bool adjoint = plan->pass == OGP_GRAD_INPUT;
    struct winograd_reader *const r = &tile->s->reader;
    r->plan = plan;
    r->winograd = tile->f;
    r->volume = adjoint ? tile->job->y : tile->job->x;
    r->volume.data +=
        (tile->place.n * r->volume.n + tile->place.group * ogp_channels_in(plan) * r->volume.c) * tile->f->bytes;
    for (int a = 0; a < 3; a++)
        r->sampling[a] = ogp_winograd_sampling(plan, tile->f, a, tile->span[a]);
    ogp_winograd_aim(r, false);
}

static void go_direct(const struct winograd_tile *tile)
{
    const struct ogp_plan direct = ogp_direct_plan(tile->plan);
    ogp_correlate_spans(tile->job, &direct, tile->direct, tile->place, tile->span);
}

static void run_tile(struct winograd_tile *tile)
{
    const struct winograd *const f = tile->f;
    struct winograd_scratch *const s = tile->s;
    const int64_t ins = ogp_channels_in(tile->plan);
    if (atomic_load_explicit(tile->shared->unfit, memory_order_relaxed)) {
        go_direct(tile);
        return;
    }
    aim(tile);
    memset(s->loud, 0, (size_t)ogp_winograd_loud_bytes(f));
    for (int64_t in = 0; in < ins; in++) {
        if (in + 1 < ins)
            ogp_winograd_foresee(&s->reader, in + 1);
        ogp_winograd_read(&s->reader, in, s->x + in * f->x_row * f->bytes, s->x_bin, s->loud);
    }
    const struct winograd_finding found = ogp_winograd_judge(&s->reader, s->loud);
    ogp_job_tally(tile->job, !found.fits);
    if (!found.fits) {
        go_direct(tile);
        return;
    }
    tile->muted = found.zeros && ogp_winograd_find_muted(tile);
    ogp_winograd_write(tile);
}

/* ---- tasks ---- */

static void run_task(const struct job *job, int64_t at, int worker)
{
    const struct ogp_plan *const plan = job->plan;
    const struct tiling *const t = &plan->tiling;
    const struct winograd f = ogp_winograd(plan, t);
    struct arena shared_arena = {.base = job->shared}, arena = {.base = ogp_job_scratch(job, worker)};
    const struct winograd_shared shared = carve_shared(&shared_arena, plan, t, &f);
    struct winograd_scratch scratch = carve(&arena, plan, t, &f);
    struct winograd_tile tile = {.job = job, .plan = plan, .f = &f, .shared = &shared, .s = &scratch};
    const int64_t down = ogp_winograd_tiles(plan, t, 0), across = ogp_winograd_tiles(plan, t, 1);
    const int64_t runs = ogp_ceil_div(across, t->run), run = at % runs;
    at /= runs;
    tile.direct = ogp_job_scratch(job, worker) + plan->worker_bytes - plan->direct_bytes;
    tile.span[0] = ogp_winograd_span(plan, 0, at % down);
    at /= down;
    tile.place =
        (struct place){at / plan->problem.g, at % plan->problem.g, *shared.first, pass_channels(plan, &shared)};
    for (int64_t in = 0; in < ogp_channels_in(plan); in++)
        scratch.offset[in] = in * f.x_row;
    const struct span width = {0, 1, plan->lattice[2].out_extent};
    for (int64_t h = run * t->run; h < (run + 1) * t->run && h < across; h++) {
        tile.span[1] = ogp_winograd_span(plan, 1, h);
        for (int64_t c = 0; ogp_span_cut(width, f.columns, c, &tile.span[2]); c++)
            if (tile.span[0].count > 0 && tile.span[1].count > 0)
                run_tile(&tile);
    }
}

void ogp_winograd_correlate_run(struct job *job)
{
    const struct ogp_plan *const plan = job->plan;
    const struct winograd f = ogp_winograd(plan, &plan->tiling);
    struct arena arena = {.base = job->shared};
    const struct winograd_shared s = carve_shared(&arena, plan, &plan->tiling, &f);
    for (*s.first = 0; *s.first < ogp_channels_out(plan); *s.first += plan->tiling.out_channels) {
        atomic_init(s.unfit, 0);
        ogp_job_each(job, plan->problem.g * pass_channels(plan, &s), transform_weights);
        ogp_job_each(job, plan->tasks, run_task);
    }
}

/* ---- the model ---- */

static size_t bytes_of(const struct ogp_plan *plan, const struct tiling *t)
{
    const struct winograd f = ogp_winograd(plan, t);
    struct arena arena = {0};
    carve(&arena, plan, t, &f);
    const size_t weights = (size_t)ogp_winograd_weights_scratch(&f) * sizeof(double);
    return arena.bytes > weights ? arena.bytes : weights;
}

static int64_t tile_count(const struct ogp_plan *plan, const struct tiling *t)
{
    return plan->problem.n * plan->problem.g * ogp_winograd_tiles(plan, t, 0) * ogp_winograd_tiles(plan, t, 1);
}

static double cost_of(const struct ogp_plan *plan, const struct tiling *t)
{
    const struct winograd f = ogp_winograd(plan, t);
    const double ins = (double)ogp_channels_in(plan), outs = (double)ogp_channels_out(plan), bins = (double)f.bins;
    const double passes = (double)ogp_ceil_div(ogp_channels_out(plan), t->out_channels);
    const double block =
        (double)ogp_even_block(ogp_min(t->together, ogp_channels_out(plan)), plan->kernels->channels_most);
    const double vectors = (double)ogp_ceil_div(plan->lattice[2].out_extent, plan->kernels->lanes);
    const double chunks = (double)f.chunks, rows = (double)(f.outs[0] * f.outs[1]);
    const double line = (double)(plan->kernels->lanes * f.bytes) / 64;
    const double read = passes * ins * chunks * ogp_winograd_read_cycles(plan, &f, false);
    const double slots = fmax(block, 1 + block / 3 + 1.5 * line);
    const double products =
        bins * outs / block * (vectors * ins * (double)f.taps * 0.5 * slots * 1.15 + chunks * (30 + 2 * block));
    const double write = outs * (vectors * (2.5 * bins + 2 * rows + 8 * rows * line) + chunks * (4 * rows + 40));
    const double weights = (double)plan->problem.g * ins * outs * (double)f.taps * (bins * 8 + 60);
    return (double)tile_count(plan, t) * (read + products * ogp_winograd_spill((int64_t)bytes_of(plan, t)) + write) +
           weights;
}

/* The most output channels of a pass whose weights fit, in whole blocks of those that are transformed together. */
static bool fit_pass(const struct ogp_plan *plan, struct tiling *t, int64_t limit)
{
    for (t->out_channels = ogp_channels_out(plan);; t->out_channels = ogp_round_up(t->out_channels / 2, t->together)) {
        const struct winograd f = ogp_winograd(plan, t);
        struct arena shared = {0};
        carve_shared(&shared, plan, t, &f);
        if ((int64_t)shared.bytes <= limit)
            return true;
        if (t->out_channels <= t->together)
            return false;
    }
}

/* Tiles of the height to a task: as few as are worth the handling, where that leaves enough tasks. */
static int64_t run_of(const struct ogp_plan *plan, double tiles)
{
    const double wanted = 2e5, each = plan->cost / tiles;
    return (int64_t)fmax(1, fmin(wanted / each, fmin(16, tiles / 64)));
}

bool ogp_winograd_correlate_prepare(struct ogp_plan *plan, int64_t limit)
{
    const int64_t outs = ogp_channels_out(plan), blocks = 4 * plan->kernels->channels_most;
    const struct tiling start = {.in_channels = ogp_channels_in(plan),
                                 .out_channels = outs,
                                 .together = ogp_min(outs, blocks),
                                 .splits = 1,
                                 .columns = plan->kernels->lanes};
    if (!ogp_winograd_choose(plan, start, ogp_worker_limit(limit) - (int64_t)plan->direct_bytes, bytes_of, cost_of))
        return false;
    struct tiling *const t = &plan->tiling;
    if (!fit_pass(plan, t, ogp_shared_limit(limit)))
        return false;
    plan->cost = cost_of(plan, t);
    t->run = run_of(plan, (double)tile_count(plan, t));
    const struct winograd f = ogp_winograd(plan, t);
    struct arena shared = {0};
    carve_shared(&shared, plan, t, &f);
    plan->tasks = plan->problem.n * plan->problem.g * ogp_winograd_tiles(plan, t, 0) *
                  ogp_ceil_div(ogp_winograd_tiles(plan, t, 1), t->run);
    return ogp_plan_reserve(plan, limit, shared.bytes, bytes_of(plan, t) + plan->direct_bytes);
}
