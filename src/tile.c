/* SPDX-License-Identifier: Apache-2.0 */
#include "tile.h"

#include "correlate.h"
#include "reduce.h"

static bool prepare(struct ogp_plan *plan, enum body body, int64_t limit)
{
    if (plan->pass == OGP_GRAD_BIAS)
        return false;
    return (plan->pass == OGP_GRAD_WEIGHT ? ogp_reduce_prepare : ogp_correlate_prepare)(plan, body, limit);
}

static void run(struct job *job, enum body body)
{
    (job->plan->pass == OGP_GRAD_WEIGHT ? ogp_reduce_run : ogp_correlate_run)(job, body);
}

static bool prepare_rows(struct ogp_plan *plan, int64_t limit)
{
    return prepare(plan, OGP_BODY_ROWS, limit);
}

static bool prepare_channels(struct ogp_plan *plan, int64_t limit)
{
    return prepare(plan, OGP_BODY_CHANNELS, limit);
}

static void run_rows(struct job *job)
{
    run(job, OGP_BODY_ROWS);
}

static void run_channels(struct job *job)
{
    run(job, OGP_BODY_CHANNELS);
}

const struct config ogp_config_direct_rows = {"direct-rows", prepare_rows, run_rows};
const struct config ogp_config_direct_channels = {"direct-channels", prepare_channels, run_channels};
