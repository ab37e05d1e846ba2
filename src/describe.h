/* SPDX-License-Identifier: Apache-2.0 */
/* A plan in words. */
#ifndef OGP_DESCRIBE_H
#define OGP_DESCRIBE_H

#include "plan.h"
#include "text.h"

void ogp_describe(struct text *t, const struct ogp_plan *plan);

#endif
