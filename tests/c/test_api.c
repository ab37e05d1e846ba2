/* SPDX-License-Identifier: Apache-2.0 */
/* Every bad argument is refused with the right status and a message that names it; nothing crashes, writes or loops. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "testlib.h"

static const char *const base_text = "n2 g2 ci4 co6 i5x6x7 k3 p1";

#define FIELD(member) offsetof(struct ogp_problem, member)

/* ---- problems ---- */

static const struct {
    const char *name;
    size_t offset;
    int64_t value;
    enum ogp_status status;
    const char *says;
} bad_numbers[] = {
    {"n", FIELD(n), -1, OGP_BAD_SHAPE, "n"},
    {"n", FIELD(n), INT64_MIN, OGP_BAD_SHAPE, "n"},
    {"g", FIELD(g), -1, OGP_BAD_SHAPE, "g"},
    {"g", FIELD(g), INT64_MIN, OGP_BAD_SHAPE, "g"},
    {"g", FIELD(g), 3, OGP_BAD_SHAPE, "ci"},
    {"g", FIELD(g), 4, OGP_BAD_SHAPE, "co"},
    {"ci", FIELD(ci), -2, OGP_BAD_SHAPE, "ci"},
    {"ci", FIELD(ci), 5, OGP_BAD_SHAPE, "ci"},
    {"co", FIELD(co), 0, OGP_BAD_SHAPE, "co"},
    {"co", FIELD(co), -2, OGP_BAD_SHAPE, "co"},
    {"co", FIELD(co), 5, OGP_BAD_SHAPE, "co"},
    {"in depth", FIELD(in[0]), 0, OGP_BAD_SHAPE, "depth"},
    {"in height", FIELD(in[1]), -1, OGP_BAD_SHAPE, "height"},
    {"in width", FIELD(in[2]), INT64_MIN, OGP_BAD_SHAPE, "width"},
    {"kernel depth", FIELD(kernel[0]), 0, OGP_BAD_SHAPE, "kernel"},
    {"kernel width", FIELD(kernel[2]), -1, OGP_BAD_SHAPE, "kernel"},
    {"kernel beyond", FIELD(kernel[1]), 9, OGP_BAD_SHAPE, "kernel"},
    {"kernel huge", FIELD(kernel[1]), INT64_MAX, OGP_BAD_SHAPE, "kernel"},
    {"stride", FIELD(stride[0]), -1, OGP_BAD_SHAPE, "stride"},
    {"stride", FIELD(stride[2]), INT64_MIN, OGP_BAD_SHAPE, "stride"},
    {"pad_lo", FIELD(pad_lo[0]), -1, OGP_BAD_SHAPE, "pad_lo"},
    {"pad_hi", FIELD(pad_hi[2]), -1, OGP_BAD_SHAPE, "pad_hi"},
    {"pad_lo 2^62", FIELD(pad_lo[1]), (int64_t)1 << 62, OGP_TOO_LARGE, "height"},
    {"pad_hi max", FIELD(pad_hi[1]), INT64_MAX, OGP_TOO_LARGE, "height"},
    {"dilation", FIELD(dilation[0]), -1, OGP_BAD_SHAPE, "dilation"},
    {"dilation huge", FIELD(dilation[0]), INT64_MAX, OGP_BAD_SHAPE, "dilation"},
    {"n huge", FIELD(n), INT64_MAX, OGP_TOO_LARGE, "x"},
    {"n 2^55", FIELD(n), (int64_t)1 << 55, OGP_TOO_LARGE, "x"},
    {"ci huge", FIELD(ci), (int64_t)1 << 60, OGP_TOO_LARGE, "x"},
    {"co huge", FIELD(co), (int64_t)1 << 60, OGP_TOO_LARGE, ""},
};

static const struct {
    const char *name;
    size_t offset;
    int value;
} bad_enums[] = {
    {"dtype", FIELD(dtype), 2},        {"dtype", FIELD(dtype), -1},      {"padding", FIELD(padding), 4},
    {"padding", FIELD(padding), -1},   {"x_layout", FIELD(x_layout), 2}, {"w_layout", FIELD(w_layout), 7},
    {"y_layout", FIELD(y_layout), -1},
};

