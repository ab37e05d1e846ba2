/* SPDX-License-Identifier: Apache-2.0 */
/* Forward and grad input with the lanes along output channels: pack -> multiply -> transpose and unpack. */
#ifndef OGP_LANES_CORRELATE_H
#define OGP_LANES_CORRELATE_H

#include "lanes_tiling.h"

void ogp_lanes_correlate_run(struct job *job);

#endif
