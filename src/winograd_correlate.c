/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over blocks of output channels whose weights fit the shared memory; in each, a task is a few tiles along the
 * height of one sample and group. */
#include "winograd_correlate.h"

#include <math.h>
#include <string.h>

#include "correlate.h"
#include "util.h"
#include "winograd_weights.h"

/* ---- workspace ---- */

/* Weights of a pass: [bin][group][block of output channels][input channel][width tap][output channel of the block]. */
struct shared {
    atomic_int *unfit; /* the weights allow no transform */
    int64_t *first;    /* output channel of the pass, in each group */
    char *weights;
    int64_t bin, group; /* elements */
};

static struct shared carve_shared(struct arena *a, const struct ogp_plan *plan, const struct tiling *t,
                                  const struct winograd *f)
{
    struct shared s = {.group = ogp_channels_in(plan) * t->out_channels * f->taps};
    s.bin = ogp_odd_lines(plan->problem.g * s.group, f->bytes);
    s.unfit = arena_take(a, sizeof *s.unfit);
    s.first = arena_take(a, sizeof *s.first);
    s.weights = arena_take(a, (size_t)(f->bins * s.bin * f->bytes));
    return s;
}

struct scratch {
    struct winograd_reader reader;
    char *x, *y;    /* [bin][input channel], [output channel][bin] */
    char *loud;     /* segments */
    char *out;      /* rows that do not go to the output as they are, and one that goes nowhere */
    const void **to; /* rows of a tile */
    uint8_t *zero;  /* elements that are zero in all channels; later outputs whose window is */
    int64_t *offset;
    int64_t x_bin, y_channel; /* elements */
};

