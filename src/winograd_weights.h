/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of 3 taps to and from the bins of Winograd's transforms, in double: both are small beside the volume. */
#ifndef OGP_WINOGRAD_WEIGHTS_H
#define OGP_WINOGRAD_WEIGHTS_H

#include "winograd.h"

/* bins[b*kw + t] = G w[., ., t]: weights of one pair of channels. Returns their largest magnitude, infinite where one
 * is not finite. */
double ogp_winograd_of_weights(const struct ogp_plan *plan, const struct winograd *f, double *bins,
                               const struct weights *w, const struct piece piece[3]);

/* taps[k*count + i] = G' bins[b*step + i] for taps k of depth and height, i < count <= OGP_WINOGRAD_COUNT. */
enum { OGP_WINOGRAD_COUNT = OGP_CHANNELS_MOST };
void ogp_winograd_to_taps(const struct winograd *f, double *taps, const double *bins, int64_t step, int64_t count);

/* Doubles of `bins`. */
static inline int64_t ogp_winograd_weights_scratch(const struct winograd *f)
{
    return f->bins * f->taps;
}

#endif
