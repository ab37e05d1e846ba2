/* SPDX-License-Identifier: Apache-2.0 */
#include "tile.h"

#include <math.h>

#include "correlate.h"
#include "lanes_correlate.h"
#include "lanes_reduce.h"
#include "pointwise.h"
#include "pointwise_correlate.h"
#include "pointwise_reduce.h"
#include "reduce.h"
#include "spectral_correlate.h"
#include "spectral_reduce.h"
#include "util.h"
#include "winograd.h"
#include "winograd_correlate.h"
#include "winograd_reduce.h"

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

const struct config ogp_config_direct_rows = {"direct-rows", prepare, run, OGP_BODY_ROWS};
const struct config ogp_config_direct_channels = {"direct-channels", prepare, run, OGP_BODY_CHANNELS};

/* The axes as the tensors have them: no axis is the vector axis. */
static void restore_order(struct ogp_plan *plan)
{
    const struct ogp_plan lowered = *plan;
    for (int a = 0; a < 3; a++) {
        plan->order[lowered.order[a]] = lowered.order[a];
        plan->problem.axis[lowered.order[a]] = lowered.problem.axis[a];
        plan->lattice[lowered.order[a]] = lowered.lattice[a];
    }
}

static bool prepare_lanes(struct ogp_plan *plan, int64_t limit)
{
    if (plan->pass == OGP_GRAD_BIAS || plan->multiplies == 0) /* where something is empty, the rest has no bounds */
        return false;
    restore_order(plan);
    return (plan->pass == OGP_GRAD_WEIGHT ? ogp_lanes_reduce_prepare : ogp_lanes_correlate_prepare)(plan, limit);
}

static void run_lanes(struct job *job)
{
    (job->plan->pass == OGP_GRAD_WEIGHT ? ogp_lanes_reduce_run : ogp_lanes_correlate_run)(job);
}

const struct config ogp_config_direct_lanes = {"direct-lanes", prepare_lanes, run_lanes, OGP_BODY_ROWS};

static bool prepare_pointwise(struct ogp_plan *plan, int64_t limit)
{
    if (plan->pass == OGP_GRAD_BIAS || plan->multiplies == 0 || !ogp_pointwise_applies(plan))
        return false;
    restore_order(plan);
    return (plan->pass == OGP_GRAD_WEIGHT ? ogp_pointwise_reduce_prepare : ogp_pointwise_correlate_prepare)(plan, limit);
}

static void run_pointwise(struct job *job)
{
    (job->plan->pass == OGP_GRAD_WEIGHT ? ogp_pointwise_reduce_run : ogp_pointwise_correlate_run)(job);
}

const struct config ogp_config_direct_pointwise = {"direct-pointwise", prepare_pointwise, run_pointwise,
                                                   OGP_BODY_CHANNELS};

/* The cheaper of the direct configurations, for tiles that go direct after all. */
static bool prepare_direct(struct ogp_plan *plan, int64_t limit)
{
    static const struct config *const direct[] = {&ogp_config_direct_rows, &ogp_config_direct_channels};
    struct ogp_plan best = {.cost = INFINITY};
    for (size_t k = 0; k < OGP_COUNT(direct); k++) {
        struct ogp_plan candidate = *plan;
        candidate.config = direct[k];
        if (prepare(&candidate, limit) && candidate.cost < best.cost)
            best = candidate;
    }
    plan->direct = best.config;
    plan->direct_tiling = best.tiling;
    plan->direct_bytes = best.worker_bytes;
    plan->cost = plan->direct_cost = best.cost;
    return best.config != NULL;
}

/* A configuration that transforms tiles: where it applies it must be cheaper than direct, unless it is asked for. */
static bool prepare_transform(struct ogp_plan *plan, int64_t limit, bool (*applies)(const struct ogp_plan *),
                              bool (*correlate)(struct ogp_plan *, int64_t), bool (*reduce)(struct ogp_plan *, int64_t))
{
    /* below this transforms never pay (docs/transforms.md), and a plan of a small problem must cost little */
    const double least = 4e6;
    if (plan->multiplies == 0 || (plan->multiplies < least && !plan->forced) || !applies(plan) ||
        !prepare_direct(plan, limit))
        return false;
    if (plan->forced)
        plan->cost = INFINITY;
    return (plan->pass == OGP_GRAD_WEIGHT ? reduce : correlate)(plan, limit);
}

static bool prepare_fourier(struct ogp_plan *plan, int64_t limit)
{
    return prepare_transform(plan, limit, ogp_fourier_applies, ogp_spectral_correlate_prepare,
                             ogp_spectral_reduce_prepare);
}

static void run_fourier(struct job *job)
{
    (job->plan->pass == OGP_GRAD_WEIGHT ? ogp_spectral_reduce_run : ogp_spectral_correlate_run)(job);
}

const struct config ogp_config_fourier = {"fourier", prepare_fourier, run_fourier, OGP_BODY_ROWS};

static bool prepare_winograd(struct ogp_plan *plan, int64_t limit)
{
    return prepare_transform(plan, limit, ogp_winograd_applies, ogp_winograd_correlate_prepare,
                             ogp_winograd_reduce_prepare);
}

static void run_winograd(struct job *job)
{
    (job->plan->pass == OGP_GRAD_WEIGHT ? ogp_winograd_reduce_run : ogp_winograd_correlate_run)(job);
}

const struct config ogp_config_winograd = {"winograd", prepare_winograd, run_winograd, OGP_BODY_ROWS};
