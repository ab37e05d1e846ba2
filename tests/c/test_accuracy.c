/* SPDX-License-Identifier: Apache-2.0 */
/* Long sums of values of one sign, where rounding errors do not cancel: no running sum in single precision may exceed
 * 1024 terms, and a bias gradient is summed in double precision. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "oracle.h"
#include "testlib.h"

static double worst;

static void compare(const char *text, enum ogp_pass pass, const struct operands *ops, const struct oracle want[2],
                    const char *config, const char *isa)
{
    for (int o = 0; o < operands_outputs(pass, ops); o++) {
        const enum ogp_dtype dtype = ops->out[o].dtype;
        const double unit = dtype == OGP_F64 ? 0x1p-53 : 0x1p-24;
        const int bias = pass_output_role(pass, o) == ROLE_B && dtype == OGP_F32;
        for (int64_t i = 0; i < want[o].count; i++) {
            const double error = fabs(tensor_get(&ops->out[o], i) - want[o].value[i]) / (unit * want[o].mag[i]);
            const double allowed = bias ? 1.001 : direct_bound(dtype, want[o].terms[i]); /* bias: the final rounding alone */
            worst = fmax(worst, error);
            if (!EXPECT(error <= allowed, "%s \"%s\" config %s isa %s: output %d, element %" PRId64 " of %" PRId64
                        " terms errs by %.1f units, allowed %.1f", pass_name(pass), text, config ? config : "-",
                        isa ? isa : "-", o, i, want[o].terms[i], error, allowed))
                return;
        }
    }
}

static void test_long_sums(const char *text, enum ogp_pass pass)
{
    const struct ogp_problem p = problem_of(text);
    struct operands ops;
    struct oracle want[2];
    struct ogp_input in[3];
    const struct ogp_input *ins[3] = {0};
    operands_make(&ops, &p, pass, 1, NULL, FILL_UNIFORM, 1);
    for (int i = 0; i < pass_inputs(pass); i++) {
        tensor_set_all(&ops.in[i], i == 0 ? 1.1 : 0.7); /* the last bits of their products are not zero */
        in[i] = tensor_input(&ops.in[i]);
        ins[i] = &in[i];
    }
    oracle_run(&p, pass, ins, want);
    for (int c = 0; c < config_count; c++)
        for (int i = 0; i < isa_count; i++) {
            const struct ogp_options options = {.size = sizeof options, .config = config_names[c], .isa = isa_names[i]};
            ogp_plan *plan = NULL;
            const enum ogp_status status = ogp_plan_create(&plan, &p, pass, &options, NULL);
            ogp_plan_destroy(plan);
            if (status == OGP_NOT_APPLICABLE)
                continue;
            compute(&p, pass, &options, &ops, NULL);
            compare(text, pass, &ops, want, config_names[c], isa_names[i]);
        }
    oracle_free(want);
    operands_free(&ops);
}

int main(void)
{
    test_long_sums("ci20000 i1x1x9 k1", OGP_FORWARD);
    test_long_sums("co20000 i1x1x9 k1", OGP_GRAD_INPUT);
    test_long_sums("i17x18x33 k17", OGP_FORWARD);
    test_long_sums("i17x18x33 k17", OGP_GRAD_INPUT);
    test_long_sums("ci300 co2 i3x4x20 k3 p1", OGP_FORWARD);
    test_long_sums("g2 ci2 co300 i3x4x20 k3 p1", OGP_GRAD_INPUT);
    test_long_sums("i1x1x10000 k1x1x9000", OGP_FORWARD);
    test_long_sums("i60x62x66 k3 p1", OGP_GRAD_WEIGHT);
    test_long_sums("ci2 co2 i1x1x200000 k1x1x3", OGP_GRAD_WEIGHT);
    test_long_sums("g2 ci2 co2 n30 i10x60x17 k1x3x3 p0x1x1", OGP_GRAD_WEIGHT);
    test_long_sums("n2 i60x62x66 k1", OGP_GRAD_BIAS);
    test_long_sums("f64 i40x41x42 k3", OGP_GRAD_WEIGHT);
    printf("worst error %.1f units of eps/2 sum|w||x|\n", worst);
    return test_end("test_accuracy");
}
