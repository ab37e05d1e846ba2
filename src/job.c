/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include "pool.h"
#include "util.h"

struct queue {
    struct job *job;
    void (*task)(const struct job *, int64_t, int);
    int64_t count;
    atomic_llong next;
};

static void drain(void *arg, int worker)
{
    struct queue *const q = arg;
    struct job *const job = q->job;
    for (;;) {
        if (atomic_load_explicit(&job->cancelled, memory_order_relaxed))
            return;
        if (worker == 0 && job->poll && job->poll(job->poll_arg)) {
            atomic_store(&job->cancelled, true);
            return;
        }
        const int64_t at = atomic_fetch_add_explicit(&q->next, 1, memory_order_relaxed);
        if (at >= q->count)
            return;
        q->task(job, at, worker);
    }
}

void ogp_job_each(struct job *job, int64_t count, void (*task)(const struct job *job, int64_t at, int worker))
{
    struct queue q = {.job = job, .task = task, .count = count};
    atomic_init(&q.next, 0);
    ogp_pool_run(job->pool, (int)ogp_min(job->workers, count), drain, &q);
}

void ogp_job_put_bias(const struct job *job, int64_t co, const double *part, int64_t step, int64_t splits)
{
    double sum = 0;
    for (int64_t s = 0; s < splits; s++)
        sum += part[s * step];
    char *const gb = job->b.data + ogp_dtype_bytes(job->plan->problem.dtype) * co * job->b.step;
    job->plan->kernels->scatter_f64(gb, 1, &sum, 1, job->accumulate);
}
