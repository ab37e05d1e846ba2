/* SPDX-License-Identifier: Apache-2.0 */
/* Forward and grad input by tiles: pack -> multiply -> unpack. */
#ifndef OGP_CORRELATE_H
#define OGP_CORRELATE_H

#include "direct.h"

/* A sample, and channels of one of its groups. */
struct place {
    int64_t n, group, channel, channels;
};

/* Channels of a group that are read, and that are computed. */
static inline int64_t ogp_channels_in(const struct ogp_plan *plan)
{
    return plan->pass == OGP_GRAD_INPUT ? plan->problem.co_g : plan->problem.ci_g;
}
static inline int64_t ogp_channels_out(const struct ogp_plan *plan)
{
    return plan->pass == OGP_GRAD_INPUT ? plan->problem.ci_g : plan->problem.co_g;
}

/* Computes these outputs, tile by tile of the plan's tiling; scratch: the plan's of one worker. */
void ogp_correlate_spans(const struct job *job, const struct ogp_plan *plan, char *scratch, struct place at,
                         const struct span span[3]);

bool ogp_correlate_prepare(struct ogp_plan *plan, int64_t limit);
void ogp_correlate_run(struct job *job);

#endif
