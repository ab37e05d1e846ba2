/* SPDX-License-Identifier: Apache-2.0 */
/* What transforms may not do to data that is not noise: quiet zones beside loud ones keep their digits, muted rows are
 * exactly the bias, values at the ends of the range do not overflow or vanish, and `precision` is obeyed. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "oracle.h"
#include "testlib.h"

static ogp_pool *pool;
static const char *config; /* the transforms that are looked at */

/* Whether the options apply here: those of a precision and an instruction set. */
static int options_of(struct ogp_options *options, const struct ogp_problem *p, enum ogp_pass pass,
                      enum ogp_precision precision, const char *isa)
{
    ogp_plan *plan = NULL;
    *options = (struct ogp_options){.size = sizeof *options,
                                    .config = precision == OGP_ELEMENTWISE ? NULL : config,
                                    .precision = precision,
                                    .isa = isa};
    const enum ogp_status status = ogp_plan_create(&plan, p, pass, options, NULL);
    ogp_plan_destroy(plan);
    return status != OGP_NOT_APPLICABLE;
}

static void define(const struct ogp_problem *p, enum ogp_pass pass, const struct operands *ops, struct oracle want[2])
{
    struct ogp_input in[3];
    const struct ogp_input *ins[3];
    for (int i = 0; i < 3; i++) {
        in[i] = tensor_input(&ops->in[i]);
        ins[i] = i < pass_inputs(pass) ? &in[i] : NULL;
    }
    oracle_run(p, pass, ins, want);
}

/* Largest error over what a direct sum may err by: above 1 a result has lost digits. */
static double lost(const struct tensor *got, const struct oracle *want)
{
    double worst = 0;
    const double unit = got->dtype == OGP_F64 ? 0x1p-53 : 0x1p-24;
    for (int64_t i = 0; i < want->count; i++) {
        const double allowed = direct_bound(got->dtype, want->terms[i]) * unit * want->mag[i];
        const double error = fabs(tensor_get(got, i) - want->value[i]);
        worst = !(error <= allowed * worst) ? error / fmax(allowed, 1e-300) : worst;
    }
    return worst;
}

/* Depth from `plane` on is `factor` times as loud. */
static void amplify(struct tensor *t, int64_t plane, double factor)
{
    const int64_t *e = t->extent;
    for (int64_t i = 0; i < tensor_count(t); i++)
        if (i / (e[3] * e[4]) % e[2] >= plane)
            tensor_set(t, i, tensor_get(t, i) * factor);
}

/* A volume whose deeper half is 10^6 times as loud. `kept` says whether the quiet half must keep its digits. */
static void test_range(const char *text, enum ogp_pass pass, enum ogp_precision precision, int kept)
{
    struct ogp_options options;
    const struct ogp_problem p = problem_of(text);
    struct operands ops;
    struct oracle want[2];
    operands_make(&ops, &p, pass, 1, NULL, FILL_UNIFORM, 11);
    amplify(&ops.in[0], ops.in[0].extent[2] / 2, 1e6);
    define(&p, pass, &ops, want);
    for (int i = 1; i < isa_count; i++) {
        if (!options_of(&options, &p, pass, precision, isa_names[i]))
            continue;
        compute(&p, pass, &options, &ops, pool);
        const double worst = lost(&ops.out[0], &want[0]);
        EXPECT(kept ? worst <= 1 : worst > 1, "%s \"%s\" %s isa %s precision %d: error %.3g of a direct sum's bound",
               pass_name(pass), text, config, isa_names[i], (int)precision, worst);
    }
    oracle_free(want);
    operands_free(&ops);
}

/* Zeros above a plane that dips with the height and the width. */
static void mute(struct tensor *t)
{
    const int64_t *e = t->extent;
    for (int64_t i = 0; i < tensor_count(t); i++) {
        const int64_t w = i % e[4], h = i / e[4] % e[3], d = i / (e[4] * e[3]) % e[2];
        if (3 * d < e[2] + h + w / 2)
            tensor_set(t, i, 0);
    }
}

static void expect_muted(const char *text, const struct tensor *got, const struct oracle *want,
                         const struct oracle *bias, const struct ogp_options *options)
{
    int64_t muted = 0;
    for (int64_t i = 0; i < want->count; i++)
        if (want->mag[i] == bias->mag[i]) { /* nothing but the bias adds to it */
            muted++;
            if (!EXPECT(tensor_get(got, i) == bias->value[i],
                        "\"%s\" %s isa %s precision %d: element %" PRId64 " has a window of zeros and is %g, not %g",
                        text, config, options->isa, (int)options->precision, i, tensor_get(got, i), bias->value[i]))
                break;
        }
    EXPECT(muted > want->count / 100, "\"%s\": %" PRId64 " muted outputs: the test is empty", text, muted);
}

