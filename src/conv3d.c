/* SPDX-License-Identifier: Apache-2.0 */
/* Executing: every argument is checked here, once; inside, nothing fails but by cancellation. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arena.h"
#include "describe.h"
#include "error.h"
#include "flat.h"
#include "job.h"
#include "pages.h"
#include "tensor.h"
#include "tiling.h"
#include "util.h"

#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

const char *ogp_version(void)
{
    return TEXT(OGP_VERSION_MAJOR) "." TEXT(OGP_VERSION_MINOR) "." TEXT(OGP_VERSION_PATCH);
}

/* ---- tensors ---- */

enum role { X, W, Y, B };

/* A tensor of the role, with the extents that the problem gives it (the caller's axes). */
static struct tensor tensor_of(const struct ogp_plan *plan, const char *name, enum role role, const void *data,
                               const int64_t *stride)
{
    const struct problem *const p = &plan->problem;
    struct tensor t = {.name = name, .data = data, .stride = stride, .axes = role == B ? 1 : 5};
    t.extent[0] = role == X || role == Y ? p->n : p->co;
    t.extent[1] = role == X ? p->ci : role == Y ? p->co : p->ci_g;
    for (int a = 0; a < 3; a++) {
        const struct axis *const axis = &p->axis[a];
        t.extent[2 + plan->order[a]] = role == X ? axis->i : role == Y ? axis->o : axis->k;
    }
    return t;
}

/* Stride of an axis, 0 where its extent is 1 and the stride means nothing. */
static int64_t stride_of(const struct tensor *t, int axis)
{
    return t->extent[axis] == 1 ? 0 : t->stride[axis];
}

static struct volume volume_of(const struct ogp_plan *plan, const struct tensor *t)
{
    struct volume v = {.data = (char *)(uintptr_t)t->data, .n = stride_of(t, 0), .c = stride_of(t, 1)};
    for (int a = 0; a < 3; a++)
        v.axis[a] = stride_of(t, 2 + plan->order[a]);
    return v;
}

static struct weights weights_of(const struct ogp_plan *plan, const struct tensor *t)
{
    const struct volume v = volume_of(plan, t);
    struct weights w = {.data = v.data, .co = v.n, .ci = v.c};
    memcpy(w.axis, v.axis, sizeof w.axis);
    return w;
}

static struct line line_of(const struct tensor *t)
{
    return (struct line){.data = (char *)(uintptr_t)t->data, .step = t->data ? stride_of(t, 0) : 0};
}

/* Huge pages under a fresh dense output. */
static void advise(const struct tensor *t, int64_t element_bytes)
{
    int64_t count = 1, reach = 0;
    for (int a = 0; a < t->axes; a++) {
        count *= t->extent[a];
        reach += (t->extent[a] - 1) * stride_of(t, a);
    }
    if (count > 0 && reach == count - 1)
        ogp_pages_advise((void *)(uintptr_t)t->data, (size_t)(count * element_bytes));
}

/* ---- arguments ---- */

/* What one execution was given: outputs first, then inputs. A slot whose tensor may be missing has data NULL. */
struct call {
    const struct ogp_plan *plan;
    struct tensor outputs[2], inputs[3];
    int output_count, input_count;
};

/* The at-th tensor of a call: outputs, then inputs. */
static const struct tensor *tensor_at(const struct call *call, int at)
{
    return at < call->output_count ? &call->outputs[at] : &call->inputs[at - call->output_count];
}

static enum ogp_status check_tensors(const struct call *call, struct ogp_error *error)
{
    const int64_t bytes = ogp_dtype_bytes(call->plan->problem.dtype);
    const int count = call->output_count + call->input_count;
    for (int k = 0; k < count; k++) {
        const enum ogp_status status = ogp_tensor_check(tensor_at(call, k), bytes, k < call->output_count, error);
        if (status != OGP_OK)
            return status;
    }
    for (int o = 0; o < call->output_count; o++)
        for (int k = o + 1; k < count; k++) {
            const enum ogp_status status = ogp_tensor_apart(&call->outputs[o], tensor_at(call, k), bytes, error);
            if (status != OGP_OK)
                return status;
        }
    return OGP_OK;
}

