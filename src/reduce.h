/* SPDX-License-Identifier: Apache-2.0 */
/* Grad weight by tiles: pack x and gy -> multiply and sum -> add partial sums in a fixed order. */
#ifndef OGP_REDUCE_H
#define OGP_REDUCE_H

#include "direct.h"

bool ogp_reduce_prepare(struct ogp_plan *plan, int64_t limit);
void ogp_reduce_run(struct job *job);

#endif
