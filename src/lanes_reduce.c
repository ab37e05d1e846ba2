/* SPDX-License-Identifier: Apache-2.0 */
/* A task is a block of pairs of channels and one of the plan's splits of batch and space. */
#include "lanes_reduce.h"

#include <string.h>

#include "direct.h"
#include "util.h"

struct task {
    const struct job *job;
    const struct lanes_sums *g;
    struct sums_scratch s;
    struct pairs pairs;
    double *bias; /* sums of gy of the output channels, or NULL */
};

/* Outputs of a tile: of sample n. */
struct outs {
    int64_t n;
    struct span span[3];
};

/* ---- packing ---- */

static void pack_runs(const struct task *t, const struct volume *x, const struct outs *o, int64_t channels)
{
    const struct lanes_sums *const g = t->g;
    const struct problem *const p = &g->plan->problem;
    struct block b = {.channels = channels, .channel = t->s.row, .plane = g->step[0], .row = g->step[1]};
    int64_t at[3];
    for (at[0] = 0; at[0] < g->window[0].runs; at[0]++)
        for (at[1] = 0; at[1] < g->window[1].runs; at[1]++)
            for (at[2] = 0; at[2] < g->window[2].runs; at[2]++) {
                struct sampling s[3];
                int64_t to = 0;
                for (int a = 0; a < 3; a++) {
                    s[a] = ogp_window_run(&g->window[a], p->padding, o->span[a].start, o->span[a].count, at[a]);
                    b.extent[a] = s[a].count;
                    to += at[a] * g->run[a];
                }
                ogp_pack_joined(g->plan, t->s.rows + to * ogp_dtype_bytes(p->dtype), &b, x, s);
            }
}

/* Elements up to the last of a run: their number where there are no gaps between rows and planes. */
static int64_t whole(const struct lanes_sums *g, const struct sampling s[3])
{
    return (s[0].count - 1) * g->step[0] + (s[1].count - 1) * g->step[1] + s[2].count;
}

/* x as [element][input channel], a vector of channels at a time in ascending order: each writes whole vectors, the
 * next one over what is too much. */
static void pack_x(const struct task *t, const struct outs *o)
{
    const struct lanes_sums *const g = t->g;
    const struct problem *const p = &g->plan->problem;
    const int64_t bytes = ogp_dtype_bytes(p->dtype), lanes = g->plan->kernels->lanes;
    struct volume x = t->job->x;
    x.data += (o->n * x.n + (t->pairs.group * p->ci_g + t->pairs.ci) * x.c) * bytes;
    struct sampling s[3];
    int64_t runs = 1, first = 0, count = 1;
    for (int a = 0; a < 3; a++) {
        s[a] = ogp_window_run(&g->window[a], p->padding, o->span[a].start, o->span[a].count, 0);
        runs *= g->window[a].runs;
        count *= s[a].count;
    }
    const bool in_place = runs == 1 && count == whole(g, s) && ogp_dense_run(&x, s, &first);
    for (int64_t c = 0; c < t->pairs.ins; c += lanes, x.data += lanes * x.c * bytes) {
        const int64_t some = ogp_min(lanes, t->pairs.ins - c);
        if (!in_place)
            pack_runs(t, &x, o, some);
        g->plan->kernels->transpose(t->s.x + c * bytes, g->pitch, in_place ? x.data + first * bytes : t->s.rows,
                                    in_place ? x.c : t->s.row, some, in_place ? count : g->elements);
    }
}

/* gy as [output][lane], zero in lanes beyond the last. */
static void pack_gy(const struct task *t, const struct outs *o)
{
    const struct lanes_sums *const g = t->g;
    const struct ogp_kernels *const k = g->plan->kernels;
    const struct problem *const p = &g->plan->problem;
    const int64_t bytes = ogp_dtype_bytes(p->dtype), count = o->span[0].count * o->span[1].count * o->span[2].count;
    struct volume gy = t->job->y;
    gy.data += (o->n * gy.n + (t->pairs.group * p->co_g + t->pairs.co) * gy.c) * bytes;
    struct block b = {.channel = ogp_odd_lines(g->outs, bytes),
                      .plane = o->span[1].count * o->span[2].count,
                      .row = o->span[2].count};
    struct sampling s[3];
    for (int a = 0; a < 3; a++) {
        b.extent[a] = o->span[a].count;
        s[a] = (struct sampling){o->span[a].start, 1, o->span[a].count, p->axis[a].o, OGP_ZEROS};
    }
    int64_t c = 0, first;
    const bool in_place = ogp_dense_run(&gy, s, &first);
    const int64_t row = in_place ? gy.c : b.channel;
    for (; c < t->pairs.outs; c += k->lanes, gy.data += k->lanes * gy.c * bytes) {
        b.channels = ogp_min(k->lanes, t->pairs.outs - c);
        if (!in_place)
            ogp_pack_joined(g->plan, t->s.rows, &b, &gy, s);
        const char *const rows = in_place ? gy.data + first * bytes : t->s.rows;
        for (int64_t i = 0; t->bias && i < b.channels; i++)
            t->bias[c + i] += k->sum(rows + i * row * bytes, 1, count);
        k->transpose(t->s.gy + c * bytes, g->lanes, rows, row, b.channels, count);
    }
    for (int64_t q = 0; q < count && c < g->lanes; q++)
        memset(t->s.gy + (q * g->lanes + c) * bytes, 0, (size_t)((g->lanes - c) * bytes));
}

