/* SPDX-License-Identifier: Apache-2.0 */
/* Grad weight of kernels of one tap. */
#ifndef OGP_POINTWISE_REDUCE_H
#define OGP_POINTWISE_REDUCE_H

#include "job.h"

bool ogp_pointwise_reduce_prepare(struct ogp_plan *plan, int64_t limit);
void ogp_pointwise_reduce_run(struct job *job);

#endif
