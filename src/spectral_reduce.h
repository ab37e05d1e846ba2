/* SPDX-License-Identifier: Apache-2.0 */
/* Grad weight between Fourier transforms: transform x and gy, add their products bin by bin, transform back once. */
#ifndef OGP_SPECTRAL_REDUCE_H
#define OGP_SPECTRAL_REDUCE_H

#include "fourier.h"

bool ogp_spectral_reduce_prepare(struct ogp_plan *plan, int64_t limit);
void ogp_spectral_reduce_run(struct job *job);

#endif
