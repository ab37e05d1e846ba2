/* SPDX-License-Identifier: Apache-2.0 */
/* Between tensors and scratch: the only code that knows strides, layouts and padding of the operands. In scratch every
 * block is dense in width, each row starts on a cache line, and pitches do not alias in the cache. */
#ifndef OGP_PACK_H
#define OGP_PACK_H

#include "job.h"

/* Which coordinates of one axis a block samples: first + step*m, 0 <= m < count, of an axis of `extent` elements that
 * is continued by the padding mode. */
struct sampling {
    int64_t first, step, count, extent;
    enum ogp_padding padding;
};

/* The part of a row that lies inside the axis: members [lo, hi). */
struct run {
    int64_t lo, hi;
};
struct run ogp_inside(const struct sampling *s);

/* Members that read the tensor: those inside, or under a padding mode all. */
struct run ogp_sampled(const struct sampling *s);

/* The coordinate that member m reads; -1: a zero. */
int64_t ogp_sample_source(const struct sampling *s, int64_t m);

/* A pitch of at least so many elements, an odd number of cache lines: rows and planes 2 or 4 KiB apart would meet in a
 * few sets of the cache (+25 % measured). */
int64_t ogp_odd_lines(int64_t elements, int64_t element_bytes);

/* A block [channel][depth][height][width] in scratch: extents, and pitches in elements. */
struct block {
    int64_t channels, extent[3];
    int64_t channel, plane, row; /* pitches */
};

/* A block whose rows can be read up to `width` elements (>= extent[2]). */
struct block ogp_block(int64_t channels, const int64_t extent[3], int64_t width, int64_t element_bytes);

static inline int64_t ogp_block_elements(const struct block *b)
{
    return b->channels * b->channel;
}

/* Fills the block from `in`, whose data is the sample (n, first channel), zeroing what lies between the extent and the
 * pitch of each row. */
void ogp_pack(const struct ogp_plan *plan, char *out, const struct block *block, const struct volume *in,
              const struct sampling sampling[3]);

/* The same; rows that follow one another in the tensor and in scratch are moved as one. */
void ogp_pack_joined(const struct ogp_plan *plan, char *out, const struct block *block, const struct volume *in,
                     const struct sampling sampling[3]);

/* Whether the samples are neighbours in the tensor, in order: then the first of them, in elements from in->data. */
bool ogp_dense_run(const struct volume *in, const struct sampling sampling[3], int64_t *first);

/* Modelled cycles to move a row of n elements between a tensor and scratch; dense: neighbours in the tensor. */
double ogp_row_cycles(int64_t n, bool dense);

/* Writes (or adds) the block plus the bias of each channel to `out`, whose data is the element (n, first channel, first
 * coordinates of the spans). bias may have data NULL. */
void ogp_unpack(const struct ogp_plan *plan, const struct volume *out, const struct span span[3], const char *in,
                const struct block *block, const struct line *bias, bool accumulate);

#endif
