/* SPDX-License-Identifier: Apache-2.0 */
/* From the bins of a tile's inputs to its outputs: products, transforms back, muted outputs set to the bias, rows
 * written. */
#ifndef OGP_WINOGRAD_OUTPUT_H
#define OGP_WINOGRAD_OUTPUT_H

#include "winograd_tile.h"

/* Whether outputs of the tile have a window that is zero in every input channel: which, in s->zero. Only a tile that
 * was found to have zeros can: a window holds whole segments, and one that lies in columns of zeros alone needs no
 * care. */
bool ogp_winograd_find_muted(const struct winograd_tile *tile);

/* Computes and writes all output channels of the pass. */
void ogp_winograd_write(const struct winograd_tile *tile);

#endif
