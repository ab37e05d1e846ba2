/* SPDX-License-Identifier: Apache-2.0 */
/* First the weights are packed, then a task is a tile of positions of one sample and group. */
#include "pointwise_correlate.h"

#include <math.h>

#include "arena.h"
#include "direct.h"
#include "pointwise.h"
#include "util.h"

/* ---- workspace ---- */

static int64_t block_of(const struct ogp_plan *plan)
{
    return ogp_even_block(ogp_channels_out(plan), plan->kernels->channels_most);
}

/* Packed weights: [group][block of output channels][input channel][output channel of the block]. */
static char *carve_shared(struct arena *a, const struct ogp_plan *plan)
{
    const struct problem *const p = &plan->problem;
    return arena_take(a, (size_t)(p->g * p->ci_g * p->co_g * ogp_dtype_bytes(p->dtype)));
}

struct scratch {
    char *x, *y;     /* rows of a tile: of all input channels, of a block of output channels */
    int64_t *offset; /* of the input channels */
};

static struct scratch carve(struct arena *a, const struct ogp_plan *plan)
{
    const int64_t pitch = ogp_position_pitch(plan, plan->tiling.out[2]) * ogp_dtype_bytes(plan->problem.dtype);
    struct scratch s;
    s.x = arena_take(a, (size_t)(ogp_channels_in(plan) * pitch));
    s.y = arena_take(a, (size_t)(block_of(plan) * pitch));
    s.offset = arena_take(a, (size_t)ogp_channels_in(plan) * sizeof(int64_t));
    return s;
}

/* ---- weights ---- */

/* Task: a block of output channels of a group. */
static void pack_weights(const struct job *job, int64_t at, int worker)
{
    (void)worker;
    const struct ogp_plan *const plan = job->plan;
    const struct problem *const p = &plan->problem;
    const bool adjoint = plan->pass == OGP_GRAD_INPUT;
    const int64_t ins = ogp_channels_in(plan), outs = ogp_channels_out(plan), block = block_of(plan);
    const int64_t blocks = ogp_ceil_div(outs, block), group = at / blocks, first = at % blocks * block;
    const int64_t in_step = adjoint ? job->w.co : job->w.ci, out_step = adjoint ? job->w.ci : job->w.co;
    const int64_t bytes = ogp_dtype_bytes(p->dtype), count = ogp_min(block, outs - first);
    struct arena arena = {.base = job->shared};
    char *to = carve_shared(&arena, plan) + (group * outs + first) * ins * bytes;
    const char *from = job->w.data + (group * p->co_g * job->w.co + first * out_step) * bytes;
    for (int64_t in = 0; in < ins; in++, to += count * bytes, from += in_step * bytes)
        plan->kernels->gather(to, from, count > 1 ? out_step : 1, count);
}

/* ---- one tile ---- */

struct tile {
    const struct job *job;
    const struct ogp_plan *plan;
    struct scratch s;
    const char *w;         /* of the group */
    struct volume in, out; /* of the sample and group */
    int64_t channel;       /* the group's first output channel */
    struct positions positions;
};

static void multiply(const struct tile *t, struct channel_rows y, struct channel_rows x, int64_t first,
                     int64_t channels, int64_t vectors, bool accumulate)
{
    const struct ogp_plan *const plan = t->plan;
    const int64_t ins = ogp_channels_in(plan), bytes = ogp_dtype_bytes(plan->problem.dtype);
    struct ogp_multiply m = {
        .y = y.data, .x = x.data, .y_step = y.step, .taps = 1, .tap = 1, .vectors = vectors, .accumulate = accumulate};
    for (int64_t in = 0; in < ins; in++)
        t->s.offset[in] = in * x.step;
    for (int64_t in = 0; in < ins; in += OGP_LONGEST_SUM, m.accumulate = 1) {
        m.offset = t->s.offset + in;
        m.w = t->w + (first * ins + in * channels) * bytes;
        m.terms = ogp_min(OGP_LONGEST_SUM, ins - in);
        plan->kernels->channels[channels](&m);
    }
}

/* A block of output channels at `whole` positions, whole vectors of them, where they lie. */
static void compute_in_place(const struct tile *t, char *out, struct channel_rows x, int64_t first, int64_t channels,
                             int64_t whole)
{
    const struct ogp_plan *const plan = t->plan;
    const struct line *const b = &t->job->b;
    const int64_t bytes = ogp_dtype_bytes(plan->problem.dtype);
    const struct channel_rows y = {out + first * t->out.c * bytes, t->out.c};
    multiply(t, y, x, first, channels, whole / plan->kernels->lanes, t->job->accumulate);
    for (int64_t c = 0; c < channels && b->data; c++) {
        char *const row = y.data + c * y.step * bytes;
        const double bias = ogp_load(plan->problem.dtype, b->data, (t->channel + first + c) * b->step);
        plan->kernels->unpack_rows(row, 0, row, 0, 1, whole, bias, 0);
    }
}

/* The same for any number of positions, by way of scratch. */
static void compute_apart(const struct tile *t, char *out, struct channel_rows x, int64_t first, int64_t channels,
                          int64_t count)
{
    const struct ogp_plan *const plan = t->plan;
    const int64_t bytes = ogp_dtype_bytes(plan->problem.dtype), pitch = ogp_position_pitch(plan, count);
    const struct channel_rows y = {t->s.y, pitch};
    multiply(t, y, x, first, channels, ogp_ceil_div(count, plan->kernels->lanes), false);
    const struct block block = {channels, {1, 1, count}, pitch, pitch, pitch};
    const struct volume to = {.data = out + first * t->out.c * bytes,
                              .c = t->out.c,
                              .axis = {0, 0, ogp_position_step(&t->positions, &t->out)}};
    const struct span span[3] = {{0, 1, 1}, {0, 1, 1}, {0, 1, count}};
    struct line bias = t->job->b;
    if (bias.data)
        bias.data += (t->channel + first) * bias.step * bytes;
    ogp_unpack(plan, &to, span, y.data, &block, &bias, t->job->accumulate);
}