static void test_mute(const char *text, enum ogp_pass pass)
{
    const struct ogp_problem p = problem_of(text);
    struct ogp_options options;
    struct operands ops;
    struct oracle want[2], bias[2];
    operands_make(&ops, &p, pass, 1, NULL, FILL_UNIFORM, 12);
    mute(&ops.in[0]);
    struct operands silent = ops;
    silent.in[0] = tensor_make(p.dtype, ops.in[0].extent, VIEW_NCDHW, GUARD_INPUT);
    tensor_set_all(&silent.in[0], 0);
    define(&p, pass, &ops, want);
    define(&p, pass, &silent, bias);
    for (int i = 1; i < isa_count; i++)
        for (int precision = OGP_AUTO; precision <= OGP_NORMWISE; precision++)
            if (options_of(&options, &p, pass, (enum ogp_precision)precision, isa_names[i])) {
                compute(&p, pass, &options, &ops, pool);
                expect_muted(text, &ops.out[0], &want[0], &bias[0], &options);
            }
    tensor_free(&silent.in[0]);
    oracle_free(want);
    oracle_free(bias);
    operands_free(&ops);
}

/* The whole input times a power of two: where a transform would overflow or lose what is too small. */
static void test_scale(const char *text, enum ogp_pass pass, double factor)
{
    const struct ogp_problem p = problem_of(text);
    struct ogp_options options;
    struct operands ops;
    struct oracle want[2];
    operands_make(&ops, &p, pass, 1, NULL, FILL_UNIFORM, 13);
    amplify(&ops.in[0], 0, factor);
    define(&p, pass, &ops, want);
    EXPECT(options_of(&options, &p, pass, OGP_AUTO, NULL), "\"%s\" allows no transforms", text);
    compute(&p, pass, &options, &ops, pool);
    const double unit = p.dtype == OGP_F64 ? 0x1p-53 : 0x1p-24,
                 allowed = strcmp(config, "winograd") == 0 ? winograd_bound(&ops, 1024) : fourier_bound(&ops, 1024),
                 bound = unit * allowed;
    for (int64_t i = 0; i < want[0].count; i++)
        if (!EXPECT(fabs(tensor_get(&ops.out[0], i) - want[0].value[i]) <= bound,
                    "%s \"%s\" times %g: element %" PRId64 " is %g, expected %g", pass_name(pass), text, factor, i,
                    tensor_get(&ops.out[0], i), want[0].value[i]))
            break;
    oracle_free(want);
    operands_free(&ops);
}

static void test_elementwise(const char *text, enum ogp_pass pass)
{
    const struct ogp_problem p = problem_of(text);
    const struct ogp_options asked = {.size = sizeof asked, .precision = OGP_ELEMENTWISE};
    const struct ogp_options both = {.size = sizeof both, .precision = OGP_ELEMENTWISE, .config = config};
    char line[1024] = "";
    ogp_plan *plan = NULL;
    EXPECT(ogp_plan_create(&plan, &p, pass, &both, NULL) == OGP_NOT_APPLICABLE, "elementwise allows transforms");
    EXPECT(ogp_plan_create(&plan, &p, pass, &asked, NULL) == OGP_OK, "no plan");
    ogp_plan_describe(plan, line, sizeof line);
    EXPECT(is_direct(line), "elementwise chose %s", line);
    ogp_plan_destroy(plan);
    EXPECT(ogp_plan_create(&plan, &p, pass, NULL, NULL) == OGP_OK, "no plan");
    ogp_plan_describe(plan, line, sizeof line);
    EXPECT(!is_direct(line), "this size should be worth transforms: %s", line);
    ogp_plan_destroy(plan);
}

static const char *const problems[] = {
    "i33x29x45 k9 p4",
    "g2 ci2 co4 i30x28x37 k7 p3",
    "f64 i30x29x40 k7 p3",
    "ci2 co2 i24x40x50 k1x9x7 p0x4x3",
    "g2 ci2 co2 i36x29x40 k7 p3 reflect",
    "g2 ci2 co2 i30x28x50 k5x5x7 p4x4x9 l2x2x3",
    "i36x33x45 k7 p3 replicate",
    /* the last chunk holds nothing but columns that repeat those of the one before */
    "i33x30x27 k7 p3 reflect",
    "f64 i30x29x27 k5x7x7 p2x3x3 replicate",
    "i32x31x43 k7 p3 reflect",
    /* windows over three chunks and more */
    "f64 i20x21x60 k3x3x31 p1x1x15",
    "f64 i20x21x60 k3x3x31 p1x1x15 reflect",
};

