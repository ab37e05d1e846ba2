/* SPDX-License-Identifier: Apache-2.0 */
#include "tile.h"

#include "correlate.h"
#include "reduce.h"

static bool prepare(struct ogp_plan *plan, int64_t limit)
{
    if (plan->pass == OGP_GRAD_BIAS)
        return false;
    return (plan->pass == OGP_GRAD_WEIGHT ? ogp_reduce_prepare : ogp_correlate_prepare)(plan, limit);
}

static void run(struct job *job)
{
    (job->plan->pass == OGP_GRAD_WEIGHT ? ogp_reduce_run : ogp_correlate_run)(job);
}

#define DIRECT {&ogp_transform_identity, &ogp_transform_identity}
const struct config ogp_config_direct_rows = {"direct-rows", prepare, run, DIRECT, OGP_BODY_ROWS};
const struct config ogp_config_direct_channels = {"direct-channels", prepare, run, DIRECT, OGP_BODY_CHANNELS};
