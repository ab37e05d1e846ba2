/* SPDX-License-Identifier: Apache-2.0 */
/* Fourier transforms as the executors see them: where a frequency lies, twiddle factors, and what they cost. */
#ifndef OGP_TRANSFORM_H
#define OGP_TRANSFORM_H

#include "kernels/kernels.h"

/* The frequency in [0, points) whose bin lies at `place`. */
static inline int64_t ogp_transform_frequency(const struct ogp_fft_row *row, int64_t place)
{
    return place / row->b + row->a * (place % row->b);
}

/* The pair cos, sin of 2 pi m / points; exact in the multiples of a quarter. */
void ogp_transform_root(int64_t points, int64_t m, double root[2]);

/* twiddle[2*m], [2*m + 1] = cos, -sin of 2 pi m / points for m < points: floats, or doubles if f64. */
void ogp_transform_twiddles(void *twiddle, int64_t points, int f64);

#endif
