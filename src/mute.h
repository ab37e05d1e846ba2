/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs whose whole window is zero, which a transform would leave with rounding errors of their neighbours. */
#ifndef OGP_MUTE_H
#define OGP_MUTE_H

#include <stdint.h>

/* A word of zero bits holds the last 64 columns, the newest highest. */

/* window[k] &= the columns of bits[k] at which a run of `taps` zeros, `tap` columns apart, ends, for k < count. 1 <= taps,
 * (taps - 1)*tap < 64. */
void ogp_mute_runs(uint64_t *window, const uint64_t *bits, int64_t count, int64_t taps, int64_t tap);

/* window[o*step] &= window[(o + t)*step] for o < outs, t < taps, in ascending order of o. */
void ogp_mute_rows(uint64_t *window, int64_t step, int64_t outs, int64_t taps);

#endif
