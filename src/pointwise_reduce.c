/* SPDX-License-Identifier: Apache-2.0 */
/* A task is one split of the positions of all samples, for a block of pairs of channels. */
#include "pointwise_reduce.h"

#include <math.h>
#include <string.h>

#include "direct.h"
#include "partial.h"
#include "pointwise.h"
#include "util.h"

/* ---- workspace ---- */

struct scratch {
    char *x, *gy; /* rows of a tile */
    double *sum;  /* [output channel][input channel] */
};

static struct scratch carve(struct arena *a, const struct ogp_plan *plan)
{
    const struct tiling *const t = &plan->tiling;
    const int64_t pitch = ogp_position_pitch(plan, t->out[2]) * ogp_dtype_bytes(plan->problem.dtype);
    struct scratch s;
    s.x = arena_take(a, (size_t)(t->in_channels * pitch));
    s.gy = arena_take(a, (size_t)(t->out_channels * pitch));
    s.sum = arena_take(a, (size_t)(t->in_channels * t->out_channels) * sizeof(double));
    return s;
}

/* ---- one task ---- */

struct task {
    const struct job *job;
    const struct ogp_plan *plan;
    struct scratch s;
    struct pairs pairs;
    struct positions positions;
    double *bias; /* sums of gy of the output channels, or NULL */
};

/* Adds the products at n positions. Scratch is zero up to the next vector. */
static void multiply(const struct task *t, struct channel_rows x, struct channel_rows gy, int64_t n)
{
    const struct ogp_kernels *const k = t->plan->kernels;
    const int64_t bytes = ogp_dtype_bytes(t->plan->problem.dtype), ins = t->pairs.ins, outs = t->pairs.outs;
    const int64_t across = ogp_even_block(outs, k->channels_most), down = ogp_even_block(ins, k->reduce_channels_taps);
    double part[OGP_CHANNELS_MOST * OGP_TAPS_MOST];
    struct ogp_reduce m = {
        .sum = part, .gy_channel = gy.step, .tap = x.step, .planes = 1, .rows = 1, .n = ogp_round_up(n, k->lanes)};
    for (int64_t co = 0; co < outs; co += across)
        for (int64_t ci = 0; ci < ins; ci += down) {
            const int64_t channels = ogp_min(across, outs - co), taps = ogp_min(down, ins - ci);
            memset(part, 0, sizeof part);
            m.gy = gy.data + co * gy.step * bytes;
            m.x = x.data + ci * x.step * bytes;
            k->reduce_channels[channels][taps](&m);
            ogp_place_sums(t->s.sum + co * ins + ci, ins, 1, part, channels, taps);
        }
}

/* Positions of one row of a sample. */
static void add(const struct task *t, const struct volume *x, const struct volume *gy, int64_t at, int64_t count)
{
    const int64_t bytes = ogp_dtype_bytes(t->plan->problem.dtype), lanes = t->plan->kernels->lanes;
    const int64_t ins = t->pairs.ins, outs = t->pairs.outs;
    char *const x_at = x->data + ogp_position_offset(&t->positions, x, at) * bytes;
    char *const gy_at = gy->data + ogp_position_offset(&t->positions, gy, at) * bytes;
    const int64_t whole = t->positions.dense ? count / lanes * lanes : 0, rest = count - whole;
    for (int64_t c = 0; c < outs && t->bias; c++)
        t->bias[c] += t->plan->kernels->sum(gy_at + c * gy->c * bytes, ogp_position_step(&t->positions, gy), count);
    if (whole > 0)
        multiply(t, (struct channel_rows){x_at, x->c}, (struct channel_rows){gy_at, gy->c}, whole);
    if (rest > 0)
        multiply(t, ogp_pack_positions(t->plan, &t->positions, t->s.x, x, x_at + whole * bytes, ins, rest),
                 ogp_pack_positions(t->plan, &t->positions, t->s.gy, gy, gy_at + whole * bytes, outs, rest), rest);
}

