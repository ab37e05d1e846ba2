/* SPDX-License-Identifier: Apache-2.0 */
/* Grad weight between Winograd's transforms: with the matrices of the forward, gw = G' sum over tiles: (A gy) (B' x).
 */
#ifndef OGP_WINOGRAD_REDUCE_H
#define OGP_WINOGRAD_REDUCE_H

#include "plan.h"

/* plan->direct is made. */
bool ogp_winograd_reduce_prepare(struct ogp_plan *plan, int64_t limit);
void ogp_winograd_reduce_run(struct job *job);

#endif
