/* SPDX-License-Identifier: Apache-2.0 */
/* Properties that need no oracle, and so run at size: the dot-product test <gy, conv(x, w)> = <grad_input(gy, w), x> =
 * <grad_weight(x, gy), w>, linearity, impulses, crops. `test_adjoint --full` takes the volume of real work. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testlib.h"

static ogp_pool *pool;

struct dot {
    double sum, mag, norm; /* of the products: sum, sum of magnitudes, root of the sum of squares */
};

static struct dot dot(const struct tensor *a, const struct tensor *b)
{
    struct dot d = {0};
    double carry = 0;
    const int64_t count = tensor_count(a);
    for (int64_t i = 0; i < count; i++) {
        const double product = tensor_get(a, i) * tensor_get(b, i);
        const double next = d.sum + (product - carry); /* Kahan: 10^8 terms must not cost digits */
        carry = (next - d.sum) - (product - carry);
        d.sum = next;
        d.mag += fabs(product);
        d.norm += product * product;
    }
    d.norm = sqrt(d.norm);
    return d;
}

/* How far two of the dot products may be apart. An entry of a result that sums m terms errs by about sqrt(m) eps/2
 * times its size, m <= 1024 in one running sum; the errors of entries are independent, so that those of the dot product
 * add up as the root of their squares. 3 times that, and the summation of the dot products themselves. */
static double allowed(const struct ogp_problem *p, struct dot y, struct dot x, struct dot w)
{
    const double unit = p->dtype == OGP_F64 ? 0x1p-53 : 0x1p-24;
    const double taps = (double)(p->kernel[0] * p->kernel[1] * p->kernel[2]);
    const double to_y = sqrt(taps * (double)(p->ci / p->g)), to_x = sqrt(taps * (double)(p->co / p->g));
    return 3 * unit * (to_y * y.norm + to_x * x.norm + sqrt(1024) * w.norm) + 8 * 0x1p-53 * (y.mag + x.mag + w.mag);
}

/* <gy, y> = <gx, x> = <gw, w>. */
static void test_dot(const char *text)
{
    const struct ogp_problem p = problem_of(text);
    struct operands forward, input, weight;
    operands_make(&forward, &p, OGP_FORWARD, 0, NULL, FILL_UNIFORM,
                  5); /* x, w, gy come from the seed: alike in all passes */
    operands_make(&input, &p, OGP_GRAD_INPUT, 0, NULL, FILL_UNIFORM, 5);
    compute(&p, OGP_FORWARD, NULL, &forward, pool);
    compute(&p, OGP_GRAD_INPUT, NULL, &input, pool);
    const struct dot y = dot(&forward.out[0], &input.in[0]), x = dot(&input.out[0], &forward.in[0]);
    operands_free(&input);
    tensor_free(&forward.out[0]);
    operands_make(&weight, &p, OGP_GRAD_WEIGHT, 0, NULL, FILL_UNIFORM, 5);
    compute(&p, OGP_GRAD_WEIGHT, NULL, &weight, pool);
    const struct dot w = dot(&weight.out[0], &forward.in[1]);
    const double most = allowed(&p, y, x, w);
    EXPECT(fabs(y.sum - x.sum) <= most, "\"%s\": <gy,y> %.17g, <gx,x> %.17g, apart %.3g, allowed %.3g", text, y.sum,
           x.sum, fabs(y.sum - x.sum), most);
    EXPECT(fabs(y.sum - w.sum) <= most, "\"%s\": <gy,y> %.17g, <gw,w> %.17g, apart %.3g, allowed %.3g", text, y.sum,
           w.sum, fabs(y.sum - w.sum), most);
    EXPECT(y.mag > 0 && w.mag > 0, "\"%s\": nothing to compare", text);
    printf("  %-52s apart %.1e %.1e of %.1e allowed\n", text, fabs(y.sum - x.sum), fabs(y.sum - w.sum), most);
    operands_free(&forward);
    operands_free(&weight);
}

