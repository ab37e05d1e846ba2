/* SPDX-License-Identifier: Apache-2.0 */
/* Forward and grad input between Winograd's transforms. */
#ifndef OGP_WINOGRAD_CORRELATE_H
#define OGP_WINOGRAD_CORRELATE_H

#include "plan.h"

/* plan->direct is made. */
bool ogp_winograd_correlate_prepare(struct ogp_plan *plan, int64_t limit);
void ogp_winograd_correlate_run(struct job *job);

#endif