static enum ogp_status check_run(const struct ogp_plan *plan, const struct ogp_run *run, struct ogp_error *error)
{
    if (run->size != sizeof *run)
        return ogp_fail(error, OGP_BAD_ARG, "run.size: expected %zu, got %" PRIu32, sizeof *run, run->size);
    const size_t need = ogp_plan_workspace_bytes(plan, 1);
    if (need > 0 && !run->workspace)
        return ogp_fail(error, OGP_BAD_ARG, "run.workspace: expected at least %zu bytes, got NULL", need);
    if (run->workspace_bytes < need)
        return ogp_fail(error, OGP_BAD_ARG, "run.workspace_bytes: expected at least %zu, got %zu", need,
                        run->workspace_bytes);
    return OGP_OK;
}

/* ---- running ---- */

static void lend(struct job *job, const struct ogp_run *run)
{
    const struct ogp_plan *const plan = job->plan;
    const int64_t worth = plan->cost > 1e15 ? INT32_MAX : 1 + (int64_t)plan->cost / OGP_CYCLES_A_WORKER;
    int64_t workers = ogp_min(ogp_pool_threads(run->pool), ogp_min(worth, plan->workers_most));
    if (plan->shared_bytes + plan->worker_bytes > 0) {
        char *const first = (char *)(((uintptr_t)run->workspace + OGP_ALIGN - 1) / OGP_ALIGN * OGP_ALIGN);
        job->shared = first;
        job->scratch = first + plan->shared_bytes;
        if (plan->worker_bytes > 0)
            workers = ogp_min(workers, (int64_t)((run->workspace_bytes - OGP_ALIGN - plan->shared_bytes) /
                                                 plan->worker_bytes));
    }
    job->workers = (int)ogp_max(workers, 1);
    job->pool = run->pool;
    job->poll = run->poll;
    job->poll_arg = run->poll_arg;
    job->accumulate = run->accumulate != 0;
}

static bool verbose;
static pthread_once_t verbose_once = PTHREAD_ONCE_INIT;

static void read_verbose(void)
{
    const char *const value = getenv("OGP_VERBOSE");
    verbose = value && *value && strcmp(value, "0") != 0;
}

static double milliseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void run_aloud(struct job *job)
{
    char line[1024];
    struct text t = {.out = line, .bytes = sizeof line};
    const double start = milliseconds();
    job->plan->config->run(job);
    ogp_describe(&t, job->plan);
    ogp_text_add(&t, " | workers %d ms %.3f", job->workers, milliseconds() - start);
    const long long chunks = atomic_load(&job->tally->chunks), direct = atomic_load(&job->tally->direct);
    if (chunks > 0)
        ogp_text_add(&t, " direct %lld of %lld chunks", direct, chunks);
    fprintf(stderr, "ogp: %s\n", line);
}

/* The common end of the four passes: call is filled in but for its checks, job for its operands. */
static enum ogp_status execute(const struct call *call, struct job *job, const struct ogp_run *run,
                               struct ogp_error *error)
{
    static const struct ogp_run defaults = {.size = sizeof defaults};
    run = run ? run : &defaults;
    enum ogp_status status = check_run(call->plan, run, error);
    if (status == OGP_OK)
        status = check_tensors(call, error);
    if (status != OGP_OK)
        return status;
    struct tally tally;
    atomic_init(&tally.chunks, 0);
    atomic_init(&tally.direct, 0);
    job->plan = call->plan;
    job->tally = &tally;
    atomic_init(&job->cancelled, false);
    ogp_flat_take(job);
    lend(job, run);
    for (int o = 0; o < call->output_count && !job->accumulate; o++)
        advise(&call->outputs[o], ogp_dtype_bytes(call->plan->problem.dtype));
    pthread_once(&verbose_once, read_verbose);
    if (verbose)
        run_aloud(job);
    else
        job->plan->config->run(job);
    if (atomic_load(&job->cancelled))
        return ogp_fail(error, OGP_CANCELLED, "poll: the execution was cancelled, its outputs are unspecified");
    return OGP_OK;
}

static enum ogp_status check_plan(const struct ogp_plan *plan, enum ogp_pass pass, struct ogp_error *error)
{
    static const char *const name[] = {"forward", "grad_input", "grad_weight", "grad_bias"};
    if (!plan)
        return ogp_fail(error, OGP_BAD_ARG, "plan: expected a plan, got NULL");
    if (plan->pass != pass)
        return ogp_fail(error, OGP_BAD_ARG, "plan: expected one for %s, got one for %s", name[pass], name[plan->pass]);
    return OGP_OK;
}

static enum ogp_status missing(const char *name, struct ogp_error *error)
{
    return ogp_fail(error, OGP_BAD_ARG, "%s: expected a tensor, got NULL", name);
}

