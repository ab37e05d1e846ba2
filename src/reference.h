/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration that always applies and needs no workspace: plain loops, summed in double. */
#ifndef OGP_REFERENCE_H
#define OGP_REFERENCE_H

#include "plan.h"

extern const struct config ogp_config_reference;

#endif