static void run_task(const struct job *job, int64_t at, int worker)
{
    const struct ogp_plan *const plan = job->plan;
    const struct problem *const p = &plan->problem;
    const struct tiling *const tiling = &plan->tiling;
    const int64_t bytes = ogp_dtype_bytes(p->dtype), each = ogp_pointwise_tiles(plan), tiles = p->n * each;
    const int64_t split = at % tiling->splits, total = ogp_position_total(p);
    struct arena arena = {.base = ogp_job_scratch(job, worker)};
    struct task t = {.job = job, .plan = plan, .s = carve(&arena, plan)};
    t.pairs = ogp_pairs_at(plan, tiling, at / tiling->splits);
    t.positions = ogp_positions(p, &job->x, &job->y);
    if (job->b.data && t.pairs.ci == 0)
        t.bias = ogp_partials_bias(job, &t.pairs, split);
    memset(t.s.sum, 0, (size_t)(t.pairs.ins * t.pairs.outs) * sizeof(double));
    for (int64_t k = tiles * split / tiling->splits; k < tiles * (split + 1) / tiling->splits; k++) {
        struct volume x = job->x, gy = job->y;
        x.data += (k / each * x.n + (t.pairs.group * p->ci_g + t.pairs.ci) * x.c) * bytes;
        gy.data += (k / each * gy.n + (t.pairs.group * p->co_g + t.pairs.co) * gy.c) * bytes;
        const int64_t until = ogp_min((k % each + 1) * tiling->out[2], total);
        for (int64_t from = k % each * tiling->out[2], count; from < until; from += count) {
            count = ogp_positions_count(&t.positions, from, until - from);
            add(&t, &x, &gy, from, count);
        }
    }
    ogp_partials_put(job, &t.pairs, split, NULL, t.s.sum, 1);
}

void ogp_pointwise_reduce_run(struct job *job)
{
    ogp_job_each(job, job->plan->tasks, run_task);
    ogp_partials_add(job);
}

/* ---- the model ---- */

/* Cycles of a vector of positions for a block of pairs. */
static double vector_cycles(const struct ogp_plan *plan)
{
    const double ins = (double)plan->tiling.in_channels, outs = (double)plan->tiling.out_channels;
    const double across = (double)ogp_even_block(plan->tiling.out_channels, plan->kernels->channels_most);
    const double down = (double)ogp_even_block(plan->tiling.in_channels, plan->kernels->reduce_channels_taps);
    return ins * outs / (across * down) * fmax(across * down, 1.5 * (across + down)) * 0.7 + 7 * (ins + outs);
}

bool ogp_pointwise_reduce_prepare(struct ogp_plan *plan, int64_t limit)
{
    const struct problem *const p = &plan->problem;
    const int64_t most = 64; /* channels of a block: their rows and sums stay in the second-level cache */
    struct tiling *const t = &plan->tiling;
    t->in_channels = ogp_even_block(p->ci_g, most);
    t->out_channels = ogp_even_block(p->co_g, most);
    t->all_pieces = true;
    ogp_pointwise_tile(plan, t->in_channels + t->out_channels, vector_cycles(plan) / (double)plan->kernels->lanes);
    const int64_t blocks = ogp_pairs_blocks(plan, t), tiles = p->n * ogp_pointwise_tiles(plan);
    t->splits = ogp_partials_splits(plan, (double)blocks, tiles, ogp_shared_limit(limit));
    struct arena shared = {0}, arena = {0};
    ogp_partials_carve(&shared, plan, t->splits);
    carve(&arena, plan);
    plan->tasks = blocks * t->splits;
    const double calls = (double)(tiles * blocks) *
                         (double)ogp_ceil_div(t->in_channels, plan->kernels->reduce_channels_taps) *
                         (double)ogp_ceil_div(t->out_channels, plan->kernels->channels_most);
    plan->cost =
        (double)(p->n * blocks) * (double)ogp_position_total(p) / (double)plan->kernels->lanes * vector_cycles(plan) +
        70 * calls;
    return (int64_t)shared.bytes <= ogp_shared_limit(limit) && (int64_t)arena.bytes <= ogp_worker_limit(limit) &&
           ogp_plan_reserve(plan, limit, shared.bytes, arena.bytes);
}