static struct scratch carve(struct arena *a, const struct ogp_plan *plan, const struct tiling *t,
                            const struct winograd *f)
{
    const int64_t ins = ogp_channels_in(plan);
    struct scratch s = {.x_bin = ogp_odd_lines(ins * f->x_row, f->bytes),
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

static int64_t channel_block(const struct ogp_plan *plan)
{
    return ogp_even_block(ogp_min(plan->tiling.together, ogp_channels_out(plan)), plan->kernels->channels_most);
}

/* Outputs channels of a block that starts at `out` of the pass's `outs`. */
static int64_t block_channels(const struct ogp_plan *plan, int64_t out, int64_t outs)
{
    const int64_t block = channel_block(plan);
    return ogp_min(block, outs - out / block * block);
}

static int64_t pass_channels(const struct ogp_plan *plan, const struct shared *s)
{
    return ogp_min(plan->tiling.out_channels, ogp_channels_out(plan) - *s->first);
}

static void store(enum ogp_dtype dtype, char *out, int64_t at, double value)
{
    if (dtype == OGP_F32)
        ((float *)(void *)out)[at] = (float)value;
    else
        ((double *)(void *)out)[at] = value;
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
    const struct shared s = carve_shared(&arena, plan, &plan->tiling, &f);
    const int64_t outs = pass_channels(plan, &s), ins = ogp_channels_in(plan), group = at / outs, out = at % outs;
    const int64_t block = channel_block(plan), channels = block_channels(plan, out, outs);
    double *const bins = (double *)(void *)ogp_job_scratch(job, worker);
    struct weights w = weights_of(job, group, *s.first + out);
    struct piece piece[3];
    for (int a = 0; a < 3; a++)
        piece[a] = ogp_winograd_piece(&plan->lattice[a], (struct span){0, 1, 1});
    double largest = 0;
    char *const first = s.weights + (group * s.group + out / block * block * ins * f.taps) * f.bytes;
    for (int64_t in = 0; in < ins; in++, w.data += w.ci * f.bytes) {
        largest = fmax(largest, ogp_winograd_of_weights(plan, &f, bins, &w, piece));
        for (int64_t b = 0; b < f.bins; b++)
            for (int64_t t = 0; t < f.taps; t++)
                store(plan->problem.dtype, first, b * s.bin + (in * f.taps + t) * channels + out % block,
                      bins[b * f.taps + t]);
    }
    if (!ogp_winograd_in_range(plan->problem.dtype, largest))
        atomic_store_explicit(s.unfit, 1, memory_order_relaxed);
}

/* ---- one tile ---- */

struct tile {
    const struct job *job;
    const struct ogp_plan *plan;
    const struct winograd *f;
    const struct shared *shared;
    struct scratch *s;
    char *direct; /* scratch of the direct plan */
    struct place place;
    struct span span[3]; /* the width: of the chunk */
    bool muted;          /* s->zero says which outputs are exactly the bias */
};

static void aim(const struct tile *tile)
{
    const struct ogp_plan *const plan = tile->plan;
    const bool adjoint = plan->pass == OGP_GRAD_INPUT;
    struct winograd_reader *const r = &tile->s->reader;
    r->plan = plan;
    r->winograd = tile->f;
    r->volume = adjoint ? tile->job->y : tile->job->x;
    r->volume.data +=
        (tile->place.n * r->volume.n + tile->place.group * ogp_channels_in(plan) * r->volume.c) * tile->f->bytes;
    for (int a = 0; a < 3; a++) {
        const struct piece piece = ogp_winograd_piece(&plan->lattice[a], tile->span[a]);
        r->sampling[a] = (struct sampling){piece.in0, piece.in_step, tile->span[a].count + piece.taps - 1,
                                           plan->lattice[a].in_extent, adjoint ? OGP_ZEROS : plan->lattice[a].padding};
    }
    ogp_winograd_aim(r, false);
}

/* Keeps of zero those columns at which a run of `taps` begins, of rows and planes likewise, and sums up what is left. */
static bool erode(const struct winograd *f, uint8_t *zero)
{
    const int64_t nh = f->points[1], width = f->reach;
    uint8_t any = 0;
    for (int64_t k = 0; k < f->bins; k++)
        for (int64_t i = 0; i < f->columns; i++)
            for (int64_t t = 1; t < f->taps; t++)
                zero[k * width + i] &= zero[k * width + i + t];
    for (int64_t d = 0; d < f->points[0]; d++)
        for (int64_t h = 0; h < f->outs[1]; h++)
            for (int64_t t = 1; t < nh - f->outs[1] + 1; t++)
                for (int64_t i = 0; i < f->columns; i++)
                    zero[(d * nh + h) * width + i] &= zero[(d * nh + h + t) * width + i];
    for (int64_t d = 0; d < f->outs[0]; d++)
        for (int64_t h = 0; h < f->outs[1]; h++)
            for (int64_t i = 0; i < f->columns; i++) {
                for (int64_t t = 1; t < f->points[0] - f->outs[0] + 1; t++)
                    zero[(d * nh + h) * width + i] &= zero[((d + t) * nh + h) * width + i];
                any |= zero[(d * nh + h) * width + i];
            }
    return any != 0;
}

/* Whether outputs of the tile have a window that is zero in every input channel: which, in s->zero. */
static bool find_muted(const struct tile *tile)
{
    const struct winograd *const f = tile->f;
    memset(tile->s->zero, 1, (size_t)(f->bins * f->reach));
    for (int64_t in = 0; in < ogp_channels_in(tile->plan); in++)
        ogp_winograd_zeros(&tile->s->reader, in, tile->s->zero);
    return erode(f, tile->s->zero);
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

/* All bins of output channels [out, out + count) of the pass. */
static void multiply(const struct tile *tile, int64_t out, int64_t count)
{
    const struct ogp_plan *const plan = tile->plan;
    const struct winograd *const f = tile->f;
    const struct scratch *const s = tile->s;
    const int64_t ins = ogp_channels_in(plan), most = ogp_max(1, OGP_WINOGRAD_SUM / f->taps);
    const int64_t block = channel_block(plan), outs = tile->place.channels;
    struct ogp_multiply m = {.offset = s->offset,
                             .y_step = s->y_channel,
                             .taps = f->taps,
                             .vectors = ogp_ceil_div(tile->span[2].count, plan->kernels->lanes)};
    for (int64_t b = 0; b < f->bins; b++)
        for (int64_t c = 0; c < count; c += block) {
            const int64_t channels = block_channels(plan, out + c, outs);
            const char *const w = tile->shared->weights +
                                  (b * tile->shared->bin + tile->place.group * tile->shared->group +
                                   (out + c) * ins * f->taps) *
                                      f->bytes;
            m.y = s->y + (c * s->y_channel + b * f->y_row) * f->bytes;
            m.accumulate = 0;
            for (int64_t in = 0; in < ins; in += most, m.accumulate = 1) {
                m.terms = ogp_min(most, ins - in);
                m.x = s->x + (b * s->x_bin + in * f->x_row) * f->bytes;
                m.w = w + in * f->taps * channels * f->bytes;
                plan->kernels->channels[channels](&m);
            }
        }
}

static void mute(const struct tile *tile, char *row, const uint8_t *zero)
{
    for (int64_t i = 0; i < tile->span[2].count; i++)
        if (zero[i])
            store(tile->plan->problem.dtype, row, i, 0);
}

/* Rows of the tile from scratch to the output, from column `from` on. */
static void scatter(const struct tile *tile, char *data, const struct volume *out, int64_t from, double bias)
{
    const struct winograd *const f = tile->f;
    const int64_t count = tile->span[2].count - from;
    for (int64_t d = 0; d < tile->span[0].count; d++)
        for (int64_t h = 0; h < tile->span[1].count; h++) {
            char *const row = tile->s->out + (d * f->outs[1] + h) * f->y_row * f->bytes;
            if (tile->muted)
                mute(tile, row, tile->s->zero + (d * f->points[1] + h) * f->reach);
            tile->plan->kernels->scatter(data + ((d ? tile->span[0].step * d : 0) * out->axis[0] +
                                                 (h ? tile->span[1].step * h : 0) * out->axis[1] +
                                                 from * out->axis[2]) *
                                                    f->bytes,
                                         count > 1 ? out->axis[2] : 1, row + from * f->bytes, count, bias,
                                         tile->job->accumulate);
        }
}

/* Transforms the columns of one channel back: whole vectors straight into the output where rows lie there as they do
 * here, the rest by way of scratch. */
static void write_channel(const struct tile *tile, int64_t out_channel, const char *bins, double bias)
{
    const struct ogp_plan *const plan = tile->plan;
    const struct winograd *const f = tile->f;
    const int64_t lanes = plan->kernels->lanes, rows = f->outs[0] * f->outs[1];
    const struct span *const span = tile->span;
    struct volume out = plan->pass == OGP_GRAD_INPUT ? tile->job->x : tile->job->y;
    char *const data = out.data + (tile->place.n * out.n +
                                   (tile->place.group * ogp_channels_out(plan) + out_channel) * out.c +
                                   span[0].start * out.axis[0] + span[1].start * out.axis[1] +
                                   span[2].start * out.axis[2]) *
                                      f->bytes;
    const bool straight = out.axis[2] == 1 && !tile->job->accumulate && !tile->muted;
    const int64_t whole = straight ? span[2].count / lanes : 0, all = ogp_ceil_div(span[2].count, lanes);
    struct ogp_winograd m = {.rows = tile->s->to, .bins = (char *)(uintptr_t)bins, .bin = f->y_row, .vectors = whole, .bias = bias};
    for (int64_t k = 0; k < rows && whole > 0; k++) {
        const int64_t d = k / f->outs[1], h = k % f->outs[1];
        tile->s->to[k] = d < span[0].count && h < span[1].count
                             ? data + ((d ? span[0].step * d : 0) * out.axis[0] +
                                       (h ? span[1].step * h : 0) * out.axis[1]) *
                                          f->bytes
                             : tile->s->out + rows * f->y_row * f->bytes;
    }
    if (whole > 0)
        f->row->inverse(&m);
    if (whole == all)
        return;
    for (int64_t k = 0; k < rows; k++)
        tile->s->to[k] = tile->s->out + (k * f->y_row + whole * lanes) * f->bytes;
    m.bins = (char *)(uintptr_t)bins + whole * lanes * f->bytes;
    m.vectors = all - whole;
    m.bias = 0;
    f->row->inverse(&m);
    scatter(tile, data, &out, whole * lanes, bias);
}

static void write_tile(const struct tile *tile)
{
    const struct ogp_plan *const plan = tile->plan;
    const struct line *const b = &tile->job->b;
    for (int64_t out = 0; out < tile->place.channels; out += plan->tiling.together) {
        const int64_t count = ogp_min(plan->tiling.together, tile->place.channels - out);
        multiply(tile, out, count);
        for (int64_t c = 0; c < count; c++) {
            const int64_t channel = tile->place.channel + out + c;
            const double bias = b->data ? ogp_load(plan->problem.dtype, b->data,
                                                   (tile->place.group * ogp_channels_out(plan) + channel) * b->step)
                                        : 0;
            write_channel(tile, channel, tile->s->y + c * tile->s->y_channel * tile->f->bytes, bias);
        }
    }
}

static void go_direct(const struct tile *tile)
{
    const struct ogp_plan direct = ogp_winograd_direct(tile->plan);
    ogp_correlate_spans(tile->job, &direct, tile->direct, tile->place, tile->span);
}

static void run_tile(struct tile *tile)
{
    const struct winograd *const f = tile->f;
    struct scratch *const s = tile->s;
    aim(tile);
    memset(s->loud, 0, (size_t)ogp_winograd_loud_bytes(f));
    for (int64_t in = 0; in < ogp_channels_in(tile->plan); in++)
        ogp_winograd_read(&s->reader, in, s->x + in * f->x_row * f->bytes, s->x_bin, s->loud);
    const struct winograd_finding found = ogp_winograd_judge(&s->reader, s->loud);
    ogp_job_tally(tile->job, !found.fits);
    if (!found.fits) {
        go_direct(tile);
        return;
    }
    tile->muted = (found.zeros || leaves_tensor(tile->plan)) && find_muted(tile);
    write_tile(tile);
}

/* ---- tasks ---- */

static void run_task(const struct job *job, int64_t at, int worker)
{
    const struct ogp_plan *const plan = job->plan;
    const struct tiling *const t = &plan->tiling;
    const struct winograd f = ogp_winograd(plan, t);
    struct arena shared_arena = {.base = job->shared}, arena = {.base = ogp_job_scratch(job, worker)};
    const struct shared shared = carve_shared(&shared_arena, plan, t, &f);
    struct scratch scratch = carve(&arena, plan, t, &f);
    struct tile tile = {.job = job, .plan = plan, .f = &f, .shared = &shared, .s = &scratch};
    const int64_t down = ogp_winograd_tiles(plan, t, 0), across = ogp_winograd_tiles(plan, t, 1);
    const int64_t runs = ogp_ceil_div(across, t->run), run = at % runs;
    at /= runs;
    tile.direct = ogp_job_scratch(job, worker) + plan->worker_bytes - plan->direct_bytes;
    tile.span[0] = ogp_winograd_span(plan, 0, at % down);
    at /= down;
    tile.place = (struct place){at / plan->problem.g, at % plan->problem.g, *shared.first, pass_channels(plan, &shared)};
    for (int64_t in = 0; in < ogp_channels_in(plan); in++)
        scratch.offset[in] = in * f.x_row;
    for (int64_t h = run * t->run; h < (run + 1) * t->run && h < across; h++) {
        tile.span[1] = ogp_winograd_span(plan, 1, h);
        const struct span width = {0, 1, plan->lattice[2].out_extent};
        for (int64_t c = 0; ogp_span_cut(width, f.columns, c, &tile.span[2]); c++)
            if (tile.span[0].count == 0 || tile.span[1].count == 0)
                continue;
            else if (atomic_load_explicit(shared.unfit, memory_order_relaxed))
                go_direct(&tile);
            else
                run_tile(&tile);
    }
}

void ogp_winograd_correlate_run(struct job *job)
{
    const struct ogp_plan *const plan = job->plan;
    const struct winograd f = ogp_winograd(plan, &plan->tiling);
    struct arena arena = {.base = job->shared};
    const struct shared s = carve_shared(&arena, plan, &plan->tiling, &f);
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
    const double block = (double)ogp_even_block(ogp_min(t->together, ogp_channels_out(plan)), plan->kernels->channels_most);
    const double vectors = (double)ogp_ceil_div(plan->lattice[2].out_extent, plan->kernels->lanes);
    const double chunks = (double)f.chunks, rows = (double)(f.outs[0] * f.outs[1]);
    const double line = (double)(plan->kernels->lanes * f.bytes) / 64;
    const double read = passes * ins * chunks * ogp_winograd_read_cycles(plan, &f, false);
    const double slots = fmax(block, 1 + block / 3 + 1.5 * line);
    const double products = bins * outs / block * (vectors * ins * (double)f.taps * 0.5 * slots * 1.15 + chunks * (30 + 2 * block));
    const double write = outs * (vectors * (2.5 * bins + 2 * rows + 8 * rows * line) + chunks * (4 * rows + 40));
    const double weights = (double)plan->problem.g * ins * outs * (double)f.taps * (bins * 8 + 60);
    return (double)tile_count(plan, t) * (read + products * ogp_winograd_spill((int64_t)bytes_of(plan, t)) + write) + weights;
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
    plan->shared_bytes = shared.bytes;
    plan->worker_bytes = bytes_of(plan, t) + plan->direct_bytes;
    plan->workers_most = (limit - OGP_ALIGN - (int64_t)plan->shared_bytes) / (int64_t)plan->worker_bytes;
    plan->tasks = plan->problem.n * plan->problem.g * ogp_winograd_tiles(plan, t, 0) *
                  ogp_ceil_div(ogp_winograd_tiles(plan, t, 1), t->run);
    return plan->workers_most >= 1;
}
