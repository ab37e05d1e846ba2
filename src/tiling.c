/* SPDX-License-Identifier: Apache-2.0 */
#include "tiling.h"

#include <math.h>

#include "direct.h"
#include "util.h"

/* Longest stretch of the vector axis in one tile, and of its taps: bounds of the row pitch. */
enum { LONGEST_ROW = 512, LONGEST_TAPS = 64 };

/* The outputs of a box whose classes have `out` members each. */
static void fit_boxes(const struct ogp_plan *plan, struct tiling *t)
{
    for (int a = 0; a < 3; a++) {
        const struct lattice *const lat = &plan->lattice[a];
        const int64_t box = ogp_min(ogp_mul_saturated(t->out[a], lat->classes), lat->out_extent);
        t->box[a] = ogp_by_class(lat, a) ? t->out[a] : ogp_min(box, ogp_max(t->out[a], LONGEST_ROW));
    }
}

static struct tiling smallest(const struct ogp_plan *plan, const int64_t taps_most[3])
{
    const int64_t width =
        ogp_round_up(ogp_even_block(ogp_lattice_members(&plan->lattice[2]), LONGEST_ROW), plan->kernels->lanes);
    struct tiling t = {
        .out = {1, 1, ogp_min(width, ogp_lattice_members(&plan->lattice[2]))},
        .in_channels = 1,
        .out_channels = 1,
        .all_pieces = true,
        .splits = 1,
    };
    for (int a = 0; a < 3; a++)
        t.taps[a] = ogp_min(plan->problem.axis[a].k, taps_most[a]);
    return t;
}

/* Gives up summing all pieces at once, then halves the largest of the taps, at last the width, until the tile fits. */
static bool shrink(const struct ogp_plan *plan, const struct tiling_model *model, struct tiling *t, int64_t limit)
{
    for (;;) {
        fit_boxes(plan, t);
        if ((int64_t)model->bytes(plan, t) <= limit)
            return true;
        int64_t *const largest = t->taps[0] >= t->taps[1] && t->taps[0] >= t->taps[2] ? &t->taps[0]
                                 : t->taps[1] >= t->taps[2]                           ? &t->taps[1]
                                                                                      : &t->taps[2];
        if (t->all_pieces && plan->pass == OGP_GRAD_WEIGHT)
            t->all_pieces = false;
        else if (*largest > 1)
            *largest = ogp_ceil_div(*largest, 2);
        else if (t->out[2] > plan->kernels->lanes)
            t->out[2] = ogp_round_up(ogp_ceil_div(t->out[2], 2), plan->kernels->lanes);
        else if (t->out[2] > 1)
            t->out[2] = ogp_ceil_div(t->out[2], 2);
        else
            return false;
    }
}

/* Of one tile. A problem counts none where its batch or its channels are empty, however large its axes are. */
static double multiplies_of(const struct tiling *t)
{
    double count = (double)t->in_channels * (double)t->out_channels;
    for (int a = 0; a < 3; a++)
        count *= (double)t->out[a] * (double)t->taps[a];
    return count;
}

/* A problem that is worth one task only is one tile: the climb would get there too, but plans of small problems must
 * cost little. */
static bool take_whole(const struct ogp_plan *plan, const struct tiling_model *model, struct tiling *t,
                       int64_t in_channels, int64_t out_channels, int64_t limit)
{
    if (plan->multiplies > OGP_CYCLES_A_TASK)
        return false;
    struct tiling whole = *t;
    whole.out[0] = ogp_lattice_members(&plan->lattice[0]);
    whole.out[1] = ogp_lattice_members(&plan->lattice[1]);
    whole.in_channels = ogp_max(in_channels, 1);
    whole.out_channels = ogp_max(out_channels, 1);
    if (multiplies_of(&whole) > OGP_CYCLES_A_TASK)
        return false;
    fit_boxes(plan, &whole);
    if ((int64_t)model->bytes(plan, &whole) > limit)
        return false;
    *t = whole;
    return true;
}

static double counted(const struct ogp_plan *plan, const struct tiling_model *model, const struct tiling *t)
{
    const double cost = model->cost(plan, t);
    return cost * ogp_tiling_idle(cost, model->tasks(plan, t));
}