static void refused(const struct ogp_problem *problem, const char *name, enum ogp_status expected, const char *says)
{
    struct ogp_error error = {.size = sizeof error};
    int64_t out[3];
    ogp_plan *plan = (ogp_plan *)&error;
    const enum ogp_status extents = ogp_output_extents(problem, out, &error);
    EXPECT(extents == expected, "%s: extents: %s, expected %s", name, ogp_status_text(extents),
           ogp_status_text(expected));
    EXPECT(strstr(error.text, says), "%s: the message does not name '%s': %s", name, says, error.text);
    for (int pass = OGP_FORWARD; pass <= OGP_GRAD_BIAS; pass++) {
        const enum ogp_status status = ogp_plan_create(&plan, problem, (enum ogp_pass)pass, NULL, &error);
        EXPECT(status == expected && !plan, "%s: plan: %s, expected %s", name, ogp_status_text(status),
               ogp_status_text(expected));
        EXPECT(ogp_plan_create(&plan, problem, (enum ogp_pass)pass, NULL, NULL) == expected, "%s without error", name);
    }
}

static void test_problems(void)
{
    const struct ogp_problem base = problem_of(base_text);
    for (size_t i = 0; i < sizeof bad_numbers / sizeof *bad_numbers; i++) {
        struct ogp_problem p = base;
        memcpy((char *)&p + bad_numbers[i].offset, &bad_numbers[i].value, sizeof(int64_t));
        refused(&p, bad_numbers[i].name, bad_numbers[i].status, bad_numbers[i].says);
    }
    for (size_t i = 0; i < sizeof bad_enums / sizeof *bad_enums; i++) {
        struct ogp_problem p = base;
        memcpy((char *)&p + bad_enums[i].offset, &bad_enums[i].value, sizeof(int));
        refused(&p, bad_enums[i].name, OGP_BAD_ARG, bad_enums[i].name);
    }
    struct ogp_problem p = base;
    p.size = 0;
    refused(&p, "size 0", OGP_BAD_ARG, "size");
    p.size = sizeof p - 8;
    refused(&p, "size too small", OGP_BAD_ARG, "size");
    refused(NULL, "no problem", OGP_BAD_ARG, "problem");
    p = problem_of("i5 k3 p4 reflect");
    p.pad_hi[1] = 5;
    refused(&p, "reflect", OGP_BAD_SHAPE, "height");
    p = problem_of("i8 k3");
    for (int a = 0; a < 3; a++) /* each fits, their product does not */
        p.in[a] = (int64_t)1 << 22;
    refused(&p, "product", OGP_TOO_LARGE, "x");
    p = problem_of("i1 k1");
    for (int a = 0; a < 3; a++) {
        p.kernel[a] = (int64_t)1 << 22;
        p.pad_lo[a] = (int64_t)1 << 22;
    }
    refused(&p, "kernel product", OGP_TOO_LARGE, "w");
}

static void test_defaults(void)
{
    struct ogp_problem p = {.size = sizeof p, .n = 1, .ci = 2, .co = 2, .in = {4, 5, 6}, .kernel = {3, 3, 3}};
    int64_t out[3] = {0};
    EXPECT(ogp_output_extents(&p, out, NULL) == OGP_OK, "zeros in g, stride and dilation are 1");
    EXPECT(out[0] == 2 && out[1] == 3 && out[2] == 4, "%" PRId64 " %" PRId64 " %" PRId64, out[0], out[1], out[2]);
    EXPECT(ogp_output_extents(&p, NULL, NULL) == OGP_BAD_ARG, "no room for the extents");
}

/* ---- plans ---- */

static enum ogp_status plan_with(const struct ogp_options *options, struct ogp_error *error)
{
    const struct ogp_problem p = problem_of(base_text);
    ogp_plan *plan = NULL;
    const enum ogp_status status = ogp_plan_create(&plan, &p, OGP_FORWARD, options, error);
    EXPECT((status == OGP_OK) == (plan != NULL), "%s leaves a plan of %p", ogp_status_text(status), (void *)plan);
    ogp_plan_destroy(plan);
    return status;
}