/* Positions of one row. */
static void compute(const struct tile *t, int64_t at, int64_t count)
{
    const struct ogp_plan *const plan = t->plan;
    const int64_t ins = ogp_channels_in(plan), outs = ogp_channels_out(plan), block = block_of(plan);
    const int64_t bytes = ogp_dtype_bytes(plan->problem.dtype), lanes = plan->kernels->lanes;
    /* more channels are more pages than the first-level table of them holds, and are read by every block of outputs */
    const int64_t most = 48;
    const bool dense = t->positions.dense, in_place = dense && ins <= most;
    const int64_t whole = dense ? count / lanes * lanes : 0, packed = in_place ? whole : 0; /* from there on */
    char *const in = t->in.data + ogp_position_offset(&t->positions, &t->in, at) * bytes;
    char *const out = t->out.data + ogp_position_offset(&t->positions, &t->out, at) * bytes;
    struct channel_rows x = {in, t->in.c}, rest = {0};
    if (packed < count)
        rest = ogp_pack_positions(plan, &t->positions, t->s.x, &t->in, in + packed * bytes, ins, count - packed);
    if (!in_place) {
        x = rest;
        rest.data += whole * bytes;
    }
    for (int64_t first = 0; first < outs; first += block) {
        const int64_t channels = ogp_min(block, outs - first);
        if (whole > 0)
            compute_in_place(t, out, x, first, channels, whole);
        if (whole < count)
            compute_apart(t, out + whole * bytes, rest, first, channels, count - whole);
    }
}

static void run_task(const struct job *job, int64_t at, int worker)
{
    const struct ogp_plan *const plan = job->plan;
    const struct problem *const p = &plan->problem;
    const bool adjoint = plan->pass == OGP_GRAD_INPUT;
    const int64_t tiles = ogp_pointwise_tiles(plan), bytes = ogp_dtype_bytes(p->dtype), columns = plan->tiling.out[2];
    const int64_t ins = ogp_channels_in(plan), outs = ogp_channels_out(plan);
    const int64_t tile = at % tiles, group = at / tiles % p->g, n = at / tiles / p->g;
    struct arena shared = {.base = job->shared}, arena = {.base = ogp_job_scratch(job, worker)};
    struct tile t = {.job = job,
                     .plan = plan,
                     .s = carve(&arena, plan),
                     .in = adjoint ? job->y : job->x,
                     .out = adjoint ? job->x : job->y,
                     .channel = group * outs};
    t.w = carve_shared(&shared, plan) + group * ins * outs * bytes;
    t.positions = ogp_positions(p, &job->x, &job->y);
    t.in.data += (n * t.in.n + group * ins * t.in.c) * bytes;
    t.out.data += (n * t.out.n + group * outs * t.out.c) * bytes;
    const int64_t until = ogp_min((tile + 1) * columns, ogp_position_total(p));
    for (int64_t from = tile * columns, count; from < until; from += count) {
        count = ogp_positions_count(&t.positions, from, until - from);
        compute(&t, from, count);
    }
}

void ogp_pointwise_correlate_run(struct job *job)
{
    const struct ogp_plan *const plan = job->plan;
    ogp_job_each(job, plan->problem.g * ogp_ceil_div(ogp_channels_out(plan), block_of(plan)), pack_weights);
    ogp_job_each(job, plan->tasks, run_task);
}

/* ---- the model ---- */

/* Cycles of a vector of positions of one group. */
static double vector_cycles(const struct ogp_plan *plan)
{
    const double ins = (double)ogp_channels_in(plan), outs = (double)ogp_channels_out(plan),
                 block = (double)block_of(plan);
    return ins * outs / block * fmax(block, 1.5 + block / 3) * 0.55 + 2.5 * outs + 2.5 * ins;
}

bool ogp_pointwise_correlate_prepare(struct ogp_plan *plan, int64_t limit)
{
    const struct problem *const p = &plan->problem;
    const double each = vector_cycles(plan), lanes = (double)plan->kernels->lanes;
    const int64_t ins = ogp_channels_in(plan), outs = ogp_channels_out(plan);
    ogp_pointwise_tile(plan, ins + block_of(plan), each / lanes);
    struct arena shared = {0}, arena = {0};
    carve_shared(&shared, plan);
    carve(&arena, plan);
    plan->tiling.in_channels = ins;
    plan->tiling.out_channels = outs;
    plan->tasks = p->n * p->g * ogp_pointwise_tiles(plan);
    const double calls = (double)plan->tasks * (double)ogp_ceil_div(outs, block_of(plan));
    plan->cost = (double)(p->n * p->g) * (double)ogp_position_total(p) / lanes * each + 60 * calls +
                 2 * (double)(p->co * p->ci_g);
    return (int64_t)shared.bytes <= ogp_shared_limit(limit) && (int64_t)arena.bytes <= ogp_worker_limit(limit) &&
           ogp_plan_reserve(plan, limit, shared.bytes, arena.bytes);
}
