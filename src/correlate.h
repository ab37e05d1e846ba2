/* SPDX-License-Identifier: Apache-2.0 */
/* Forward and grad input by tiles: pack -> multiply -> unpack. */
#ifndef OGP_CORRELATE_H
#define OGP_CORRELATE_H

#include "direct.h"

bool ogp_correlate_prepare(struct ogp_plan *plan, int64_t limit);
void ogp_correlate_run(struct job *job);

#endif