/* conv(2 x1 - x2) = 2 conv(x1) - conv(x2), exactly, on integers. */
static void test_linear(const char *text, enum ogp_pass pass)
{
    const struct ogp_problem p = problem_of(text);
    struct operands a, b, c;
    operands_make(&a, &p, pass, 0, NULL, FILL_INTEGERS, 1);
    operands_make(&b, &p, pass, 0, NULL, FILL_INTEGERS, 1);
    operands_make(&c, &p, pass, 0, NULL, FILL_INTEGERS, 1);
    tensor_fill(&b.in[0], FILL_INTEGERS, 99);
    for (int64_t i = 0; i < tensor_count(&c.in[0]); i++)
        tensor_set(&c.in[0], i, 2 * tensor_get(&a.in[0], i) - tensor_get(&b.in[0], i));
    compute(&p, pass, NULL, &a, pool);
    compute(&p, pass, NULL, &b, pool);
    compute(&p, pass, NULL, &c, pool);
    for (int64_t i = 0; i < tensor_count(&c.out[0]); i++) {
        const double expected = 2 * tensor_get(&a.out[0], i) - tensor_get(&b.out[0], i);
        if (!EXPECT(tensor_get(&c.out[0], i) == expected, "%s \"%s\", element %" PRId64 ": %g, expected %g",
                    pass_name(pass), text, i, tensor_get(&c.out[0], i), expected))
            break;
    }
    operands_free(&a);
    operands_free(&b);
    operands_free(&c);
}

static int64_t flat(const int64_t extent[3], int64_t d, int64_t h, int64_t w)
{
    return (d * extent[1] + h) * extent[2] + w;
}

/* One 1 in x: y shows the kernel flipped around it. One 1 in gy: gx shows the kernel as it is. */
static void test_impulse(enum ogp_pass pass)
{
    const struct ogp_problem p = problem_of("f64 i9x10x21 k3x4x5");
    const int64_t in[3] = {9, 10, 21}, out[3] = {7, 7, 17}, k[3] = {3, 4, 5}, at[3] = {4, 4, 9};
    struct operands ops;
    operands_make(&ops, &p, pass, 0, NULL, FILL_UNIFORM, 3);
    tensor_set_all(&ops.in[0], 0);
    tensor_set(&ops.in[0], flat(pass == OGP_FORWARD ? in : out, at[0], at[1], at[2]), 1);
    compute(&p, pass, NULL, &ops, pool);
    const int64_t *to = pass == OGP_FORWARD ? out : in;
    const int sign = pass == OGP_FORWARD ? -1 : 1;
    double rest = 0;
    for (int64_t i = 0; i < tensor_count(&ops.out[0]); i++)
        rest += fabs(tensor_get(&ops.out[0], i));
    for (int64_t d = 0; d < k[0]; d++)
        for (int64_t h = 0; h < k[1]; h++)
            for (int64_t w = 0; w < k[2]; w++) {
                const double got =
                    tensor_get(&ops.out[0], flat(to, at[0] + sign * d, at[1] + sign * h, at[2] + sign * w));
                const double tap = tensor_get(&ops.in[1], flat(k, d, h, w));
                EXPECT(got == tap, "%s: tap %" PRId64 " %" PRId64 " %" PRId64 " shows as %g, not %g", pass_name(pass),
                       d, h, w, got, tap);
                rest -= fabs(got);
            }
    EXPECT(fabs(rest) < 1e-12, "%s: %g outside the kernel's image", pass_name(pass), rest);
    operands_free(&ops);
}

/* The convolution of a part is the part of the convolution: every output of a big volume against a window cut out
 * around some of its places. Exact on integers; between transforms once they are rounded to integers. */
