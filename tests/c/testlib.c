/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const config_names[] = {NULL,           "reference",        "direct-rows", "direct-channels",
                                    "direct-lanes", "direct-pointwise", "fourier",     "winograd", "sum"};
const int config_count = sizeof config_names / sizeof *config_names;
const char *const isa_names[] = {NULL, "baseline", "avx2", "avx512", "neon", "wide"};
const int isa_count = sizeof isa_names / sizeof *isa_names;

/* ---- expectations ---- */

static int64_t failures;

static void fail_va(const char *format, va_list args)
{
    failures++;
    fputs("FAIL ", stdout);
    vprintf(format, args);
    putchar('\n');
    fflush(stdout);
}

void test_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail_va(format, args);
    va_end(args);
}

int test_expect(int holds, const char *file, int line, const char *condition, const char *format, ...)
{
    if (!holds) {
        printf("%s:%d: %s\n", file, line, condition);
        va_list args;
        va_start(args, format);
        fail_va(format, args);
        va_end(args);
    }
    return holds;
}

int64_t test_failures(void)
{
    return failures;
}

int test_end(const char *name)
{
    if (failures)
        printf("%s: %lld failures\n", name, (long long)failures);
    else
        printf("%s: ok\n", name);
    return failures != 0;
}

void *test_alloc(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) {
        fprintf(stderr, "the test itself is out of memory: %zu bytes\n", bytes);
        exit(2);
    }
    return memory;
}

/* ---- problems ---- */

static const struct {
    const char *name;
    int inputs, outputs;
    enum role in[3], out[2];
} passes[] = {
    [OGP_FORWARD] = {"forward", 3, 1, {ROLE_X, ROLE_W, ROLE_B}, {ROLE_Y}},
    [OGP_GRAD_INPUT] = {"grad_input", 2, 1, {ROLE_Y, ROLE_W}, {ROLE_X}},
    [OGP_GRAD_WEIGHT] = {"grad_weight", 2, 2, {ROLE_X, ROLE_Y}, {ROLE_W, ROLE_B}},
    [OGP_GRAD_BIAS] = {"grad_bias", 1, 1, {ROLE_Y}, {ROLE_B}},
};

int pass_inputs(enum ogp_pass pass)
{
    return passes[pass].inputs;
}

int pass_outputs(enum ogp_pass pass)
{
    return passes[pass].outputs;
}

enum role pass_input_role(enum ogp_pass pass, int i)
{
    return passes[pass].in[i];
}

enum role pass_output_role(enum ogp_pass pass, int i)
{
    return passes[pass].out[i];
}

const char *pass_name(enum ogp_pass pass)
{
    return passes[pass].name;
}

void problem_output(const struct ogp_problem *p, int64_t out[3])
{
    for (int a = 0; a < 3; a++) {
        const int64_t s = p->stride[a] ? p->stride[a] : 1, l = p->dilation[a] ? p->dilation[a] : 1;
        out[a] = (p->in[a] + p->pad_lo[a] + p->pad_hi[a] - l * (p->kernel[a] - 1) - 1) / s + 1;
    }
}

void role_extents(const struct ogp_problem *p, enum role role, int64_t extent[5])
{
    int64_t out[3];
    problem_output(p, out);
    const int64_t g = p->g ? p->g : 1;
    const int64_t table[4][5] = {
        [ROLE_X] = {p->n, p->ci, p->in[0], p->in[1], p->in[2]},
        [ROLE_W] = {p->co, p->ci / g, p->kernel[0], p->kernel[1], p->kernel[2]},
        [ROLE_B] = {p->co, 1, 1, 1, 1},
        [ROLE_Y] = {p->n, p->co, out[0], out[1], out[2]},
    };
    memcpy(extent, table[role], 5 * sizeof *extent);
}

int64_t extents_count(const int64_t extent[5])
{
    return extent[0] * extent[1] * extent[2] * extent[3] * extent[4];
}

struct ogp_problem problem_of(const char *text)
{
    struct ogp_problem problem = {.size = sizeof problem};
    struct ogp_error error = {.size = sizeof error};
    enum ogp_pass pass;
    if (ogp_problem_parse(text, &problem, &pass, &error) != OGP_OK) {
        fprintf(stderr, "the test's own problem does not parse: \"%s\": %s\n", text, error.text);
        exit(2);
    }
    return problem;
}

/* ---- operands ---- */

int operands_outputs(enum ogp_pass pass, const struct operands *ops)
{
    return passes[pass].outputs == 2 && !ops->optional ? 1 : passes[pass].outputs;
}

