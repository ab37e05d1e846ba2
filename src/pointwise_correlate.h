/* SPDX-License-Identifier: Apache-2.0 */
/* Forward and grad input of kernels of one tap. */
#ifndef OGP_POINTWISE_CORRELATE_H
#define OGP_POINTWISE_CORRELATE_H

#include "job.h"

bool ogp_pointwise_correlate_prepare(struct ogp_plan *plan, int64_t limit);
void ogp_pointwise_correlate_run(struct job *job);

#endif
