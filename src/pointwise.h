/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of one tap, without stride and padding: an output is a sum over channels at its own position. Positions are
 * computed where they lie. What is no whole vector, or lies apart, goes by way of scratch. */
#ifndef OGP_POINTWISE_H
#define OGP_POINTWISE_H

#include "pack.h"

/* Whether a problem is one, and both tensors have positions of a channel for neighbours. */
bool ogp_pointwise_applies(const struct ogp_plan *plan);

/* How the positions of a sample lie in two tensors: rows of `run` positions, rows[0] planes of rows[1] of them. Rows
 * that follow one another in both tensors are one. dense: so do the positions of a row. */
struct positions {
    int64_t run, rows[2];
    bool dense;
};
struct positions ogp_positions(const struct problem *p, const struct volume *x, const struct volume *y);

/* The positions from `at` on that lie in one row, at most `most`. */
int64_t ogp_positions_count(const struct positions *p, int64_t at, int64_t most);

/* Where position `at` lies, in elements from the sample's first. */
int64_t ogp_position_offset(const struct positions *p, const struct volume *v, int64_t at);

/* Elements from a position to the next of its row. */
static inline int64_t ogp_position_step(const struct positions *p, const struct volume *v)
{
    return p->dense ? 1 : v->axis[2];
}

/* Rows of positions, in scratch or in a tensor: the first, and elements from channel to channel. */
struct channel_rows {
    char *data;
    int64_t step;
};

/* Copies `count` neighbours of a row of a tensor, from data on, of each channel to rows of scratch. */
struct channel_rows ogp_pack_positions(const struct ogp_plan *plan, const struct positions *p, char *out,
                                       const struct volume *v, const char *data, int64_t channels, int64_t count);

static inline int64_t ogp_position_pitch(const struct ogp_plan *plan, int64_t count)
{
    return ogp_odd_lines(count + plan->kernels->lanes, ogp_dtype_bytes(plan->problem.dtype));
}

/* Fills plan->tiling: positions of a tile by their bytes, of `rows` elements each, so that there are tasks enough where
 * each position takes `cycles`; a tile has no more than a sum may, and one vector at least. */
void ogp_pointwise_tile(struct ogp_plan *plan, int64_t rows, double cycles);

int64_t ogp_pointwise_tiles(const struct ogp_plan *plan);

static inline int64_t ogp_position_total(const struct problem *p)
{
    return p->axis[0].o * p->axis[1].o * p->axis[2].o;
}

#endif
