/* SPDX-License-Identifier: Apache-2.0 */
/* The multiply stage of direct convolution on packed blocks: which kernel meets which rows. */
#ifndef OGP_DIRECT_H
#define OGP_DIRECT_H

#include "pack.h"

/* One packed piece of a tile. x holds out + taps - 1 coordinates of each axis. */
struct product {
    int64_t out[3], taps[3];
    int64_t in_channels, out_channels;
    struct block x, y;
};

/* The product of these extents, with its blocks laid out. */
struct product ogp_product(const struct ogp_plan *plan, const int64_t out[3], const int64_t taps[3],
                           int64_t in_channels, int64_t out_channels);

/* The largest product of a tiling. */
struct product ogp_largest_product(const struct ogp_plan *plan, const struct tiling *t);

/* The plan by which tiles go direct that transforms would not do justice to. */
struct ogp_plan ogp_direct_plan(const struct ogp_plan *plan);

/* Cuts `count` into the fewest blocks of at most `most` of nearly equal size; this is that size. */
int64_t ogp_even_block(int64_t count, int64_t most);

/* Weights of a piece in the order in which the kernels read them:
 * rows      [co][block of kernel rows][ci][depth tap][width tap][row in the block]
 * channels  [block of co][ci][depth tap][row tap][width tap][co in the block] */
void ogp_pack_weights(const struct ogp_plan *plan, char *out, const struct product *p, const struct weights *w,
                      const struct piece piece[3]);

/* Most entries of `offset` below. */
int64_t ogp_product_terms(const struct ogp_plan *plan, const struct product *p);

/* y block (+)= correlation of the x block with the packed weights. offset: room for ogp_product_terms. */
void ogp_multiply_block(const struct ogp_plan *plan, const struct product *p, char *y, const char *x, const char *w,
                        int64_t *offset, bool accumulate);

/* sum[(co*in_channels + ci)*channel_taps + td*tap[0] + th*tap[1] + tw*tap[2]] += products of the gy block (p->y) and the
 * x block. */
void ogp_reduce_block(const struct ogp_plan *plan, const struct product *p, double *sum, int64_t channel_taps,
                      const int64_t tap[3], const char *gy, const char *x);

/* Adds the sums of one call of a reduce kernel to their places: across * taps of them, the first index changing
 * fastest. */
void ogp_place_sums(double *sum, int64_t across_step, int64_t tap_step, const double *part, int64_t across,
                    int64_t taps);

/* The model's pieces of a part, and in p->taps the taps of the largest. */
double ogp_model_pieces(const struct ogp_plan *plan, struct product *p);

/* Rows that are packed for one piece (in) or unpacked (out). */
double ogp_model_rows(const struct product *p, bool in);

/* Modelled cycles of the two, for one piece. */
double ogp_multiply_cycles(const struct ogp_plan *plan, const struct product *p);
double ogp_reduce_cycles(const struct ogp_plan *plan, const struct product *p);

/* Modelled cycles of one term of a broadcast kernel: `high` elements against `across` vectors. */
double ogp_broadcast_cycles(double high, double across);

#endif