enum ogp_status ogp_forward(const ogp_plan *plan, const struct ogp_input *x, const struct ogp_input *w,
                            const struct ogp_input *b, const struct ogp_output *y, const struct ogp_run *run,
                            struct ogp_error *error)
{
    const enum ogp_status status = check_plan(plan, OGP_FORWARD, error);
    if (status != OGP_OK)
        return status;
    if (!x || !w || !y)
        return missing(!x ? "x" : !w ? "w" : "y", error);
    struct call call = {
        .plan = plan,
        .outputs = {tensor_of(plan, "y", Y, y->data, y->stride)},
        .inputs = {tensor_of(plan, "x", X, x->data, x->stride), tensor_of(plan, "w", W, w->data, w->stride)},
        .output_count = 1,
        .input_count = 2,
    };
    struct job job = {
        .x = volume_of(plan, &call.inputs[0]),
        .w = weights_of(plan, &call.inputs[1]),
        .y = volume_of(plan, &call.outputs[0]),
    };
    if (b) {
        call.inputs[call.input_count++] = tensor_of(plan, "b", B, b->data, b->stride);
        job.b = line_of(&call.inputs[2]);
    }
    return execute(&call, &job, run, error);
}

enum ogp_status ogp_grad_input(const ogp_plan *plan, const struct ogp_input *gy, const struct ogp_input *w,
                               const struct ogp_output *gx, const struct ogp_run *run, struct ogp_error *error)
{
    const enum ogp_status status = check_plan(plan, OGP_GRAD_INPUT, error);
    if (status != OGP_OK)
        return status;
    if (!gy || !w || !gx)
        return missing(!gy ? "gy" : !w ? "w" : "gx", error);
    const struct call call = {
        .plan = plan,
        .outputs = {tensor_of(plan, "gx", X, gx->data, gx->stride)},
        .inputs = {tensor_of(plan, "gy", Y, gy->data, gy->stride), tensor_of(plan, "w", W, w->data, w->stride)},
        .output_count = 1,
        .input_count = 2,
    };
    struct job job = {
        .x = volume_of(plan, &call.outputs[0]),
        .w = weights_of(plan, &call.inputs[1]),
        .y = volume_of(plan, &call.inputs[0]),
    };
    return execute(&call, &job, run, error);
}

enum ogp_status ogp_grad_weight(const ogp_plan *plan, const struct ogp_input *x, const struct ogp_input *gy,
                                const struct ogp_output *gw, const struct ogp_output *gb, const struct ogp_run *run,
                                struct ogp_error *error)
{
    const enum ogp_status status = check_plan(plan, OGP_GRAD_WEIGHT, error);
    if (status != OGP_OK)
        return status;
    if (!x || !gy || !gw)
        return missing(!x ? "x" : !gy ? "gy" : "gw", error);
    struct call call = {
        .plan = plan,
        .outputs = {tensor_of(plan, "gw", W, gw->data, gw->stride)},
        .inputs = {tensor_of(plan, "x", X, x->data, x->stride), tensor_of(plan, "gy", Y, gy->data, gy->stride)},
        .output_count = 1,
        .input_count = 2,
    };
    struct job job = {
        .x = volume_of(plan, &call.inputs[0]),
        .w = weights_of(plan, &call.outputs[0]),
        .y = volume_of(plan, &call.inputs[1]),
    };
    if (gb) {
        call.outputs[call.output_count++] = tensor_of(plan, "gb", B, gb->data, gb->stride);
        job.b = line_of(&call.outputs[1]);
    }
    return execute(&call, &job, run, error);
}

enum ogp_status ogp_grad_bias(const ogp_plan *plan, const struct ogp_input *gy, const struct ogp_output *gb,
                              const struct ogp_run *run, struct ogp_error *error)
{
    const enum ogp_status status = check_plan(plan, OGP_GRAD_BIAS, error);
    if (status != OGP_OK)
        return status;
    if (!gy || !gb)
        return missing(!gy ? "gy" : "gb", error);
    const struct call call = {
        .plan = plan,
        .outputs = {tensor_of(plan, "gb", B, gb->data, gb->stride)},
        .inputs = {tensor_of(plan, "gy", Y, gy->data, gy->stride)},
        .output_count = 1,
        .input_count = 1,
    };
    struct job job = {
        .y = volume_of(plan, &call.inputs[0]),
        .b = line_of(&call.outputs[0]),
    };
    return execute(&call, &job, run, error);
}
