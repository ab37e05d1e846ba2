/* SPDX-License-Identifier: Apache-2.0 */
/* One execution: a plan with its operands, workspace and threads. */
#ifndef OGP_JOB_H
#define OGP_JOB_H

#include <stdatomic.h>

#include "plan.h"

/* Operands: the first element and the strides, in elements, on the lowered axes. One form serves inputs and outputs;
 * what a pass may write is settled at the public boundary. */
struct volume { /* x or gx, y or gy */
    char *data;
    int64_t n, c, axis[3];
};
struct weights { /* w or gw */
    char *data;
    int64_t co, ci, axis[3];
};
struct line { /* b or gb; data NULL: none */
    char *data;
    int64_t step;
};

/* Chunks of units between transforms, and how many of them went direct. */
struct tally {
    atomic_llong chunks, direct;
};

struct job {
    const struct ogp_plan *plan;
    struct tally *tally;
    struct volume x, y;
    struct weights w;
    struct line b;
    bool accumulate;
    char *shared, *scratch; /* aligned; worker i owns scratch + i*plan->worker_bytes */
    int workers;
    ogp_pool *pool;
    int (*poll)(void *);
    void *poll_arg;
    atomic_bool cancelled;
};

/* Element `at` of an operand's data, in double. */
static inline double ogp_load(enum ogp_dtype dtype, const char *data, int64_t at)
{
    return dtype == OGP_F32 ? (double)((const float *)(const void *)data)[at] : ((const double *)(const void *)data)[at];
}

static inline void ogp_store(enum ogp_dtype dtype, char *data, int64_t at, double value)
{
    if (dtype == OGP_F32)
        ((float *)(void *)data)[at] = (float)value;
    else
        ((double *)(void *)data)[at] = value;
}

static inline char *ogp_job_scratch(const struct job *job, int worker)
{
    return job->scratch ? job->scratch + (size_t)worker * job->plan->worker_bytes : NULL;
}

static inline void ogp_job_tally(const struct job *job, bool direct)
{
    atomic_fetch_add_explicit(&job->tally->chunks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&job->tally->direct, direct, memory_order_relaxed);
}

/* task(job, at, worker) for each at in [0, count), on the job's workers, until done or cancelled. Which worker takes
 * which task is open: results must not depend on it. */
void ogp_job_each(struct job *job, int64_t count, void (*task)(const struct job *job, int64_t at, int worker));

/* gb of channel co: the sum of its `splits` partial sums, `step` apart, in ascending order. */
void ogp_job_put_bias(const struct job *job, int64_t co, const double *part, int64_t step, int64_t splits);

#endif