/* Doubles whichever of height, depth and channels pays most, while it pays. */
static void grow(const struct ogp_plan *plan, const struct tiling_model *model, struct tiling *t, int64_t in_channels,
                 int64_t out_channels, int64_t limit)
{
    double cost = counted(plan, model, t);
    for (;;) {
        struct tiling best = *t;
        double best_cost = INFINITY;
        for (int move = 0; move < 4; move++) {
            struct tiling next = *t;
            int64_t *const value[] = {&next.out[1], &next.out[0], &next.out_channels, &next.in_channels};
            const int64_t most[] = {ogp_lattice_members(&plan->lattice[1]), ogp_lattice_members(&plan->lattice[0]),
                                    out_channels, in_channels};
            if (*value[move] >= most[move])
                continue;
            *value[move] = ogp_min(2 * *value[move], most[move]);
            fit_boxes(plan, &next);
            const double next_cost = counted(plan, model, &next);
            if (next_cost < best_cost && (int64_t)model->bytes(plan, &next) <= limit &&
                (model->tasks(plan, &next) >= fmin(OGP_WANTED_TASKS, model->tasks(plan, t)) ||
                 model->cost(plan, &next) < (double)OGP_WANTED_TASKS * OGP_CYCLES_A_TASK)) {
                best = next;
                best_cost = next_cost;
            }
        }
        if (best_cost > 0.995 * cost)
            return;
        *t = best;
        cost = best_cost;
    }
}

/* Evens out the last tile of each axis; heights keep to whole blocks of rows. */
static void even_out(const struct ogp_plan *plan, struct tiling *t, int64_t in_channels, int64_t out_channels)
{
    const int64_t height = ogp_even_block(ogp_lattice_members(&plan->lattice[1]), t->out[1]);
    t->out[0] = ogp_even_block(ogp_lattice_members(&plan->lattice[0]), t->out[0]);
    t->out[1] = t->out[1] >= 8 ? ogp_min(ogp_round_up(height, 8), t->out[1]) : height;
    t->in_channels = ogp_even_block(ogp_max(in_channels, 1), t->in_channels);
    t->out_channels = ogp_even_block(ogp_max(out_channels, 1), t->out_channels);
    fit_boxes(plan, t);
}

bool ogp_tiling_choose(struct ogp_plan *plan, const struct tiling_model *model, int64_t in_channels,
                       int64_t out_channels, int64_t limit)
{
    /* Kernels that are large against a tile are cut, so that the halo does not outgrow the tile. */
    static const int64_t depth_taps[] = {INT64_MAX, 8, 4}, row_taps[] = {INT64_MAX, 9};
    double best_cost = INFINITY;
    for (size_t cut = 0; cut < OGP_COUNT(depth_taps) * OGP_COUNT(row_taps); cut++) {
        const int64_t most[3] = {depth_taps[cut / OGP_COUNT(row_taps)], row_taps[cut % OGP_COUNT(row_taps)],
                                 LONGEST_TAPS};
        if ((most[0] < INT64_MAX && plan->problem.axis[0].k <= 2 * most[0]) ||
            (most[1] < INT64_MAX && plan->problem.axis[1].k <= 2 * most[1]))
            continue;
        struct tiling t = smallest(plan, most);
        if (!shrink(plan, model, &t, limit))
            continue;
        const int64_t cache_limit = ogp_min(limit, OGP_TILE_BYTES);
        if (!take_whole(plan, model, &t, in_channels, out_channels, cache_limit)) {
            grow(plan, model, &t, in_channels, out_channels, cache_limit);
            even_out(plan, &t, in_channels, out_channels);
        }
        const double cost = counted(plan, model, &t);
        if (cost < best_cost) {
            best_cost = cost;
            plan->tiling = t;
        }
    }
    plan->cost = best_cost;
    return best_cost < INFINITY;
}

double ogp_tiling_idle(double cost, double tasks)
{
    return sqrt(fmax(1, fmin(4, cost / OGP_CYCLES_A_WORKER) / tasks));
}

double ogp_tiling_consider(struct ogp_plan *plan, const struct tiling *t, double cost, double tasks, double *least)
{
    const bool enough = tasks >= OGP_WANTED_TASKS || cost < (double)OGP_WANTED_TASKS * OGP_CYCLES_A_TASK;
    const double idle = ogp_tiling_idle(cost, tasks) * cost, counted = (enough ? 1 : 1.33) * idle;
    if (counted < *least) {
        *least = counted;
        plan->cost = idle;
        plan->tiling = *t;
    }
    return counted;
}
