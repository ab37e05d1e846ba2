/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing the shape of a tile: a greedy climb on an arithmetic cost model, inside a byte limit. */
#ifndef OGP_TILING_H
#define OGP_TILING_H

#include "plan.h"

/* A tile's working set should stay within the second-level cache: 512 KiB on the smallest machines of interest. Work is
 * cut into so many tasks at least where each is still worth the handling. Waking a thread costs some 10 us: each worker
 * must get several times that. */
enum {
    OGP_TILE_BYTES = 448 << 10,
    OGP_WANTED_TASKS = 32,
    OGP_CYCLES_A_TASK = 100 * 1000,
    OGP_CYCLES_A_WORKER = 2 * OGP_CYCLES_A_TASK
};

/* What a pass says of a tiling: scratch of one worker, cycles of the whole pass on one core, number of tasks. */
struct tiling_model {
    size_t (*bytes)(const struct ogp_plan *, const struct tiling *);
    double (*cost)(const struct ogp_plan *, const struct tiling *);
    double (*tasks)(const struct ogp_plan *, const struct tiling *);
};

/* Whether the spans of lowered axis a hold one class each (else they are boxes of all classes). The vector axis is
 * a box, so that each line of memory is written once; so is an axis whose outputs are sums over folded preimages. */
static inline bool ogp_by_class(const struct lattice *lat, int a)
{
    return a < 2 && !lat->fold;
}

/* Fills plan->tiling; false where not even the smallest tile fits the limit. channels: of a group, in and out. */
bool ogp_tiling_choose(struct ogp_plan *plan, const struct tiling_model *model, int64_t in_channels,
                       int64_t out_channels, int64_t limit);

/* By how much the cost of a pass counts as more where its tasks leave idle some of the cores that it is worth, of four.
 */
double ogp_tiling_idle(double cost, double tasks);

/* Keeps a tiling of this cost where it is the cheapest so far; too few tasks count as a third more. Returns the cost so
 * counted. */
double ogp_tiling_consider(struct ogp_plan *plan, const struct tiling *t, double cost, double tasks, double *least);

#endif