static void option_refused(const char *name, struct ogp_options options, enum ogp_status expected, const char *says)
{
    struct ogp_error error = {.size = sizeof error};
    const enum ogp_status status = plan_with(&options, &error);
    EXPECT(status == expected, "%s: %s, expected %s", name, ogp_status_text(status), ogp_status_text(expected));
    EXPECT(strstr(error.text, says), "%s: the message does not name '%s': %s", name, says, error.text);
}

static void test_options(void)
{
    const struct ogp_options good = {.size = sizeof good};
    struct ogp_options o = good;
    EXPECT(plan_with(NULL, NULL) == OGP_OK, "no options");
    EXPECT(plan_with(&good, NULL) == OGP_OK, "options of zeros");
    o.size = 8;
    option_refused("options.size", o, OGP_BAD_ARG, "size");
    o = good;
    o.precision = (enum ogp_precision)3;
    option_refused("precision", o, OGP_BAD_ARG, "precision");
    o = good;
    o.workspace_limit = -2;
    option_refused("workspace_limit", o, OGP_BAD_ARG, "workspace_limit");
    o = good;
    o.config = "nonesuch";
    option_refused("config", o, OGP_NOT_APPLICABLE, "nonesuch");
    o = good;
    o.isa = "nonesuch";
    option_refused("isa", o, OGP_NOT_APPLICABLE, "nonesuch");

    const struct ogp_problem p = problem_of(base_text);
    ogp_plan *plan = NULL;
    EXPECT(ogp_plan_create(NULL, &p, OGP_FORWARD, NULL, NULL) == OGP_BAD_ARG, "no place for the plan");
    EXPECT(ogp_plan_create(&plan, &p, (enum ogp_pass)4, NULL, NULL) == OGP_BAD_ARG, "pass 4");
    EXPECT(ogp_plan_create(&plan, &p, (enum ogp_pass) - 1, NULL, NULL) == OGP_BAD_ARG, "pass -1");
    ogp_plan_destroy(NULL);
}

/* ---- pools ---- */

static void parallel(void *host, int workers, void (*body)(void *arg, int worker), void *arg)
{
    (void)host;
    for (int i = 0; i < workers; i++)
        body(arg, i);
}

static void test_pools(void)
{
    ogp_pool *pool = NULL;
    EXPECT(ogp_pool_create(NULL, 2, NULL) == OGP_BAD_ARG, "no place for the pool");
    EXPECT(ogp_pool_create(&pool, 0, NULL) == OGP_BAD_ARG && !pool, "0 threads");
    EXPECT(ogp_pool_create(&pool, -5, NULL) == OGP_BAD_ARG && !pool, "-5 threads");
    EXPECT(ogp_pool_from_callback(&pool, NULL, NULL, 2, NULL) == OGP_BAD_ARG && !pool, "no callback");
    EXPECT(ogp_pool_from_callback(&pool, parallel, NULL, 0, NULL) == OGP_BAD_ARG && !pool, "callback, 0 threads");
    EXPECT(ogp_pool_from_callback(NULL, parallel, NULL, 1, NULL) == OGP_BAD_ARG, "no place for the callback pool");
    EXPECT(ogp_pool_threads(NULL) == 1, "NULL is the caller");
    EXPECT(ogp_pool_from_callback(&pool, parallel, NULL, 5, NULL) == OGP_OK && ogp_pool_threads(pool) == 5,
           "5 threads");
    ogp_pool_destroy(pool);
    EXPECT(ogp_pool_create(&pool, 3, NULL) == OGP_OK && ogp_pool_threads(pool) == 3, "3 threads");
    ogp_pool_destroy(pool);
    ogp_pool_destroy(NULL);
}

/* ---- executions ---- */

struct call {
    struct ogp_input x, w, b;
    struct ogp_output y;
    struct ogp_run run;
};

static ogp_plan *forward_plan;