/* Where each output's windows begin in x. */
static int64_t fill_offsets(const struct task *t, const struct outs *o)
{
    const struct lanes_sums *const g = t->g;
    int64_t step[3], *offset = t->s.offset;
    for (int a = 0; a < 3; a++)
        step[a] = g->window[a].out_step * g->step[a] * g->pitch;
    for (int64_t d = 0; d < o->span[0].count; d++)
        for (int64_t h = 0; h < o->span[1].count; h++)
            for (int64_t w = 0; w < o->span[2].count; w++)
                *offset++ = d * step[0] + h * step[1] + w * step[2];
    return offset - t->s.offset;
}

/* ---- multiplying ---- */

/* One unit, over `row` neighbours in x from m->x on, whose sums are `place` apart. */
static void multiply_row(const struct lanes_sums *g, struct ogp_broadcast *m, double *sum, const int64_t *place,
                         int64_t row)
{
    const int64_t vectors = g->unit / g->plan->kernels->lanes, block = ogp_lanes_sums_block(g);
    const char *const x = m->x;
    int64_t channel = 0, tap = 0; /* neighbours are channels, then taps */
    for (int64_t i = 0; i < row; i += block) {
        int64_t to[OGP_POSITIONS_MOST];
        const int64_t some = ogp_min(block, row - i);
        for (int64_t p = 0; p < some; p++) {
            to[p] = channel * place[0] + tap * place[1];
            if (++channel == g->ins) {
                channel = 0;
                tap++;
            }
        }
        m->place = to;
        m->sum = sum;
        m->x = x + i * ogp_dtype_bytes(g->plan->problem.dtype);
        g->plan->kernels->broadcast[vectors][some](m);
    }
}

/* One unit and some outputs, whose first offset is m->offset. */
static void multiply_unit(const struct task *t, struct ogp_broadcast *m, double *sum)
{
    const struct lanes_sums *const g = t->g;
    const struct axis *const axis = g->plan->problem.axis;
    const int64_t bytes = ogp_dtype_bytes(g->plan->problem.dtype), place[2] = {g->taps * g->lanes, g->lanes};
    const int64_t step_w = g->joined ? axis[2].k : 1, row = g->joined ? g->ins * step_w : t->pairs.ins;
    int64_t tap[3];
    for (int a = 0; a < 3; a++)
        tap[a] = (g->window[a].apart ? g->run[a] : g->window[a].tap_step * g->step[a]) * g->pitch;
    for (int64_t d = 0; d < axis[0].k; d++)
        for (int64_t h = 0; h < axis[1].k; h++)
            for (int64_t w = 0; w < axis[2].k; w += step_w) {
                m->x = t->s.x + (d * tap[0] + h * tap[1] + w * tap[2]) * bytes;
                multiply_row(g, m, sum + ((d * axis[1].k + h) * axis[2].k + w) * g->lanes, place, row);
            }
}

/* Outputs are taken in blocks: what all taps read of x and gy for them stays in the first-level cache. */
static void multiply(const struct task *t, int64_t count)
{
    const struct lanes_sums *const g = t->g;
    const int64_t bytes = ogp_dtype_bytes(g->plan->problem.dtype), block = ogp_even_block(count, OGP_OUTS_A_SWEEP);
    for (int64_t u = 0; u < g->units; u++)
        for (int64_t q = 0; q < count; q += block) {
            struct ogp_broadcast m = {.offset = t->s.offset + q, .w_step = g->lanes};
            m.terms = ogp_min(block, count - q);
            m.w = t->s.gy + (q * g->lanes + u * g->unit) * bytes;
            multiply_unit(t, &m, t->s.sum + u * g->unit);
        }
}

static void add_tile(const struct task *t, const struct outs *o)
{
    pack_gy(t, o);
    pack_x(t, o);
    multiply(t, fill_offsets(t, o));
}

/* ---- sums to where they belong ---- */