static const char *const small_problems[] = {
    "i23x29x45 k3 p1",
    "g2 ci4 co6 i21x18x37 k3 p2x0x1",
    "f64 ci3 co2 i20x19x40 k3 p1",
    "ci2 co2 i24x40x50 k1x3x5 p0x1x2",
    "ci2 co2 i24x7x50 k3x1x3 p5x0x1 l2x1x1",
    "ci2 co2 i17x16x40 k3 p4x3x4",
    "ci2 co2 i24x17x50 k3 p2 l2",
    "ci2 co2 i20x18x70 k3x3x5 p3x1x7 l3x1x4",
    "ci3 co2 i22x18x40 k3 p1 reflect",
    "ci3 co2 i18x18x20 k3 p1 xndhwc yndhwc",
};

static void test_maps(const char *const *text, size_t count)
{
    static const enum ogp_pass maps[] = {OGP_FORWARD, OGP_GRAD_INPUT};
    for (size_t k = 0; k < count; k++)
        for (int m = 0; m < 2; m++) {
            test_range(text[k], maps[m], OGP_AUTO, 1);
            test_range(text[k], maps[m], OGP_ELEMENTWISE, 1);
            test_mute(text[k], maps[m]);
        }
}

/* dense: noise, which the planner should transform. */
static void test_config(const char *name, const char *noise, const char *single, const char *twice, const char *dense)
{
    config = name;
    /* without the rule the quiet half of f32 data is lost: it is the rule that keeps it */
    test_range(noise, OGP_FORWARD, OGP_NORMWISE, 0);
    test_range(noise, OGP_GRAD_INPUT, OGP_NORMWISE, 0);
    for (int pass = OGP_FORWARD; pass <= OGP_GRAD_WEIGHT; pass++) {
        test_scale(single, (enum ogp_pass)pass, 0x1p90);
        test_scale(single, (enum ogp_pass)pass, 0x1p-90);
        test_scale(twice, (enum ogp_pass)pass, 0x1p700);
        test_elementwise(dense, (enum ogp_pass)pass);
    }
}

/* Outputs of 32 MiB and more leave scratch past the caches: the same values as those of direct tiles. */
static void test_large(const char *text, enum ogp_pass pass)
{
    struct ogp_options options, direct;
    const struct ogp_problem p = problem_of(text);
    struct operands ops, want;
    operands_make(&ops, &p, pass, 1, NULL, FILL_UNIFORM, 15);
    operands_make(&want, &p, pass, 1, NULL, FILL_UNIFORM, 15);
    direct = (struct ogp_options){.size = sizeof direct, .config = "direct-rows"};
    compute(&p, pass, &direct, &want, pool);
    const int64_t count = extents_count(ops.out[0].extent);
    for (int i = 1; i < isa_count; i++) {
        if (!options_of(&options, &p, pass, OGP_AUTO, isa_names[i]))
            continue;
        compute(&p, pass, &options, &ops, pool);
        int64_t wrong = 0;
        for (int64_t k = 0; k < count; k++)
            wrong += !(fabs(tensor_get(&ops.out[0], k) - tensor_get(&want.out[0], k)) <= 1e-4);
        EXPECT(wrong == 0, "%s \"%s\" %s isa %s: %" PRId64 " outputs differ", pass_name(pass), text, config,
               isa_names[i], wrong);
    }
    operands_free(&ops);
    operands_free(&want);
}

int main(void)
{
    EXPECT(ogp_pool_create(&pool, 2, NULL) == OGP_OK, "pool");
    config = "fourier";
    test_maps(problems, sizeof problems / sizeof *problems);
    config = "winograd";
    test_maps(small_problems, sizeof small_problems / sizeof *small_problems);
    test_config("fourier", "i33x29x45 k9 p4", "i25x26x40 k7 p3", "f64 i25x26x40 k7 p3", "g7 ci7 co7 i96 k9 p4");
    test_config("winograd", "i29x33x45 k3 p1", "ci2 co2 i25x26x40 k3 p1", "f64 ci2 co2 i25x26x40 k3 p1",
                "ci16 co16 i64 k3 p1");
    config = "fourier";
    test_large("i8x1030x1070 k3x3x9 p1x1x4", OGP_FORWARD);
    test_large("i8x1030x1070 k3x3x9 p1x1x4", OGP_GRAD_INPUT);
    ogp_pool_destroy(pool);
    return test_end("test_transforms");
}
