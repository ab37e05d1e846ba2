/* SPDX-License-Identifier: Apache-2.0 */
/* A NaN or an infinity poisons exactly the outputs whose window holds it: in every pass, configuration and instruction
 * set. The definition, evaluated by the oracle in IEEE arithmetic, says which those are. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "oracle.h"
#include "testlib.h"

static int64_t compared, poisoned;

static int finite_value(double v)
{
    return v - v == 0;
}

/* What the definition says of a gradient of x: a window that leaves gy holds padded zeros there, and zero times an
 * infinite weight is NaN. This is the problem with `more` outputs added on each side, where gy is zero. Padding by
 * zeros only. */
static void widened_grad_input(const struct ogp_problem *p, const struct operands *ops, struct oracle want[2])
{
    struct ogp_problem wide = *p;
    int64_t more[3], extent[5];
    for (int a = 0; a < 3; a++) {
        more[a] = (p->kernel[a] - 1) * p->dilation[a] / p->stride[a] + 1;
        wide.pad_lo[a] += more[a] * p->stride[a];
        wide.pad_hi[a] += more[a] * p->stride[a];
    }
    role_extents(&wide, ROLE_Y, extent);
    struct tensor gy = tensor_make(p->dtype, extent, VIEW_NCDHW, GUARD_INPUT);
    tensor_set_all(&gy, 0);
    const int64_t *o = ops->in[0].extent;
    for (int64_t i = 0; i < tensor_count(&ops->in[0]); i++) {
        const int64_t w = i % o[4], h = i / o[4] % o[3], d = i / (o[4] * o[3]) % o[2], nc = i / (o[4] * o[3] * o[2]);
        const int64_t at = ((nc * extent[2] + d + more[0]) * extent[3] + h + more[1]) * extent[4] + w + more[2];
        tensor_set(&gy, at, tensor_get(&ops->in[0], i));
    }
    const struct ogp_input in[2] = {tensor_input(&gy), tensor_input(&ops->in[1])};
    const struct ogp_input *const ins[3] = {&in[0], &in[1], NULL};
    oracle_run(&wide, OGP_GRAD_INPUT, ins, want);
    tensor_free(&gy);
}

static void definition(const struct ogp_problem *p, enum ogp_pass pass, const struct operands *ops, int input,
                       struct oracle want[2])
{
    struct ogp_input in[3];
    const struct ogp_input *ins[3];
    for (int i = 0; i < 3; i++) {
        in[i] = tensor_input(&ops->in[i]);
        ins[i] = i < pass_inputs(pass) ? &in[i] : NULL;
    }
    if (pass == OGP_GRAD_INPUT && input == 1 && p->padding == OGP_ZEROS)
        widened_grad_input(p, ops, want);
    else
        oracle_run(p, pass, ins, want);
}

static void compare(const char *text, enum ogp_pass pass, const struct tensor *got, const struct oracle *want,
                    int input, int64_t at, const char *config, const char *isa)
{
    for (int64_t i = 0; i < want->count; i++) {
        const int expected = finite_value(want->value[i]), actual = finite_value(tensor_get(got, i));
        poisoned += !expected;
        compared++;
        if (!EXPECT(expected == actual,
                    "%s \"%s\" config %s isa %s: input %d element %" PRId64 " is not finite; output %" PRId64
                    " is %g, by the definition %g",
                    pass_name(pass), text, config ? config : "-", isa ? isa : "-", input, at, i, tensor_get(got, i),
                    want->value[i]))
            return;
    }
}

static void run_all(const struct ogp_problem *p, const char *text, enum ogp_pass pass, struct operands *ops,
                    const struct oracle want[2], int input, int64_t at)
{
    for (int c = 0; c < config_count; c++)
        for (int i = 0; i < isa_count; i++) {
            const struct ogp_options options = {.size = sizeof options, .config = config_names[c], .isa = isa_names[i]};
            ogp_plan *plan = NULL;
            const enum ogp_status status = ogp_plan_create(&plan, p, pass, &options, NULL);
            ogp_plan_destroy(plan);
            if (status == OGP_NOT_APPLICABLE)
                continue;
            for (int o = 0; o < operands_outputs(pass, ops); o++)
                tensor_set_all(&ops->out[o], 1);
            compute(p, pass, &options, ops, NULL);
            for (int o = 0; o < operands_outputs(pass, ops); o++)
                compare(text, pass, &ops->out[o], &want[o], input, at, config_names[c], isa_names[i]);
        }
}