static void test_crop(const char *big_text, const char *small_text)
{
    const struct ogp_problem big = problem_of(big_text), small = problem_of(small_text);
    struct operands whole, part;
    int64_t out[3], cut[3];
    operands_make(&whole, &big, OGP_FORWARD, 0, NULL, FILL_INTEGERS, 8);
    compute(&big, OGP_FORWARD, NULL, &whole, pool);
    problem_output(&big, out);
    problem_output(&small, cut);
    operands_make(&part, &small, OGP_FORWARD, 0, NULL, FILL_INTEGERS, 8);
    for (uint64_t place = 0; place < 24; place++) {
        int64_t from[3];
        for (int a = 0; a < 3; a++) /* the ends among them */
            from[a] = (int64_t)(place < 2 ? place : mix(place, (uint64_t)a) % 1000) * (out[a] - cut[a]) /
                      (place < 2 ? 1 : 999);
        for (int64_t c = 0; c < small.ci; c++)
            for (int64_t d = 0; d < small.in[0]; d++)
                for (int64_t h = 0; h < small.in[1]; h++)
                    for (int64_t w = 0; w < small.in[2]; w++)
                        tensor_set(&part.in[0], c * small.in[0] * small.in[1] * small.in[2] + flat(small.in, d, h, w),
                                   tensor_get(&whole.in[0], c * big.in[0] * big.in[1] * big.in[2] +
                                                                flat(big.in, d + from[0], h + from[1], w + from[2])));
        compute(&small, OGP_FORWARD, NULL, &part, pool);
        for (int64_t i = 0; i < tensor_count(&part.out[0]); i++) {
            const int64_t volume = cut[0] * cut[1] * cut[2], in_volume = i % volume;
            const int64_t d = in_volume / (cut[1] * cut[2]), h = in_volume / cut[2] % cut[1], w = in_volume % cut[2];
            const double expected = rint(tensor_get(&whole.out[0], i / volume * out[0] * out[1] * out[2] +
                                                                  flat(out, d + from[0], h + from[1], w + from[2])));
            if (!EXPECT(rint(tensor_get(&part.out[0], i)) == expected,
                        "crop at %" PRId64 " %" PRId64 " %" PRId64 " of \"%s\"", from[0], from[1], from[2], big_text))
                break;
        }
    }
    operands_free(&whole);
    operands_free(&part);
}

static const char *const moderate[] = {
    "g7 ci7 co7 i56x57x67 k7 p3",
    "f64 g2 ci2 co2 i40x41x67 k9 p4",
    "ci7 co7 i40x41x67 k3 p1",
    "g2 ci8 co16 i41x40x66 k3 s2 p1",
    "ci6 co6 i40x41x50 k3 p2 l2",
    "g2 ci2 co2 i40x41x67 k7 p9 l3",
    "g7 ci7 co7 i33x34x67 k7 p3 reflect",
    "ci7 co14 i50x50x66 k2 s2",
    "g3 ci3 co3 i40x30x50 k5 s3x2x1 l2x3x1 p4 replicate",
    "g3 ci3 co3 i40x30x50 k5 p4x2x7 circular",
    "ci14 co1 i48 k1",
};
static const char *const full[] = {"g7 ci7 co7 i296x296x168 k7 p3", "g7 ci7 co7 i296x296x168 k9 p4",
                                   "f64 g7 ci7 co7 i296x296x168 k7 p3", "ci7 co7 i296x296x168 k3 p1"};

int main(int argc, char **argv)
{
    EXPECT(ogp_pool_create(&pool, 2, NULL) == OGP_OK, "pool");
    if (argc > 1 && strcmp(argv[1], "--full") == 0) {
        for (size_t i = 0; i < sizeof full / sizeof *full; i++)
            test_dot(full[i]);
        test_crop("g7 ci7 co7 i296x296x168 k7", "g7 ci7 co7 i16x17x41 k7");
    } else {
        for (size_t i = 0; i < sizeof moderate / sizeof *moderate; i++)
            test_dot(moderate[i]);
        for (int pass = OGP_FORWARD; pass <= OGP_GRAD_BIAS; pass++) {
            test_linear("ci4 co6 g2 i9x10x35 k3 p1", (enum ogp_pass)pass);
            test_linear("ci3 co3 g3 i9x10x35 k7 s2 p3 reflect", (enum ogp_pass)pass);
        }
        test_impulse(OGP_FORWARD);
        test_impulse(OGP_GRAD_INPUT);
        test_crop("g2 ci2 co2 i40x41x90 k7", "g2 ci2 co2 i10x11x30 k7");
        test_crop("ci4 co3 i30x31x70 k3", "ci4 co3 i6x7x21 k3");
    }
    ogp_pool_destroy(pool);
    return test_end("test_adjoint");
}
