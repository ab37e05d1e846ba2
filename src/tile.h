/* SPDX-License-Identifier: Apache-2.0 */
/* The tile executor as configurations: direct, by either body of the multiply stage, or between transforms, Fourier's
 * or Winograd's. */
#ifndef OGP_TILE_H
#define OGP_TILE_H

#include "plan.h"

extern const struct config ogp_config_direct_rows, ogp_config_direct_channels, ogp_config_direct_lanes,
    ogp_config_direct_pointwise;
extern const struct config ogp_config_fourier, ogp_config_winograd;

#endif
