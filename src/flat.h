/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that cover the whole volume, as in patch embeddings: each sample has one output, a sum of products over
 * channels and taps alike. As a problem of one tap whose channels they are and whose positions are the samples it is a
 * product of matrices; its plan serves operands whose elements lie so. */
#ifndef OGP_FLAT_H
#define OGP_FLAT_H

#include "job.h"

/* The problem of one tap; false where `asked`, checked as p, has no such form, or gains nothing from it. */
bool ogp_flat_problem(const struct problem *p, const struct ogp_problem *asked, struct ogp_problem *flat);

/* Makes the job of a plan one of plan->flat, if there is one and the operands lie so. */
void ogp_flat_take(struct job *job);

#endif
