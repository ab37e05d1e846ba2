/* SPDX-License-Identifier: Apache-2.0 */
/* One tile of forward or grad input between Winograd's transforms: what its reading half (winograd_correlate.c) and its
 * writing half (winograd_output.c) share. */
#ifndef OGP_WINOGRAD_TILE_H
#define OGP_WINOGRAD_TILE_H

#include "correlate.h"
#include "util.h"
#include "winograd.h"

/* Weights of a pass: [bin][group][block of output channels][input channel][width tap][output channel of the block]. */
struct winograd_shared {
    atomic_int *unfit; /* the weights allow no transform */
    int64_t *first;    /* output channel of the pass, in each group */
    char *weights;
    int64_t bin, group; /* elements */
};

/* Memory of a worker. */
struct winograd_scratch {
    struct winograd_reader reader;
    char *x, *y;     /* [bin][input channel], [output channel][bin] */
    char *loud;      /* segments */
    char *out;       /* rows that do not go to the output as they are, and one that goes nowhere */
    const void **to; /* rows of a tile */
    uint8_t *zero;   /* elements that are zero in all channels; later outputs whose window is */
    int64_t *offset;
    int64_t x_bin, y_channel; /* elements */
};

struct winograd_tile {
    const struct job *job;
    const struct ogp_plan *plan;
    const struct winograd *f;
    const struct winograd_shared *shared;
    struct winograd_scratch *s;
    char *direct; /* scratch of the direct plan */
    struct place place;
    struct span span[3]; /* the width: of the chunk */
    bool muted;          /* s->zero says which outputs are exactly the bias */
};

/* Output channels that share a call of the kernels, and how many of them the block has that holds channel `out` of the
 * pass's `outs`. */
static inline int64_t ogp_winograd_block(const struct ogp_plan *plan)
{
    return ogp_even_block(ogp_min(plan->tiling.together, ogp_channels_out(plan)), plan->kernels->channels_most);
}

static inline int64_t ogp_winograd_block_channels(const struct ogp_plan *plan, int64_t out, int64_t outs)
{
    const int64_t block = ogp_winograd_block(plan);
    return ogp_min(block, outs - out / block * block);
}

#endif