static void call_refused(const char *name, const struct call *c, const struct ogp_run *run, enum ogp_status expected,
                         const char *says)
{
    struct ogp_error error = {.size = sizeof error};
    const enum ogp_status status = ogp_forward(forward_plan, &c->x, &c->w, &c->b, &c->y, run, &error);
    EXPECT(status == expected, "%s: %s, expected %s", name, ogp_status_text(status), ogp_status_text(expected));
    if (expected != OGP_OK)
        EXPECT(strstr(error.text, says), "%s: the message does not name '%s': %s", name, says, error.text);
    EXPECT(ogp_forward(forward_plan, &c->x, &c->w, &c->b, &c->y, run, NULL) == expected, "%s without error", name);
}

static void test_tensors(const struct call *good, const struct operands *ops)
{
    struct call c = *good;
    c.x.data = NULL;
    call_refused("x NULL", &c, &c.run, OGP_BAD_ARG, "x");
    c = *good, c.w.data = NULL;
    call_refused("w NULL", &c, &c.run, OGP_BAD_ARG, "w");
    c = *good, c.b.data = NULL;
    call_refused("b without data", &c, &c.run, OGP_BAD_ARG, "b");
    c = *good, c.y.data = NULL;
    call_refused("y NULL", &c, &c.run, OGP_BAD_ARG, "y");
    c = *good, c.y.stride[3] = 0;
    call_refused("y stride 0", &c, &c.run, OGP_BAD_ARG, "y");
    c = *good, c.y.stride[3] = ops->out[0].extent[4] - 1;
    call_refused("y rows overlap", &c, &c.run, OGP_BAD_ARG, "y");
    c = *good, c.y.stride[0] = c.y.stride[1];
    call_refused("y items overlap", &c, &c.run, OGP_BAD_ARG, "y");
    c = *good, c.y.data = (void *)(uintptr_t)c.x.data;
    call_refused("y is x", &c, &c.run, OGP_BAD_ARG, "y");
    c = *good, c.y.data = ops->in[1].first + 4;
    call_refused("y over w", &c, &c.run, OGP_BAD_ARG, "y");
    c = *good, c.b.data = ops->out[0].first + 8;
    call_refused("b inside y", &c, &c.run, OGP_BAD_ARG, "y");
    for (int a = 0; a < 5; a++) {
        c = *good, c.x.stride[a] = a % 2 ? INT64_MIN : INT64_MAX;
        call_refused("x stride beyond 63 bits", &c, &c.run, OGP_TOO_LARGE, "x");
        c = *good, c.w.stride[a] = a % 2 ? INT64_MAX : INT64_MIN;
        call_refused("w stride beyond 63 bits", &c, &c.run, OGP_TOO_LARGE, "w");
        c = *good, c.y.stride[a] = a % 2 ? INT64_MIN : INT64_MAX;
        call_refused("y stride beyond 63 bits", &c, &c.run, OGP_TOO_LARGE, "y");
    }
}

static void test_runs(const struct call *good)
{
    struct call c = *good;
    call_refused("all good", &c, &c.run, OGP_OK, "");
    c.run.size = 4;
    call_refused("run.size", &c, &c.run, OGP_BAD_ARG, "size");
    c = *good;
    const size_t need = ogp_plan_workspace_bytes(forward_plan, 1);
    if (need > 0) {
        call_refused("no run", &c, NULL, OGP_BAD_ARG, "workspace");
        c.run.workspace_bytes = need - 1;
        call_refused("a byte short", &c, &c.run, OGP_BAD_ARG, "workspace");
        c = *good, c.run.workspace = NULL;
        call_refused("workspace NULL", &c, &c.run, OGP_BAD_ARG, "workspace");
    }
}

