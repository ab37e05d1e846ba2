/* SPDX-License-Identifier: Apache-2.0 */
/* The tile executor as configurations: a row is a transform per axis and a body of the multiply stage. */
#ifndef OGP_TILE_H
#define OGP_TILE_H

#include "plan.h"

extern const struct config ogp_config_direct_rows, ogp_config_direct_channels;

#endif
