/* SPDX-License-Identifier: Apache-2.0 */
#include "bias.h"

#include "arena.h"
#include "job.h"
#include "util.h"

/* Rows along the last axis of one channel: n * planes * rows of them. */
static int64_t row_count(const struct problem *p)
{
    return p->n * p->axis[0].o * p->axis[1].o;
}

static double *partials(struct arena *a, const struct ogp_plan *plan)
{
    return arena_take(a, (size_t)(plan->problem.co * plan->tiling.splits) * sizeof(double));
}

/* Partial sum s of channel co: an equal share of the rows. */
static void sum_rows(const struct job *job, int64_t at, int worker)
{
    (void)worker;
    const struct problem *const p = &job->plan->problem;
    const int64_t splits = job->plan->tiling.splits, co = at / splits, s = at % splits;
    const int64_t bytes = ogp_dtype_bytes(p->dtype), rows = row_count(p);
    struct arena shared = {.base = job->shared};
    double sum = 0;
    for (int64_t row = rows * s / splits; row < rows * (s + 1) / splits; row++) {
        const int64_t h = row % p->axis[1].o, d = row / p->axis[1].o % p->axis[0].o,
                      n = row / p->axis[1].o / p->axis[0].o;
        const int64_t offset = n * job->y.n + co * job->y.c + d * job->y.axis[0] + h * job->y.axis[1];
        sum += job->plan->kernels->sum(job->y.data + bytes * offset, job->y.axis[2], p->axis[2].o);
    }
    partials(&shared, job->plan)[at] = sum;
}

static void add_splits(const struct job *job, int64_t co, int worker)
{
    (void)worker;
    const int64_t splits = job->plan->tiling.splits;
    struct arena shared = {.base = job->shared};
    ogp_job_put_bias(job, co, partials(&shared, job->plan) + co * splits, 1, splits);
}

static bool prepare(struct ogp_plan *plan, int64_t limit)
{
    const struct problem *const p = &plan->problem;
    if (plan->pass != OGP_GRAD_BIAS)
        return false;
    const int64_t most_splits = 64, wanted_tasks = 64;
    plan->tiling.splits = ogp_max(1, ogp_min(ogp_min(most_splits, row_count(p)), ogp_ceil_div(wanted_tasks, p->co)));
    struct arena shared = {0};
    partials(&shared, plan);
    plan->shared_bytes = shared.bytes;
    plan->worker_bytes = 0;
    plan->workers_most = INT32_MAX;
    plan->tasks = p->co * plan->tiling.splits;
    plan->cost = plan->multiplies * 0.5; /* memory-bound: some bytes a cycle */
    return (int64_t)(shared.bytes + OGP_ALIGN) <= limit;
}

static void run(struct job *job)
{
    ogp_job_each(job, job->plan->tasks, sum_rows);
    ogp_job_each(job, job->plan->problem.co, add_splits);
}

const struct config ogp_config_sum = {.name = "sum", .prepare = prepare, .run = run};
