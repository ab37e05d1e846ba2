/* SPDX-License-Identifier: Apache-2.0 */
#include "mute.h"

#include "util.h"

void ogp_mute_runs(uint64_t *window, const uint64_t *bits, int64_t count, int64_t taps, int64_t tap)
{
    for (int64_t k = 0; k < count; k++) {
        uint64_t run = bits[k];
        for (int64_t length = 1; length < taps && run;) { /* bit b: columns b - (length - 1)*tap .. b are zero */
            const int64_t more = ogp_min(length, taps - length);
            run &= run << more * tap;
            length += more;
        }
        window[k] &= run;
    }
}

void ogp_mute_rows(uint64_t *window, int64_t step, int64_t outs, int64_t taps)
{
    for (int64_t o = 0; o < outs; o++)
        for (int64_t t = 1; t < taps && window[o * step]; t++)
            window[o * step] &= window[(o + t) * step];
}
