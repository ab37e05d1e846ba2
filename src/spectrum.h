/* SPDX-License-Identifier: Apache-2.0 */
/* Spectra of a kernel over depth and height, from its taps and back, by the transforms of doubles whatever the dtype. */
#ifndef OGP_SPECTRUM_H
#define OGP_SPECTRUM_H

#include "fourier.h"

/* Bytes of scratch that either function takes. */
int64_t ogp_spectrum_scratch(const struct ogp_plan *plan, const struct fourier *f);

/* conj(W) / (Nd*Nh) of one pair of channels, W[kd, kh](t) = sum over d, h: exp(-2 pi i (kd d/Nd + kh h/Nh)) w[d, h, t],
 * pairs of elements: that of height place b and depth place f at out + b*bin + f*row + 2*t. Returns the largest
 * magnitude of a weight, infinite where one is not finite. */
double ogp_spectrum_of_weights(const struct ogp_plan *plan, const struct fourier *f, const struct twiddles *twiddles,
                               void *out, int64_t bin, int64_t row, const struct weights *w,
                               const struct piece piece[3], void *scratch);

/* taps[(d*kh + h)*kw + t] += real part of sum over kd, kh: exp(+2 pi i (kd d/Nd + kh h/Nh)) s / (Nd*Nh), where the pair
 * s of height place b, depth place f and width tap t is at sum[((b*Nd + f)*kw + t)*2]. */
void ogp_spectrum_to_taps(const struct ogp_plan *plan, const struct fourier *f, const struct twiddles *twiddles,
                          double *taps, const double *sum, void *scratch);

#endif
