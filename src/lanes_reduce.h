/* SPDX-License-Identifier: Apache-2.0 */
/* Grad weight with the vector lanes along output channels. */
#ifndef OGP_LANES_REDUCE_H
#define OGP_LANES_REDUCE_H

#include "lanes_sums.h"

bool ogp_lanes_reduce_prepare(struct ogp_plan *plan, int64_t limit);
void ogp_lanes_reduce_run(struct job *job);

#endif
