/* SPDX-License-Identifier: Apache-2.0 */
/* Grad weight by tiles: pack x and gy -> multiply and sum -> add partial sums in a fixed order. */
#ifndef OGP_REDUCE_H
#define OGP_REDUCE_H

#include "direct.h"
#include "partial.h"

/* Adds the products of these outputs of a sample to sum[(co*ins + ci)*taps of the kernel + tap], tile by tile of the
 * plan's tiling, which sums all pieces. span: one class of depth and height, a box of all classes of the width.
 * scratch: the plan's of one worker. */
void ogp_reduce_spans(const struct job *job, const struct ogp_plan *plan, char *scratch, const struct pairs *pairs,
                      int64_t n, const struct span span[3], double *sum);

bool ogp_reduce_prepare(struct ogp_plan *plan, int64_t limit);
void ogp_reduce_run(struct job *job);

#endif
