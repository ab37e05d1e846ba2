/* SPDX-License-Identifier: Apache-2.0 */
#include "lanes_sums.h"

#include <math.h>

#include "direct.h"
#include "tiling.h"
#include "util.h"

bool ogp_lanes_sums_init(struct lanes_sums *g, const struct ogp_plan *plan, const struct tiling *t)
{
    const struct problem *const p = &plan->problem;
    const int64_t lanes = plan->kernels->lanes;
    *g = (struct lanes_sums){.plan = plan, .ins = t->in_channels, .lanes = t->out_channels, .outs = 1, .taps = 1};
    double box = 1;
    for (int a = 0; a < 3; a++) {
        if (!ogp_window_init(&g->window[a], &p->axis[a], t->out[a]))
            return false;
        box *= (double)g->window[a].extent * (double)g->window[a].runs;
        g->tiles[a] = ogp_ceil_div(p->axis[a].o, t->out[a]);
        g->outs *= t->out[a];
        g->taps *= p->axis[a].k;
        if (box > 0x1p30 || g->taps > 1 << 24) /* beyond any scratch */
            return false;
    }
    const double ins = (double)g->ins, outs = (double)g->lanes;
    if (ins * box + ins * outs * (double)g->taps + outs * (double)g->outs > 0x1p50) /* nor would products fit */
        return false;
    g->step[2] = 1;
    g->step[1] = g->window[2].extent;
    g->step[0] = g->window[1].extent * g->step[1];
    g->run[2] = g->window[0].extent * g->step[0];
    g->run[1] = g->window[2].runs * g->run[2];
    g->run[0] = g->window[1].runs * g->run[1];
    g->elements = g->window[0].runs * g->run[0];
    g->unit = t->vectors * lanes;
    g->units = g->lanes / g->unit;
    g->pitch = g->ins <= lanes ? g->ins : ogp_round_up(g->ins, lanes);
    g->joined = g->pitch == g->ins && p->axis[2].k > 1 && g->window[2].tap_step == 1;
    g->put_ins = ogp_max(1, ogp_min(g->ins, 1024 / g->taps));
    return true;
}

struct sums_scratch ogp_lanes_sums_carve(struct arena *a, const struct lanes_sums *g)
{
    const int64_t bytes = ogp_dtype_bytes(g->plan->problem.dtype), lanes = g->plan->kernels->lanes;
    struct sums_scratch s;
    s.row = ogp_odd_lines(g->elements, bytes);
    s.x = arena_take(a, (size_t)((g->elements * g->pitch + lanes) * bytes)); /* rows are written by whole vectors */
    s.gy = arena_take(a, (size_t)(g->outs * g->lanes * bytes));
    s.rows =
        arena_take(a, (size_t)(ogp_max(ogp_min(lanes, g->ins) * s.row, lanes * ogp_odd_lines(g->outs, bytes)) * bytes));
    s.offset = arena_take(a, (size_t)g->outs * sizeof(int64_t));
    s.sum = arena_take(a, (size_t)(g->ins * g->taps * g->lanes) * sizeof(double));
    s.put = arena_take(a, (size_t)(OGP_PUT_CHANNELS * g->put_ins * g->taps) * sizeof(double));
    for (int i = 0; i < 2; i++)
        s.narrow[i] = arena_take(a, (size_t)(lanes * ogp_round_up(g->put_ins * g->taps, lanes) * bytes));
    return s;
}

int64_t ogp_lanes_sums_block(const struct lanes_sums *g)
{
    const int64_t most = g->plan->kernels->positions_most[g->unit / g->plan->kernels->lanes];
    return ogp_even_block(g->joined ? g->ins * g->plan->problem.axis[2].k : g->ins, most);
}

/* ---- the choice of a tile ---- */

/* What should stay in the second-level cache, and may be twice as much at a price. The sums may lie beyond it: they are
 * touched once a sweep. */
enum { CACHE_BYTES = OGP_TILE_BYTES, SUM_BYTES = 1 << 20 };
enum { OUTS_MOST = OGP_LONGEST_SUM };

static size_t bytes_of(const struct lanes_sums *g)
{
    struct arena arena = {0};
    ogp_lanes_sums_carve(&arena, g);
    return arena.bytes;
}

