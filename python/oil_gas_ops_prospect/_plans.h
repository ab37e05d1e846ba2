/* SPDX-License-Identifier: Apache-2.0 */
/* Plans that calls share: choosing one takes up to a tenth of a millisecond, a small layer's pass hardly more. Every
 * function is called with the GIL held, which a fork holds too. */
#ifndef OGP_PYTHON_PLANS_H
#define OGP_PYTHON_PLANS_H

#include "ogp/conv3d.h"

/* All that a plan depends on, isa and configuration left to the library. Compared by its bytes: zero it before. */
struct plan_key {
    struct ogp_problem problem;
    enum ogp_pass pass;
    enum ogp_precision precision;
    int64_t workspace_limit;
};

struct plan_slot;
struct shared_plan {
    ogp_plan *plan;
    struct plan_slot *slot; /* NULL: nobody else has it */
};

/* The plan for a key, until it is given back. Errors: those of ogp_plan_create; then there is nothing to give back. */
enum ogp_status plans_take(struct shared_plan *plan, const struct plan_key *key, struct ogp_error *error);
void plans_give_back(const struct shared_plan *plan);

#endif
