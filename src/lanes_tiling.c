/* SPDX-License-Identifier: Apache-2.0 */
#include "lanes_tiling.h"

#include <math.h>

#include "direct.h"
#include "tiling.h"
#include "util.h"

/* ---- workspace ---- */

struct lanes_shared ogp_lanes_carve_shared(struct arena *a, const struct lanes *g, int64_t bundles)
{
    struct lanes_shared s;
    s.pass = arena_take(a, sizeof *s.pass);
    s.w = arena_take(
        a, (size_t)(bundles * g->bundle * ogp_lanes_unit_elements(g) * ogp_dtype_bytes(g->plan->problem.dtype)));
    return s;
}

int64_t ogp_lanes_row_pitch(const struct lanes *g)
{
    return ogp_odd_lines(g->positions, ogp_dtype_bytes(g->plan->problem.dtype));
}

struct lanes_scratch ogp_lanes_carve(struct arena *a, const struct lanes *g, const struct tiling *t)
{
    const int64_t bytes = ogp_dtype_bytes(g->plan->problem.dtype);
    int64_t taps = 1;
    for (int i = 0; i < 3; i++)
        taps *= g->reach[i].taps_most;
    struct lanes_scratch s;
    s.x = arena_take(a, (size_t)(t->in_channels * g->channel * bytes));
    s.y = arena_take(a, (size_t)(g->positions * g->bundle * g->unit * bytes));
    s.rows = arena_take(a, (size_t)(g->plan->kernels->lanes * ogp_lanes_row_pitch(g) * bytes));
    s.mask = arena_take(a, (size_t)(g->reach[2].partial > 0 ? g->bundle * g->unit * bytes : 0));
    s.offset = arena_take(a, (size_t)(t->in_channels * taps) * sizeof(int64_t));
    return s;
}

int64_t ogp_lanes_bundles_held(const struct lanes *g, int64_t shared_bytes)
{
    struct arena none = {0}, one = {0};
    ogp_lanes_carve_shared(&none, g, 0);
    ogp_lanes_carve_shared(&one, g, 1);
    const int64_t all = g->plan->problem.g * g->bundles;
    if (shared_bytes < (int64_t)one.bytes)
        return 0;
    return one.bytes == none.bytes
               ? all
               : ogp_min(all, (shared_bytes - (int64_t)none.bytes) / (int64_t)(one.bytes - none.bytes));
}

/* ---- the choice of a tile ---- */

enum { POSITIONS_MOST = 1024 };

static size_t bytes_of(const struct lanes *g, const struct tiling *t)
{
    struct arena arena = {0};
    ogp_lanes_carve(&arena, g, t);
    return arena.bytes;
}

static double task_count(const struct lanes *g)
{
    return (double)g->plan->problem.n * (double)(g->plan->problem.g * g->bundles) * (double)ogp_lanes_tiles(g);
}

static double cost_of(const struct lanes *g, const struct tiling *t)
{
    const struct ogp_plan *const plan = g->plan;
    const double lanes = (double)g->lanes_all, all = (double)plan->problem.g;
    double classes = 1, taps = 1, box = 1, rows = 1, outs = 1;
    for (int a = 0; a < 3; a++) {
        const struct reach *const r = &g->reach[a];
        const double residues = r->phased && r->merged == 1 ? (double)ogp_min(r->period, r->lat->out_extent) : 1;
        classes *= residues;
        taps *= (double)r->taps_packed * (r->phased && r->merged == 1 ? (double)r->lat->l1 : 1);
        box *= (double)r->strips * (double)r->extent;
        rows *= a < 2 ? (double)r->strips * (double)r->extent : (double)r->strips;
        outs *= (double)t->out[a];
    }
    const bool dense = plan->problem.x_layout == OGP_NCDHW && plan->order[2] == 2;
    const double in = (double)g->in_channels, blocks = (double)ogp_ceil_div(g->in_channels, t->in_channels);
    const bool shared = blocks == 1 && ogp_reach_shared(&g->reach[0]) && ogp_reach_shared(&g->reach[1]) &&
                        ogp_reach_shared(&g->reach[2]);
    const double short_rows = g->row == t->out[2] ? 0.2 : 1; /* others are joined */
    const double pack = in * (20 * rows * short_rows + box * (dense && g->reach[2].strips == 1 ? 0.2 : 1.2));
    const double unpack =
        lanes / (double)g->bundles * (outs * (dense ? 1 : 2) + 20 * outs / (double)t->out[2] * short_rows);
    const double multiply = (double)g->units / (double)g->bundles * ogp_lanes_term_cycles(g, t) * in * taps;
    const double call = classes * (300 + blocks * (double)g->units / (double)g->bundles * 60 + in * 2);
    const double weights = (double)g->terms * lanes * all * 0.7;
    const double held = (double)(g->terms * g->bundle * g->unit * ogp_dtype_bytes(plan->problem.dtype));
    const double stream =
        held > OGP_TILE_BYTES ? held / 10 : 0; /* weights of a task, from beyond the second-level cache */
    const double phased = g->reach[2].phased ? 1.7 : 1; /* measured: few terms a position */
    return task_count(g) * (pack * (shared ? 1 : classes) + (classes * unpack + multiply) * phased + call + stream) +
           weights;
}