void operands_make(struct operands *ops, const struct ogp_problem *problem, enum ogp_pass pass, int optional,
                   const enum view views[5], enum fill fill, uint64_t seed)
{
    static const enum view dense[5] = {VIEW_NCDHW, VIEW_NCDHW, VIEW_NCDHW, VIEW_NCDHW, VIEW_NCDHW};
    if (!views)
        views = dense;
    *ops = (struct operands){.optional = optional};
    for (int i = 0; i < passes[pass].inputs; i++) {
        int64_t extent[5];
        role_extents(problem, passes[pass].in[i], extent);
        ops->in[i] = tensor_make(problem->dtype, extent, views[i], GUARD_INPUT);
        tensor_fill(&ops->in[i], fill, mix(seed, (uint64_t)passes[pass].in[i]));
    }
    for (int i = 0; i < passes[pass].outputs; i++) {
        int64_t extent[5];
        role_extents(problem, passes[pass].out[i], extent);
        ops->out[i] = tensor_make(problem->dtype, extent, views[3 + i], GUARD_OUTPUT);
        tensor_set_all(&ops->out[i], NAN);
    }
}

void operands_free(struct operands *ops)
{
    for (int i = 0; i < 3; i++)
        tensor_free(&ops->in[i]);
    for (int i = 0; i < 2; i++)
        tensor_free(&ops->out[i]);
}

/* Bound of the error of a direct sum of `terms` products, in units of eps/2 * sum |product|. Recursive summation of m
 * terms with fused or rounded products errs by at most m+1 of them (Higham, Accuracy and Stability, section 3.1). f32
 * running sums end after 1024 terms; the sums of the blocks are added in f32 or better: one more unit per block. The
 * rest covers bias, accumulation, the reduction of partial sums and the final rounding. */
double direct_bound(enum ogp_dtype dtype, int64_t terms)
{
    const double longest = 1024;
    return (dtype == OGP_F32 && (double)terms > longest ? longest + (double)terms / longest : (double)terms) + 8;
}

static double norm(const struct tensor *t)
{
    const int64_t count = tensor_count(t);
    double *const values = test_alloc((size_t)count * sizeof(double)), sum = 0;
    tensor_values(t, values);
    for (int64_t i = 0; i < count; i++)
        sum += values[i] * values[i];
    free(values);
    return sqrt(sum);
}

double fourier_bound(const struct operands *ops, int64_t terms)
{
    const double levels = 2 * 6; /* log2 of 64 points, on two axes */
    return (8 * levels + 8 + fmin((double)terms, 1024)) * norm(&ops->in[0]) * norm(&ops->in[1]);
}

double winograd_bound(const struct operands *ops, int64_t terms)
{
    const double levels = 5.17; /* log2 of 36 points */
    return (8 * levels + 8 + fmin((double)terms, 192)) * norm(&ops->in[0]) * norm(&ops->in[1]);
}

static int has_config(const char *describe, const char *name)
{
    const char *config = strstr(describe, "| ");
    return config && strncmp(config + 2, name, strlen(name)) == 0;
}

int is_direct(const char *describe)
{
    return !has_config(describe, "fourier") && !has_config(describe, "winograd");
}

double transform_bound(const char *describe, const struct operands *ops, int64_t terms)
{
    if (has_config(describe, "winograd"))
        return winograd_bound(ops, terms);
    return has_config(describe, "fourier") ? fourier_bound(ops, terms) : 0;
}

enum ogp_status run_pass(const ogp_plan *plan, enum ogp_pass pass, const struct operands *ops,
                         const struct ogp_run *run, struct ogp_error *error)
{
    const struct ogp_input a = tensor_input(&ops->in[0]), b = tensor_input(&ops->in[1]);
    const struct ogp_input c = tensor_input(&ops->in[2]);
    const struct ogp_output u = tensor_output(&ops->out[0]), v = tensor_output(&ops->out[1]);
    switch (pass) {
    case OGP_FORWARD:
        return ogp_forward(plan, &a, &b, ops->optional ? &c : NULL, &u, run, error);
    case OGP_GRAD_INPUT:
        return ogp_grad_input(plan, &a, &b, &u, run, error);
    case OGP_GRAD_WEIGHT:
        return ogp_grad_weight(plan, &a, &b, &u, ops->optional ? &v : NULL, run, error);
    case OGP_GRAD_BIAS:
        return ogp_grad_bias(plan, &a, &u, run, error);
    }
    return OGP_BAD_ARG;
}

void compute(const struct ogp_problem *problem, enum ogp_pass pass, const struct ogp_options *options,
             const struct operands *ops, ogp_pool *pool)
{
    struct ogp_error error = {.size = sizeof error};
    ogp_plan *plan = NULL;
    if (!EXPECT(ogp_plan_create(&plan, problem, pass, options, &error) == OGP_OK, "%s plan: %s", pass_name(pass),
                error.text))
        return;
    struct ogp_run run = {.size = sizeof run, .pool = pool};
    run.workspace_bytes = ogp_plan_workspace_bytes(plan, ogp_pool_threads(pool));
    run.workspace = test_alloc(run.workspace_bytes);
    const enum ogp_status status = run_pass(plan, pass, ops, &run, &error);
    EXPECT(status == OGP_OK, "%s: %s: %s", pass_name(pass), ogp_status_text(status), error.text);
    free(run.workspace);
    ogp_plan_destroy(plan);
}
