/* SPDX-License-Identifier: Apache-2.0 */
/* Forward and grad input between Fourier transforms: read and transform the height -> for each height bin transform the
 * depth, multiply, transform back -> transform the height back and write. */
#ifndef OGP_SPECTRAL_CORRELATE_H
#define OGP_SPECTRAL_CORRELATE_H

#include "fourier.h"

bool ogp_spectral_correlate_prepare(struct ogp_plan *plan, int64_t limit);
void ogp_spectral_correlate_run(struct job *job);

#endif