/* A tiling of about so many positions. */
static void shape(const struct ogp_plan *plan, struct tiling *t, int64_t positions)
{
    int64_t left = positions;
    for (int a = 2; a >= 0; a--) {
        t->out[a] = ogp_even_block(ogp_reach_positions(&plan->lattice[a]), ogp_max(1, left));
        left /= t->out[a];
    }
}

/* How far positions run on: whatever is the cheapest. */
static bool choose_flat(struct lanes *g, const struct ogp_plan *plan, struct tiling *t)
{
    double best = 0;
    int chosen = -1;
    for (int flat = 0; flat < 3; flat++) {
        t->flat = flat;
        if (!ogp_lanes_init(g, plan, t))
            return false;
        const double cycles = ogp_lanes_term_cycles(g, t);
        if (chosen < 0 || cycles < best) {
            chosen = flat;
            best = cycles;
        }
    }
    t->flat = chosen;
    return ogp_lanes_init(g, plan, t);
}

/* Cuts the input channels, then the lanes of a bundle, until scratch and the weights of a bundle fit. */
static bool fit(struct lanes *g, const struct ogp_plan *plan, struct tiling *t, int64_t limit)
{
    const int64_t worker = ogp_min(ogp_worker_limit(limit), OGP_TILE_BYTES);
    t->in_channels = ogp_channels_in(plan);
    t->out_channels = t->vectors * plan->kernels->lanes;
    if (!choose_flat(g, plan, t))
        return false;
    t->out_channels *= g->units;
    for (;;) {
        if (!ogp_lanes_init(g, plan, t))
            return false;
        const bool held = ogp_lanes_bundles_held(g, ogp_shared_limit(limit)) > 0;
        if (held && (int64_t)bytes_of(g, t) <= worker)
            return true;
        const int64_t x_bytes = t->in_channels * g->channel, y_bytes = g->positions * g->bundle * g->unit;
        if (held && t->in_channels > 1 && (x_bytes > y_bytes || g->bundle == 1))
            t->in_channels = ogp_even_block(t->in_channels, ogp_ceil_div(t->in_channels, 2));
        else if (g->bundle > 1)
            t->out_channels = ogp_even_block(g->units, ogp_ceil_div(g->bundle, 2)) * g->unit;
        else
            return false;
    }
}

static bool same_shape(const struct tiling *a, const struct tiling *b)
{
    return a->out[0] == b->out[0] && a->out[1] == b->out[1] && a->out[2] == b->out[2];
}

/* Ever smaller tiles, until two in a row are worse; false where so many vectors are not filled. A plan of a small
 * problem must cost little: its largest tile that fits will do. */
static bool try_vectors(struct ogp_plan *plan, int64_t vectors, bool merged, int64_t limit, double *least)
{
    struct tiling last = {0};
    double before = INFINITY;
    int worse = 0;
    for (int64_t positions = POSITIONS_MOST; positions >= 1 && worse < 2; positions /= 2) {
        struct tiling t = {.vectors = vectors, .merged = merged, .splits = 1};
        struct lanes g;
        shape(plan, &t, positions);
        if (same_shape(&t, &last) || !fit(&g, plan, &t, limit))
            continue;
        last = t;
        if (g.lanes_all <= (vectors - 1) * plan->kernels->lanes)
            return false;
        double now = ogp_tiling_consider(plan, &t, cost_of(&g, &t), task_count(&g), least);
        for (int cut = 0; cut < 3 && g.bundle > 1 && now > OGP_CYCLES_A_TASK; cut++) {
            t.out_channels = ogp_even_block(g.units, ogp_ceil_div(g.bundle, 2)) * g.unit;
            ogp_lanes_init(&g, plan, &t);
            now = fmin(now, ogp_tiling_consider(plan, &t, cost_of(&g, &t), task_count(&g), least));
        }
        if (plan->multiplies <= OGP_CYCLES_A_TASK)
            break;
        worse = now < before ? 0 : worse + 1;
        before = fmin(before, now);
    }
    return true;
}

bool ogp_lanes_correlate_prepare(struct ogp_plan *plan, int64_t limit)
{
    double least = INFINITY;
    struct lanes g;
    if (ogp_channels_out(plan) == 1 && plan->problem.g > 1 && !plan->forced)
        return false;
    for (int merged = 0; merged <= ogp_reach_partial(&plan->lattice[2]); merged++)
        for (int64_t vectors = 1; vectors <= OGP_LANE_VECTORS_MOST; vectors++)
            if (!try_vectors(plan, vectors, merged, limit, &least))
                break;
    if (least == INFINITY)
        return false;
    ogp_lanes_init(&g, plan, &plan->tiling);
    struct arena shared = {0};
    ogp_lanes_carve_shared(&shared, &g, ogp_lanes_bundles_held(&g, ogp_shared_limit(limit)));
    plan->tasks = (int64_t)task_count(&g);
    return ogp_plan_reserve(plan, limit, shared.bytes, bytes_of(&g, &plan->tiling));
}
