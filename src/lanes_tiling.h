/* SPDX-License-Identifier: Apache-2.0 */
/* Workspace and tilings of forward and grad input with the lanes along output channels. */
#ifndef OGP_LANES_TILING_H
#define OGP_LANES_TILING_H

#include "lanes.h"

/* Bundles [first, first + count) of the pass under way, and their packed weights. */
struct lanes_shared {
    struct lanes_pass {
        int64_t first, count;
    } *pass;
    char *w;
};
struct lanes_shared ogp_lanes_carve_shared(struct arena *a, const struct lanes *g, int64_t bundles);

/* Scratch of one worker. */
struct lanes_scratch {
    char *x, *y, *rows; /* packed input; sums; a vector of lanes transposed, ogp_lanes_row_pitch apart */
    char *mask;         /* of the units (ogp_lanes_mask) */
    int64_t *offset;
};
struct lanes_scratch ogp_lanes_carve(struct arena *a, const struct lanes *g, const struct tiling *t);
int64_t ogp_lanes_row_pitch(const struct lanes *g);

/* Bundles that so much shared memory holds, at most all. */
int64_t ogp_lanes_bundles_held(const struct lanes *g, int64_t shared_bytes);

static inline int64_t ogp_lanes_tiles(const struct lanes *g)
{
    return g->tiles[0] * g->tiles[1] * g->tiles[2];
}

bool ogp_lanes_correlate_prepare(struct ogp_plan *plan, int64_t limit);

#endif