/* Puts one bad value at some places of each input in turn. */
static void test_pass(const char *text, enum ogp_pass pass)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    const struct ogp_problem p = problem_of(text);
    struct operands ops;
    operands_make(&ops, &p, pass, 1, NULL, FILL_UNIFORM, 4);
    for (int input = 0; input < pass_inputs(pass); input++) {
        if (pass == OGP_GRAD_INPUT && input == 1 && p.padding != OGP_ZEROS)
            continue; /* which folded windows leave gy is the library's affair */
        const int64_t count = tensor_count(&ops.in[input]);
        for (uint64_t place = 0; place < 5; place++) {
            const int64_t at = place == 0   ? 0
                               : place == 1 ? count - 1
                                            : (int64_t)(mix(place, (uint64_t)input) % (uint64_t)count);
            const double before = tensor_get(&ops.in[input], at);
            struct oracle want[2];
            tensor_set(&ops.in[input], at, bad[place % 3]);
            definition(&p, pass, &ops, input, want);
            run_all(&p, text, pass, &ops, want, input, at);
            oracle_free(want);
            tensor_set(&ops.in[input], at, before);
        }
    }
    operands_free(&ops);
}

/* A voxel that no window touches (rows left over by the stride) leaves every gradient of the weights finite. */
static void test_leftover(const char *text)
{
    const struct ogp_problem p = problem_of(text);
    struct operands ops;
    operands_make(&ops, &p, OGP_GRAD_WEIGHT, 1, NULL, FILL_UNIFORM, 4);
    tensor_set(&ops.in[0], tensor_count(&ops.in[0]) - 1, NAN);
    for (int c = 0; c < config_count; c++) {
        const struct ogp_options options = {.size = sizeof options, .config = config_names[c]};
        ogp_plan *plan = NULL;
        if (ogp_plan_create(&plan, &p, OGP_GRAD_WEIGHT, &options, NULL) == OGP_NOT_APPLICABLE)
            continue;
        ogp_plan_destroy(plan);
        compute(&p, OGP_GRAD_WEIGHT, &options, &ops, NULL);
        for (int64_t i = 0; i < tensor_count(&ops.out[0]); i++)
            EXPECT(finite_value(tensor_get(&ops.out[0], i)),
                   "\"%s\": gw %" PRId64 " is poisoned by a voxel outside all windows", text, i);
    }
    operands_free(&ops);
}

static const char *const problems[] = {
    "ci2 co3 i6 k3",
    "ci4 co4 i5x6x20 k3 p1",
    "g2 ci2 co2 i6x7x35 k3 p1",
    "g2 ci2 co2 i8x9x20 k7 p3",
    "f64 g2 ci2 co2 i6x7x19 k5 p2",
    "ci3 co2 i7x8x18 k3 s2 p1",
    "g2 ci2 co4 i6x6x18 k3 s2",
    "g2 ci2 co2 i8x8x19 k2 s3",
    "g2 ci2 co2 i7x8x21 k3 l2 p2",
    "g2 ci2 co2 i5x6x40 k3x4x7 p1x2x9 l1x1x3",
    "ci2 co2 i5x6x40 k3x4x5 p1x2x2 s1x1x2 l1x1x2",
    "ci2 co2 i7x8x9 k3 s2x3x1 l2x1x3 p2x1x3",
    "g2 ci2 co2 i5x6x18 k3 p1 reflect",
    "ci2 co2 i5x6x7 k3 p2 replicate",
    "g2 ci2 co2 i5x6x7 k3 s2 p3 circular",
    /* windows over three chunks of transforms and more */
    "f64 i2x3x50 k2x2x31 p1x1x15",
    "f64 i2x3x40 k2x1x29 p1x0x14 reflect",
    "ci16 co5 i3x4x9 k1",
    "n2 ci3 co4 i4x5x6 k3 p1 xndhwc yndhwc",
};

int main(void)
{
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (int pass = OGP_FORWARD; pass <= OGP_GRAD_BIAS; pass++)
            test_pass(problems[i], (enum ogp_pass)pass);
    test_leftover("ci2 co2 i6x6x18 k3 s2");
    test_leftover("g2 ci2 co2 i6x6x18 k3 s2");
    test_leftover("f64 g2 ci2 co2 i8x8x20 k2 s3 l2");
    printf("%" PRId64 " outputs judged, %" PRId64 " poisoned\n", compared, poisoned);
    EXPECT(poisoned > 1000 && poisoned < compared, "the test is empty");
    return test_end("test_nonfinite");
}
