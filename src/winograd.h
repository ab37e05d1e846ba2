/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles between exact small transforms of depth and height (Winograd), the width direct. A unit is one tile of one
 * sample and group: all its input channels are transformed, and meet in each bin in a convolution along the width. The
 * width passes in chunks of `columns` outputs; each reads the window - 1 columns behind it as well. A dilated depth or
 * height has tiles of one class each (lattice.h), a dilated width has taps some columns apart. */
#ifndef OGP_WINOGRAD_H
#define OGP_WINOGRAD_H

#include "arena.h"
#include "pack.h"

/* The most products that a bin adds up in one go: the inverse enlarges their rounding errors. 192 keep the error of any
 * number of channels near that of 64. */
enum { OGP_WINOGRAD_SUM = 192 };

/* Points and outputs of an axis for a row of the kernels' table. */
static inline int64_t ogp_winograd_points(int row)
{
    return row == 0 ? 1 : 2 + 2 * row;
}
static inline int64_t ogp_winograd_outputs(int row)
{
    return row == 0 ? 1 : 2 * row;
}

/* Sizes that both passes share. Pitches in elements. */
struct winograd {
    const struct ogp_winograd_row *row;
    int64_t points[2], outs[2], bins; /* of depth and height */
    int64_t columns;                  /* outputs of a chunk */
    int64_t taps, tap, window;        /* of the width: taps, columns between two, columns of all */
    int64_t reach;                    /* columns of a transformed row, whole vectors >= columns + window - 1 */
    int64_t x_row, y_row;             /* from row to row of transformed inputs, and of outputs or gy */
    int64_t chunks;                   /* of the width */
    int64_t bytes;                    /* of an element */
};

struct winograd ogp_winograd(const struct ogp_plan *plan, const struct tiling *t);

/* Whether the transforms can serve this problem at all: kernels of 3 taps or 1 on depth and height, 3 on one of them,
 * a window of at most a vector and a column of the width, no stride, nothing folds, and rounding errors that the caller
 * allows to follow the norm of a window. */
bool ogp_winograd_applies(const struct ogp_plan *plan);

/* Takes the tiling whose rows and columns are the cheapest, and sets plan->cost; false where nothing fits the limit or
 * is cheaper than plan->cost. bytes: of one worker. */
bool ogp_winograd_choose(struct ogp_plan *plan, struct tiling t, int64_t limit,
                         size_t (*bytes)(const struct ogp_plan *, const struct tiling *),
                         double (*cost)(const struct ogp_plan *, const struct tiling *));

/* ---- tiles ---- */

/* Tiles of depth and height, of one sample. */
int64_t ogp_winograd_tiles(const struct ogp_plan *plan, const struct tiling *t, int axis);

/* The span of the at-th tile of an axis; it may be empty. */
struct span ogp_winograd_span(const struct ogp_plan *plan, int axis, int64_t at);

/* What a tile of these outputs reads: of an axis of x, or of gy in grad input. The width: of a chunk. */
struct sampling ogp_winograd_sampling(const struct ogp_plan *plan, const struct winograd *f, int axis, struct span span);

/* ---- reading ---- */

struct winograd_reader {
    const struct ogp_plan *plan;
    const struct winograd *winograd;
    struct volume volume;        /* at the sample; channels follow */
    struct sampling sampling[3]; /* what of each axis is read */
    int64_t rows[2];             /* of a tile: points, or outputs where gy is spread */
    ogp_winograd_fn *transform;
    int64_t vectors;   /* of columns that products meet */
    struct run inside; /* columns that read the tensor */
    bool in_place;     /* rows are read where they lie */
    uint32_t expected; /* segments whose zeros are news */
    /* scratch */
    char *packed, *zero;
    const void **row;
    int64_t *offset; /* elements from the channel's data; INT64_MIN: padding */
};
void ogp_winograd_carve_reader(struct arena *a, const struct winograd *f, struct winograd_reader *r);

/* After volume and sampling have changed. spread: the operand is gy of grad weight. */
void ogp_winograd_aim(struct winograd_reader *r, bool spread);

/* Transforms the tile of one channel, that of bin b to bins + b*step elements, and adds the magnitudes of its segments
 * to loud, which has rows of winograd.reach elements and a vector more, one of them at least. */
void ogp_winograd_read(const struct winograd_reader *r, int64_t channel, char *bins, int64_t step, char *loud);

/* Asks the second-level cache for the rows of a channel that will be read. */
void ogp_winograd_foresee(const struct winograd_reader *r, int64_t channel);

/* The sum of all elements of the channel that was read last. */
double ogp_winograd_sum(const struct winograd_reader *r);

/* zero[row*reach + column] &= whether the element is zero, of one channel; also of padding. */
void ogp_winograd_zeros(const struct winograd_reader *r, int64_t channel, uint8_t *zero);

static inline int64_t ogp_winograd_loud_step(const struct winograd *f)
{
    return ogp_odd_lines(f->reach + OGP_ALIGN / f->bytes, f->bytes);
}
static inline int64_t ogp_winograd_loud_bytes(const struct winograd *f)
{
    return OGP_WINOGRAD_SEGMENTS * ogp_winograd_loud_step(f) * f->bytes;
}

/* What the segments of a chunk were found to be; overwrites loud. fits: a transform does justice to it: its values are
 * finite, in a range that cannot overflow, and, unless the precision says otherwise, no column has a quiet segment near
 * one 2^12 times as loud. zeros: some segment is zero. */
struct winograd_finding {
    bool fits, zeros;
};
struct winograd_finding ogp_winograd_judge(const struct winograd_reader *r, char *loud);

/* Whether the largest magnitude of the weights can neither overflow in a transform nor vanish in it. */
bool ogp_winograd_in_range(enum ogp_dtype dtype, double magnitude);

/* ---- the model: cycles, fitted to an Ice Lake server with AVX-512 ---- */

/* The transform of one channel's chunk, and its rows of memory. */
double ogp_winograd_read_cycles(const struct ogp_plan *plan, const struct winograd *f, bool spread);
/* How much slower products are where these bytes outgrow the second-level cache. */
double ogp_winograd_spill(int64_t bytes);

#endif
