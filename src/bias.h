/* SPDX-License-Identifier: Apache-2.0 */
/* Grad bias on its own: partial sums of rows, added in a fixed order. */
#ifndef OGP_BIAS_H
#define OGP_BIAS_H

#include "plan.h"

extern const struct config ogp_config_sum;

#endif