static void test_null_structs(const struct call *c)
{
    const struct ogp_input *x = &c->x, *w = &c->w;
    const struct ogp_output *y = &c->y;
    EXPECT(ogp_forward(NULL, x, w, NULL, y, &c->run, NULL) == OGP_BAD_ARG, "no plan");
    EXPECT(ogp_forward(forward_plan, NULL, w, NULL, y, &c->run, NULL) == OGP_BAD_ARG, "no x");
    EXPECT(ogp_forward(forward_plan, x, NULL, NULL, y, &c->run, NULL) == OGP_BAD_ARG, "no w");
    EXPECT(ogp_forward(forward_plan, x, w, NULL, NULL, &c->run, NULL) == OGP_BAD_ARG, "no y");
    EXPECT(ogp_grad_input(NULL, x, w, y, &c->run, NULL) == OGP_BAD_ARG, "no plan");
    EXPECT(ogp_grad_weight(NULL, x, w, y, NULL, &c->run, NULL) == OGP_BAD_ARG, "no plan");
    EXPECT(ogp_grad_bias(NULL, x, y, &c->run, NULL) == OGP_BAD_ARG, "no plan");
}

static void test_wrong_pass(void)
{
    const struct ogp_problem p = problem_of(base_text);
    for (int of = OGP_FORWARD; of <= OGP_GRAD_BIAS; of++) {
        ogp_plan *plan = NULL;
        EXPECT(ogp_plan_create(&plan, &p, (enum ogp_pass)of, NULL, NULL) == OGP_OK, "plan of pass %d", of);
        for (int as = OGP_FORWARD; as <= OGP_GRAD_BIAS; as++) {
            struct ogp_error error = {.size = sizeof error};
            struct operands ops;
            operands_make(&ops, &p, (enum ogp_pass)as, 1, NULL, FILL_UNIFORM, 1);
            struct ogp_run run = {.size = sizeof run, .workspace_bytes = ogp_plan_workspace_bytes(plan, 1)};
            run.workspace = test_alloc(run.workspace_bytes);
            const enum ogp_status status = run_pass(plan, (enum ogp_pass)as, &ops, &run, &error);
            EXPECT(status == (of == as ? OGP_OK : OGP_BAD_ARG), "plan of %s run as %s: %s",
                   pass_name((enum ogp_pass)of), pass_name((enum ogp_pass)as), ogp_status_text(status));
            if (of != as)
                EXPECT(strstr(error.text, pass_name((enum ogp_pass)of)), "the message names the plan's pass: %s",
                       error.text);
            free(run.workspace);
            operands_free(&ops);
        }
        ogp_plan_destroy(plan);
    }
}

/* gw and gb may not share memory either. */
static void test_two_outputs(void)
{
    const struct ogp_problem p = problem_of(base_text);
    struct operands ops;
    ogp_plan *plan = NULL;
    operands_make(&ops, &p, OGP_GRAD_WEIGHT, 1, NULL, FILL_UNIFORM, 1);
    EXPECT(ogp_plan_create(&plan, &p, OGP_GRAD_WEIGHT, NULL, NULL) == OGP_OK, "plan");
    struct ogp_run run = {.size = sizeof run, .workspace_bytes = ogp_plan_workspace_bytes(plan, 1)};
    run.workspace = test_alloc(run.workspace_bytes);
    const struct tensor gb = ops.out[1];
    ops.out[1].first = ops.out[0].first;
    EXPECT(run_pass(plan, OGP_GRAD_WEIGHT, &ops, &run, NULL) == OGP_BAD_ARG, "gb inside gw");
    ops.out[1].first = NULL;
    EXPECT(run_pass(plan, OGP_GRAD_WEIGHT, &ops, &run, NULL) == OGP_BAD_ARG, "gb without data");
    ops.out[1] = gb;
    EXPECT(run_pass(plan, OGP_GRAD_WEIGHT, &ops, &run, NULL) == OGP_OK, "gb apart");
    free(run.workspace);
    ogp_plan_destroy(plan);
    operands_free(&ops);
}

