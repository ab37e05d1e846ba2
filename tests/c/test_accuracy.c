/* SPDX-License-Identifier: Apache-2.0 */
/* Long sums in which all products are one number v, so that rounding errors do not cancel: no running sum in single
 * precision may exceed 1024 terms, and a bias gradient is summed in double precision. The right result is v times the
 * number of products, which the oracle counts with ones. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"
#include "testlib.h"

static double worst;

/* The running sums of m equal products are v, 2v, ... mv; each is rounded by at most eps/2 of itself: m/2 units of
 * their total. One more for each block of 1024, and a few for combining the blocks and the result. */
static double allowed_units(const struct tensor *out, enum role role, int64_t terms)
{
    if (out->dtype == OGP_F64)
        return (double)terms / 2 + 8;
    if (role == ROLE_B)
        return 1.001; /* the final rounding alone */
    return fmin((double)terms, 1024) / 2 + (double)terms / 1024 + 8;
}

static void compare(const char *text, enum ogp_pass pass, const struct operands *ops, const struct oracle count[2],
                    double v, const struct ogp_options *options)
{
    for (int o = 0; o < operands_outputs(pass, ops); o++) {
        const struct tensor *out = &ops->out[o];
        const double unit = out->dtype == OGP_F64 ? 0x1p-53 : 0x1p-24;
        for (int64_t i = 0; i < count[o].count; i++) {
            const double right = v * count[o].value[i], error = fabs(tensor_get(out, i) - right) / (unit * right);
            const double allowed = allowed_units(out, pass_output_role(pass, o), count[o].terms[i]);
            worst = out->dtype == OGP_F32 ? fmax(worst, error) : worst;
            if (!EXPECT(error <= allowed,
                        "%s \"%s\" config %s isa %s, products of %.9g: output %d, element %" PRId64 " of %" PRId64
                        " terms errs by %.1f units, allowed %.1f",
                        pass_name(pass), text, options->config ? options->config : "-",
                        options->isa ? options->isa : "-", v, o, i, count[o].terms[i], error, allowed))
                return;
        }
    }
}

/* All inputs 1, but the last, and b with it: v. */
static void set_inputs(struct operands *ops, enum ogp_pass pass, double v)
{
    const int last = pass == OGP_FORWARD ? 1 : pass_inputs(pass) - 1;
    for (int i = 0; i < pass_inputs(pass); i++)
        tensor_set_all(&ops->in[i], i >= last ? v : 1);
}

static int applies(const struct ogp_problem *p, enum ogp_pass pass, const struct ogp_options *options)
{
    ogp_plan *plan = NULL;
    const enum ogp_status status = ogp_plan_create(&plan, p, pass, options, NULL);
    ogp_plan_destroy(plan);
    return status != OGP_NOT_APPLICABLE;
}

static void test_long_sums(const char *text, enum ogp_pass pass)
{
    /* a bit less than half a unit of the last place of sums around 2^10, 2^11, ... is lost at every addition */
    static const float values[] = {1 + 0.45f * 0x1p-11f, 1 + 0.45f * 0x1p-12f, 1 + 0.45f * 0x1p-14f, 1.1f};
    const struct ogp_problem p = problem_of(text);
    struct operands ops;
    struct oracle count[2];
    struct ogp_input in[3];
    const struct ogp_input *ins[3] = {0};
    operands_make(&ops, &p, pass, 1, NULL, FILL_UNIFORM, 1);
    set_inputs(&ops, pass, 1);
    for (int i = 0; i < pass_inputs(pass); i++) {
        in[i] = tensor_input(&ops.in[i]);
        ins[i] = &in[i];
    }
    oracle_run(&p, pass, ins, count);
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
        set_inputs(&ops, pass, (double)values[k]);
        for (int c = 1; c < config_count; c++)
            for (int i = 1; i < isa_count; i++) {
                const struct ogp_options options = {
                    .size = sizeof options, .config = config_names[c], .isa = isa_names[i]};
                const int repeated =
                    strcmp(config_names[c], "reference") == 0 && i > 1; /* it knows no instruction sets */
                if (repeated || !applies(&p, pass, &options))
                    continue;
                compute(&p, pass, &options, &ops, NULL);
                compare(text, pass, &ops, count, (double)values[k], &options);
            }
    }
    oracle_free(count);
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
    test_long_sums("ci700 co2 i4x5x16 k3 p1", OGP_FORWARD);
    test_long_sums("ci2 co2 i1x1x200000 k1x1x3", OGP_GRAD_WEIGHT);
    test_long_sums("g2 ci2 co2 n30 i10x60x17 k1x3x3 p0x1x1", OGP_GRAD_WEIGHT);
    test_long_sums("n2 i60x62x66 k1", OGP_GRAD_BIAS);
    test_long_sums("f64 i40x41x42 k3", OGP_GRAD_WEIGHT);
    printf("worst error %.1f units of eps/2 sum|w||x|\n", worst);
    return test_end("test_accuracy");
}