/* As doubles, to the split's partial or by the output's strides. */
static void put_wide(const struct task *t, int64_t split, int64_t ci, int64_t ins)
{
    const struct lanes_sums *const g = t->g;
    const int64_t run = ins * g->taps;
    for (int64_t co = 0; co < t->pairs.outs; co += OGP_PUT_CHANNELS) {
        const struct pairs some = {t->pairs.group, t->pairs.co + co, t->pairs.ci + ci,
                                   ogp_min(OGP_PUT_CHANNELS, t->pairs.outs - co), ins};
        for (int64_t q = 0; q < run; q++) {
            const double *const from = t->s.sum + (ci * g->taps + q) * g->lanes + co;
            for (int64_t i = 0; i < some.outs; i++)
                t->s.put[i * run + q] = from[i];
        }
        ogp_partials_put(t->job, &some, split, NULL, t->s.put, g->taps);
    }
}

/* Rounded, to dense rows of the output. */
static void put_narrow(const struct task *t, int64_t ci, int64_t ins)
{
    const struct lanes_sums *const g = t->g;
    const struct ogp_kernels *const k = g->plan->kernels;
    const int64_t run = ins * g->taps, pitch = ogp_round_up(run, k->lanes);
    const int64_t bytes = ogp_dtype_bytes(g->plan->problem.dtype);
    for (int64_t co = 0; co < t->pairs.outs; co += k->lanes) {
        for (int64_t q = 0; q < run; q++)
            k->scatter_f64(t->s.narrow[0] + q * k->lanes * bytes, 1, t->s.sum + (ci * g->taps + q) * g->lanes + co,
                           k->lanes, 0);
        k->transpose(t->s.narrow[1], pitch, t->s.narrow[0], k->lanes, run, k->lanes);
        for (int64_t i = 0; i < ogp_min(k->lanes, t->pairs.outs - co); i++) {
            const struct pairs some = {t->pairs.group, t->pairs.co + co + i, t->pairs.ci + ci, 1, ins};
            memcpy(ogp_partials_row(t->job, &some), t->s.narrow[1] + i * pitch * bytes, (size_t)(run * bytes));
        }
    }
}

static void put_sums(const struct task *t, int64_t split)
{
    const bool narrow = ogp_partials_row(t->job, &t->pairs) != NULL;
    for (int64_t ci = 0; ci < t->pairs.ins; ci += t->g->put_ins) {
        const int64_t ins = ogp_min(t->g->put_ins, t->pairs.ins - ci);
        if (narrow)
            put_narrow(t, ci, ins);
        else
            put_wide(t, split, ci, ins);
    }
}

/* ---- tasks ---- */

static void run_task(const struct job *job, int64_t at, int worker)
{
    const struct ogp_plan *const plan = job->plan;
    const struct tiling *const tiling = &plan->tiling;
    struct arena arena = {.base = ogp_job_scratch(job, worker)};
    struct lanes_sums g;
    ogp_lanes_sums_init(&g, plan, tiling);
    struct task t = {.job = job, .g = &g, .s = ogp_lanes_sums_carve(&arena, &g)};
    const int64_t split = at % tiling->splits, tiles = ogp_lanes_sums_tiles(&g);
    t.pairs = ogp_pairs_at(plan, tiling, at / tiling->splits);
    if (job->b.data && t.pairs.ci == 0)
        t.bias = ogp_partials_bias(job, &t.pairs, split);
    memset(t.s.sum, 0, (size_t)(g.ins * g.taps * g.lanes) * sizeof(double));
    for (int64_t k = tiles * split / tiling->splits; k < tiles * (split + 1) / tiling->splits; k++) {
        struct outs o = {.n = k / (g.tiles[0] * g.tiles[1] * g.tiles[2])};
        int64_t left = k;
        for (int a = 2; a >= 0; a--) {
            const int64_t start = left % g.tiles[a] * tiling->out[a];
            o.span[a] = (struct span){start, 1, ogp_min(tiling->out[a], plan->problem.axis[a].o - start)};
            left /= g.tiles[a];
        }
        add_tile(&t, &o);
    }
    put_sums(&t, split);
}

void ogp_lanes_reduce_run(struct job *job)
{
    ogp_job_each(job, job->plan->tasks, run_task);
    ogp_partials_add(job);
}

bool ogp_lanes_reduce_prepare(struct ogp_plan *plan, int64_t limit)
{
    struct lanes_sums g;
    const bool depthwise = plan->problem.co_g == 1 && plan->problem.g > 1;
    if ((depthwise && !plan->forced) || !ogp_lanes_sums_choose(plan, limit))
        return false;
    ogp_lanes_sums_init(&g, plan, &plan->tiling);
    struct arena shared = {0}, worker = {0};
    ogp_partials_carve(&shared, plan, plan->tiling.splits);
    ogp_lanes_sums_carve(&worker, &g);
    plan->tasks = ogp_pairs_blocks(plan, &plan->tiling) * plan->tiling.splits;
    return ogp_plan_reserve(plan, limit, shared.bytes, worker.bytes);
}
