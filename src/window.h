/* SPDX-License-Identifier: Apache-2.0 */
/* One axis of grad weight as the lane kernels see it: runs of x in which tap t of output m lies at t*tap_step +
 * m*out_step. One run holds whatever the windows of a tile cover, or, where that is less, each tap has a run of its own
 * (and tap_step is 0). */
#ifndef OGP_WINDOW_H
#define OGP_WINDOW_H

#include "pack.h"

struct window {
    const struct axis *axis;
    bool apart;
    int64_t runs, extent, tap_step, out_step;
};

/* For tiles of at most `out` outputs; false where the box would be astronomical. */
bool ogp_window_init(struct window *, const struct axis *, int64_t out);

/* What a run samples for outputs [first, first + count). */
struct sampling ogp_window_run(const struct window *, enum ogp_padding, int64_t first, int64_t count, int64_t at);

#endif
