/* SPDX-License-Identifier: Apache-2.0 */
/* Forward and grad input by tiles: pack -> multiply -> unpack. */
#ifndef OGP_CORRELATE_H
#define OGP_CORRELATE_H

#include "direct.h"

/* A sample, and channels of one of its groups. */
struct place {
    int64_t n, group, channel, channels;
};

/* Computes these outputs, tile by tile of the plan's tiling; scratch: the plan's of one worker. */
void ogp_correlate_spans(const struct job *job, const struct ogp_plan *plan, char *scratch, struct place at,
                         const struct span span[3]);

bool ogp_correlate_prepare(struct ogp_plan *plan, int64_t limit);
void ogp_correlate_run(struct job *job);

#endif