static double cost_of(const struct lanes_sums *g, const struct tiling *t)
{
    const struct ogp_plan *const plan = g->plan;
    const bool dense = plan->problem.x_layout == OGP_NCDHW && plan->order[2] == 2;
    const int64_t row = g->joined ? g->ins * plan->problem.axis[2].k : g->ins, block = ogp_lanes_sums_block(g);
    const double calls =
        (double)ogp_ceil_div(row, block) * (double)(g->joined ? g->taps / plan->problem.axis[2].k : g->taps);
    const double high = (double)row / (double)ogp_ceil_div(row, block), across = (double)t->vectors;
    const double outs = (double)g->outs, lanes = (double)plan->kernels->lanes;
    double multiply =
        (double)g->units * calls * (outs * ogp_broadcast_cycles(high, across) + 30 + 6 * high * across * 8 / lanes);
    const double pack_x = (double)g->ins * (double)g->elements * (dense && plan->problem.axis[2].s == 1 ? 0.8 : 2);
    const double pack_gy = (double)g->lanes * outs * (dense ? 0.8 : 2);
    const double put = (double)g->ins * (double)g->taps * (double)g->lanes * 3;
    if (bytes_of(g) - (size_t)(g->ins * g->taps * g->lanes) * sizeof(double) > CACHE_BYTES)
        multiply *= 1.15;
    const double tiles = (double)ogp_lanes_sums_tiles(g), blocks = (double)ogp_pairs_blocks(plan, t);
    return blocks * (tiles * (1.4 * multiply + pack_x + pack_gy + 500) + put * (double)t->splits); /* 1.4: measured */
}

/* Weighs the tiling with as many splits of batch and space as its tasks leave room for. */
static double consider(struct ogp_plan *plan, const struct lanes_sums *g, struct tiling *t, int64_t limit,
                       double *least)
{
    const int64_t others = ogp_pairs_blocks(plan, t);
    t->splits = ogp_partials_splits(plan, (double)others, ogp_lanes_sums_tiles(g), ogp_shared_limit(limit));
    return ogp_tiling_consider(plan, t, cost_of(g, t), (double)(others * t->splits), least);
}

/* Halves the wider of the channels from all of them on; returns the least cost. */
static double try_channels(struct ogp_plan *plan, struct tiling *t, int64_t limit, double *least)
{
    const struct problem *const p = &plan->problem;
    const int64_t unit = t->vectors * plan->kernels->lanes, units = ogp_ceil_div(p->co_g, unit);
    const int64_t worker = ogp_worker_limit(limit), cache = ogp_min(worker, 2 * CACHE_BYTES + SUM_BYTES);
    struct lanes_sums g;
    double best = INFINITY;
    t->in_channels = p->ci_g;
    t->out_channels = units * unit;
    for (int tried = 0; tried < (plan->multiplies <= OGP_CYCLES_A_TASK ? 1 : 3);) {
        if (!ogp_lanes_sums_init(&g, plan, t))
            break;
        const int64_t bytes = (int64_t)bytes_of(&g), sums = g.ins * g.taps * g.lanes * (int64_t)sizeof(double);
        if (bytes <= cache && bytes - sums <= 2 * CACHE_BYTES) {
            tried++;
            best = fmin(best, consider(plan, &g, t, limit, least));
        }
        if (g.units > 1 && (g.lanes >= g.ins || g.ins == 1))
            t->out_channels = ogp_even_block(units, ogp_ceil_div(g.units, 2)) * unit;
        else if (g.ins > 1)
            t->in_channels = ogp_even_block(p->ci_g, ogp_ceil_div(g.ins, 2));
        else
            break;
    }
    return best;
}

/* Ever smaller tiles, until two in a row are worse. A plan of a small problem must cost little: its largest tile that
 * fits will do. */
static void try_vectors(struct ogp_plan *plan, int64_t vectors, int64_t limit, double *least)
{
    int64_t last = 0;
    double before = INFINITY;
    int worse = 0;
    for (int64_t outs = OUTS_MOST; outs >= 1 && worse < 2; outs /= 2) {
        struct tiling t = {.vectors = vectors, .all_pieces = true};
        int64_t left = outs, all = 1;
        for (int a = 2; a >= 0; a--) {
            t.out[a] = ogp_even_block(plan->problem.axis[a].o, ogp_max(1, left));
            left /= t.out[a];
            all *= t.out[a];
        }
        if (all == last)
            continue;
        last = all;
        const double now = try_channels(plan, &t, limit, least);
        if (now < INFINITY && plan->multiplies <= OGP_CYCLES_A_TASK)
            break;
        worse = now < before || now == INFINITY ? 0 : worse + 1;
        before = fmin(before, now);
    }
}

bool ogp_lanes_sums_choose(struct ogp_plan *plan, int64_t limit)
{
    double least = INFINITY;
    const int64_t filled = ogp_ceil_div(plan->problem.co_g, plan->kernels->lanes);
    for (int64_t vectors = 1; vectors <= ogp_min(filled, OGP_LANE_VECTORS_MOST); vectors++)
        try_vectors(plan, vectors, limit, &least);
    return least < INFINITY;
}