/* Tensors without elements need no address. */
static void test_empty(const char *text, enum ogp_pass pass)
{
    const struct ogp_problem p = problem_of(text);
    struct operands ops;
    operands_make(&ops, &p, pass, 1, NULL, FILL_UNIFORM, 1);
    struct operands bare = ops;
    for (int i = 0; i < 3; i++)
        if (tensor_count(&bare.in[i]) == 0)
            bare.in[i].first = NULL;
    for (int i = 0; i < 2; i++)
        if (tensor_count(&bare.out[i]) == 0)
            bare.out[i].first = NULL;
    compute(&p, pass, NULL, &bare, NULL);
    if (p.n == 0 && (pass == OGP_GRAD_WEIGHT || pass == OGP_GRAD_BIAS))
        for (int o = 0; o < pass_outputs(pass); o++)
            for (int64_t i = 0; i < tensor_count(&ops.out[o]); i++)
                EXPECT(tensor_get(&ops.out[o], i) == 0, "%s \"%s\": element %" PRId64 " is not 0", pass_name(pass),
                       text, i);
    operands_free(&ops);
}

static void test_executions(void)
{
    const struct ogp_problem p = problem_of(base_text);
    struct operands ops;
    operands_make(&ops, &p, OGP_FORWARD, 1, NULL, FILL_UNIFORM, 1);
    EXPECT(ogp_plan_create(&forward_plan, &p, OGP_FORWARD, NULL, NULL) == OGP_OK, "plan");
    struct call c = {tensor_input(&ops.in[0]),
                     tensor_input(&ops.in[1]),
                     tensor_input(&ops.in[2]),
                     tensor_output(&ops.out[0]),
                     {.size = sizeof c.run}};
    c.run.workspace_bytes = ogp_plan_workspace_bytes(forward_plan, 1);
    c.run.workspace = test_alloc(c.run.workspace_bytes);
    test_tensors(&c, &ops);
    for (int64_t i = 0; i < tensor_count(&ops.out[0]); i++)
        EXPECT(tensor_get(&ops.out[0], i) != tensor_get(&ops.out[0], i), "a refused call wrote element %" PRId64, i);
    test_runs(&c);
    test_null_structs(&c);
    free(c.run.workspace);
    ogp_plan_destroy(forward_plan);
    operands_free(&ops);
    test_wrong_pass();
    test_two_outputs();
    for (int pass = OGP_FORWARD; pass <= OGP_GRAD_BIAS; pass++) {
        test_empty("n0 ci2 co3 i4 k3", (enum ogp_pass)pass);
        test_empty("n2 ci0 co3 i4 k3", (enum ogp_pass)pass);
    }
}

/* ---- messages ---- */

/* The error struct of a caller that knows a smaller (or larger) one: never a byte beyond its size. */
static void test_error_sizes(void)
{
    for (uint32_t size = 0; size <= 600; size++) {
        union {
            struct ogp_error error;
            unsigned char bytes[700];
        } u;
        memset(&u, GUARD_OUTPUT, sizeof u);
        u.error.size = size;
        EXPECT(ogp_output_extents(NULL, NULL, &u.error) == OGP_BAD_ARG, "status with an error of size %u", size);
        const size_t header = offsetof(struct ogp_error, text);
        EXPECT(size <= header || memchr(u.bytes + header, 0, size - header), "size %u: no zero byte at the end", size);
        for (size_t i = size > header ? size : header; i < sizeof u; i++)
            if (!EXPECT(u.bytes[i] == GUARD_OUTPUT, "size %u: byte %zu was written", size, i))
                return;
    }
}

static void test_texts(void)
{
    char version[40];
    snprintf(version, sizeof version, "%d.%d.%d", OGP_VERSION_MAJOR, OGP_VERSION_MINOR, OGP_VERSION_PATCH);
    EXPECT(strcmp(ogp_version(), version) == 0, "version %s, header %s", ogp_version(), version);
    for (int status = -1; status < 20; status++)
        EXPECT(ogp_status_text((enum ogp_status)status) && *ogp_status_text((enum ogp_status)status), "status %d",
               status);
    EXPECT(strcmp(ogp_status_text(OGP_BAD_ARG), ogp_status_text(OGP_BAD_SHAPE)) != 0, "statuses read alike");
}

/* ---- numbers without limits ---- */

