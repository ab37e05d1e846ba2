/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of 3 taps to and from the bins of Winograd's transforms, in double: both are small beside the volume. */
#ifndef OGP_WINOGRAD_WEIGHTS_H
#define OGP_WINOGRAD_WEIGHTS_H

#include "winograd.h"

/* bins[b*kw + t] = G w[., ., t]: weights of one pair of channels. Returns their largest magnitude, infinite where one is
 * not finite. */
double ogp_winograd_of_weights(const struct ogp_plan *plan, const struct winograd *f, double *bins,
                               const struct weights *w, const struct piece piece[3]);

/* taps[(d*kh + h)*kw + t] += G' bins[b*kw + t]. */
void ogp_winograd_to_taps(const struct winograd *f, double *taps, const double *bins);

/* Doubles of `bins`. */
static inline int64_t ogp_winograd_weights_scratch(const struct winograd *f)
{
    return f->bins * f->taps;
}

#endif
