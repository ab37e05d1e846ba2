/* SPDX-License-Identifier: Apache-2.0 */
/* Grad weight with the vector lanes along output channels: the geometry of its tiles. gy is packed as [output][lane], x
 * as [element of the box][input channel]; for each tap the kernels broadcast some input channels of x against vectors
 * of gy, over the outputs of a tile. */
#ifndef OGP_LANES_SUMS_H
#define OGP_LANES_SUMS_H

#include "partial.h"
#include "window.h"

struct lanes_sums {
    const struct ogp_plan *plan;
    struct window window[3];
    int64_t unit, units, lanes;        /* lanes of a unit, units of a task, lanes of a task */
    int64_t ins, pitch;                /* input channels of a task, between elements of the box */
    bool joined;                       /* neighbouring width taps of all input channels are neighbours in x */
    int64_t step[3], run[3], elements; /* steps of the axes in a run and between runs, elements of all runs */
    int64_t outs, taps;                /* outputs of a tile, taps of the kernel */
    int64_t tiles[3];
    int64_t put_ins; /* input channels whose sums are put at once */
};

/* Output channels whose sums are put at once: a line of doubles. */
enum { OGP_PUT_CHANNELS = 8 };

/* Outputs that one sweep over the taps takes. */
enum { OGP_OUTS_A_SWEEP = 192 };

bool ogp_lanes_sums_init(struct lanes_sums *, const struct ogp_plan *plan, const struct tiling *t);

static inline int64_t ogp_lanes_sums_tiles(const struct lanes_sums *g)
{
    return g->plan->problem.n * g->tiles[0] * g->tiles[1] * g->tiles[2];
}

/* Scratch of one worker. */
struct sums_scratch {
    char *x, *gy, *rows; /* rows: channels before they are transposed */
    int64_t row;         /* between channels of x in them */
    int64_t *offset;
    double *sum;     /* [input channel][tap][lane] */
    double *put;     /* some of them as [lane][input channel][tap] */
    char *narrow[2]; /* a vector of lanes of as many, in the element type, before and after they are transposed */
};
struct sums_scratch ogp_lanes_sums_carve(struct arena *a, const struct lanes_sums *g);

/* Kernel calls for one unit and all taps of a task: input channels times taps in blocks of at most `most`. */
int64_t ogp_lanes_sums_block(const struct lanes_sums *g);

/* Chooses the tiling. */
bool ogp_lanes_sums_choose(struct ogp_plan *plan, int64_t limit);

#endif