static int64_t extreme(uint64_t h)
{
    static const int64_t values[] = {INT64_MIN,
                                     INT64_MIN + 1,
                                     -1,
                                     0,
                                     1,
                                     2,
                                     3,
                                     4,
                                     5,
                                     7,
                                     16,
                                     1000,
                                     (int64_t)1 << 31,
                                     ((int64_t)1 << 31) - 1,
                                     (int64_t)1 << 32,
                                     (int64_t)1 << 40,
                                     (int64_t)1 << 55,
                                     (int64_t)1 << 60,
                                     (int64_t)1 << 61,
                                     (int64_t)1 << 62,
                                     INT64_MAX - 1,
                                     INT64_MAX};
    return values[h % (sizeof values / sizeof *values)];
}

static char wild_text[300];

static void too_slow(int number)
{
    (void)number;
    printf("FAIL planning takes for ever: \"%s\"\n", wild_text);
    fflush(stdout);
    _exit(1);
}

/* A plan or a refusal, and soon; its workspace is within the limit. True where there is a plan. */
static bool answers(const struct ogp_problem *p, enum ogp_pass pass, const struct ogp_options *options)
{
    ogp_plan *plan = NULL;
    char text[300];
    ogp_problem_print(p, pass, wild_text, sizeof wild_text);
    alarm(20);
    const enum ogp_status status = ogp_plan_create(&plan, p, pass, options, NULL);
    alarm(0);
    if (status != OGP_OK)
        return false;
    const int64_t limit = options->workspace_limit ? options->workspace_limit : OGP_DEFAULT_WORKSPACE;
    const size_t bytes = ogp_plan_workspace_bytes(plan, INT32_MAX);
    ogp_plan_describe(plan, text, sizeof text);
    EXPECT(limit < 0 ? bytes == 0 : bytes <= (size_t)limit, "%zu bytes, limit %" PRId64 ": %s", bytes, limit, text);
    ogp_plan_destroy(plan);
    return true;
}

static void test_extremes(void)
{
    int accepted = 0;
    for (uint64_t trial = 0; trial < 60000; trial++) {
        struct ogp_problem p = problem_of("n1 ci2 co2 i5x6x7 k3 p1");
        p.padding = (enum ogp_padding)(mix(trial, 0) % 4);
        const int wild = 1 + (int)(mix(trial, 1) % 5);
        for (int i = 0; i < wild; i++) {
            const size_t fields = (sizeof p - FIELD(n)) / sizeof(int64_t);
            const int64_t value = extreme(mix(trial, 100 + (uint64_t)i));
            memcpy((char *)&p + FIELD(n) + mix(trial, 200 + (uint64_t)i) % fields * sizeof value, &value, sizeof value);
        }
        const struct ogp_options options = {.size = sizeof options,
                                            .workspace_limit = extreme(mix(trial, 2)),
                                            .config = config_names[mix(trial, 3) % (uint64_t)config_count]};
        accepted += answers(&p, (enum ogp_pass)(mix(trial, 4) % 4), &options);
    }
    EXPECT(accepted > 500, "only %d wild problems were accepted: the test is empty", accepted);
}

/* Problems whose numbers once went beyond 63 bits in a plan, for every configuration. */
static void test_giants(void)
{
    static const char *const texts[] = {
        "n0 ci2 co2 i36028797018963968x6x7 k3 p1x1x7 q1x1x1152921504606846976",
        "n0 ci2 co2 i5x36028797018963968x7 k3 p1",
        "n0 ci2 co2 i5x6x1152921504606846976 k3 p1",
        "n0 g1099511627776 ci1099511627776 co1099511627776 i1099511627776 k1",
        "ci0 co2 i1099511627776x1099511627776x7 k3x9x3 p1",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int run = 0; run < 4 * config_count; run++) {
            const struct ogp_problem p = problem_of(texts[i]);
            const struct ogp_options options = {
                .size = sizeof options, .workspace_limit = INT64_MAX, .config = config_names[run / 4]};
            answers(&p, (enum ogp_pass)(run % 4), &options);
        }
}

int main(void)
{
    test_problems();
    test_defaults();
    test_options();
    test_pools();
    test_executions();
    test_error_sizes();
    test_texts();
    signal(SIGALRM, too_slow);
    test_extremes();
    test_giants();
    return test_end("test_api");
}
