/* SPDX-License-Identifier: Apache-2.0 */
#include "problem.h"

#include <inttypes.h>

#include "error.h"
#include "util.h"

static const char axis_name[3][8] = {"depth", "height", "width"};

static int64_t or_one(int64_t value)
{
    return value == 0 ? 1 : value;
}

static enum ogp_status check_axis(struct axis *a, const struct ogp_problem *in, int at, struct ogp_error *error)
{
    *a = (struct axis){
        .i = in->in[at],
        .k = in->kernel[at],
        .s = or_one(in->stride[at]),
        .p = in->pad_lo[at],
        .q = in->pad_hi[at],
        .l = or_one(in->dilation[at]),
    };
    const struct {
        const char *name;
        int64_t value, least;
    } rules[] = {
        {"in", a->i, 1},     {"kernel", a->k, 1}, {"stride", a->s, 1},
        {"pad_lo", a->p, 0}, {"pad_hi", a->q, 0}, {"dilation", a->l, 1},
    };
    for (size_t r = 0; r < OGP_COUNT(rules); r++)
        if (rules[r].value < rules[r].least)
            return ogp_fail(error, OGP_BAD_SHAPE, "%s of the %s axis: expected at least %" PRId64 ", got %" PRId64,
                            rules[r].name, axis_name[at], rules[r].least, rules[r].value);
    if (in->padding == OGP_REFLECT && (a->p >= a->i || a->q >= a->i))
        return ogp_fail(error, OGP_BAD_SHAPE,
                        "padding of the %s axis: reflect needs padding below the extent %" PRId64 ", got %" PRId64
                        " and %" PRId64,
                        axis_name[at], a->i, a->p, a->q);
    const int64_t most_border = INT32_MAX; /* each border element of grad input is visited */
    if (in->padding != OGP_ZEROS && (a->p > most_border || a->q > most_border))
        return ogp_fail(error, OGP_TOO_LARGE, "padding of the %s axis: expected at most %" PRId64 " in this mode, got %"
                        PRId64 " and %" PRId64, axis_name[at], most_border, a->p, a->q);
    int64_t padded, window;
    if (__builtin_add_overflow(a->i, a->p, &padded) || __builtin_add_overflow(padded, a->q, &padded) ||
        padded > INT64_MAX / 4)
        return ogp_fail(error, OGP_TOO_LARGE, "padded extent of the %s axis: %" PRId64 " + %" PRId64 " + %" PRId64
                        " is beyond 61 bits", axis_name[at], a->i, a->p, a->q);
    if (__builtin_mul_overflow(a->k - 1, a->l, &window) || window >= padded)
        return ogp_fail(error, OGP_BAD_SHAPE,
                        "kernel of the %s axis: %" PRId64 " taps with dilation %" PRId64
                        " are larger than the padded input (%" PRId64 ")",
                        axis_name[at], a->k, a->l, padded);
    a->o = (padded - window - 1) / a->s + 1;
    return OGP_OK;
}

/* Refuses tensors whose bytes do not fit 63 bits. */
static enum ogp_status check_total(const char *name, int64_t a, int64_t b, const int64_t extent[3], int64_t bytes,
                                   struct ogp_error *error)
{
    int64_t total = bytes;
    if (__builtin_mul_overflow(total, a, &total) || __builtin_mul_overflow(total, b, &total))
        total = -1;
    for (int d = 0; d < 3 && total >= 0; d++)
        if (__builtin_mul_overflow(total, extent[d], &total))
            total = -1;
    if (total < 0)
        return ogp_fail(error, OGP_TOO_LARGE,
                        "%s: %" PRId64 "x%" PRId64 "x%" PRId64 "x%" PRId64 "x%" PRId64 " elements are beyond 63 bits",
                        name, a, b, extent[0], extent[1], extent[2]);
    return OGP_OK;
}

static enum ogp_status check_enums(const struct ogp_problem *in, struct ogp_error *error)
{
    const struct {
        const char *name;
        int value, count;
    } rules[] = {
        {"dtype", (int)in->dtype, OGP_F64 + 1},          {"padding", (int)in->padding, OGP_CIRCULAR + 1},
        {"x_layout", (int)in->x_layout, OGP_NDHWC + 1},  {"w_layout", (int)in->w_layout, OGP_NDHWC + 1},
        {"y_layout", (int)in->y_layout, OGP_NDHWC + 1},
    };
    for (size_t r = 0; r < OGP_COUNT(rules); r++)
        if (rules[r].value < 0 || rules[r].value >= rules[r].count)
            return ogp_fail(error, OGP_BAD_ARG, "%s: expected 0 to %d, got %d", rules[r].name, rules[r].count - 1,
                            rules[r].value);
    return OGP_OK;
}

static enum ogp_status check_channels(const struct problem *p, struct ogp_error *error)
{
    if (p->n < 0)
        return ogp_fail(error, OGP_BAD_SHAPE, "n: expected at least 0, got %" PRId64, p->n);
    if (p->g < 1)
        return ogp_fail(error, OGP_BAD_SHAPE, "g: expected at least 1 group, got %" PRId64, p->g);
    if (p->ci < 0 || p->ci % p->g != 0)
        return ogp_fail(error, OGP_BAD_SHAPE, "ci: expected a multiple of g = %" PRId64 ", got %" PRId64, p->g, p->ci);
    if (p->co < 1 || p->co % p->g != 0)
        return ogp_fail(error, OGP_BAD_SHAPE, "co: expected a positive multiple of g = %" PRId64 ", got %" PRId64,
                        p->g, p->co);
    return OGP_OK;
}

enum ogp_status ogp_problem_check(struct problem *out, const struct ogp_problem *in, struct ogp_error *error)
{
    if (!in)
        return ogp_fail(error, OGP_BAD_ARG, "problem: expected a struct, got NULL");
    if (in->size != sizeof *in)
        return ogp_fail(error, OGP_BAD_ARG, "problem.size: expected %zu, got %" PRIu32, sizeof *in, in->size);
    enum ogp_status status = check_enums(in, error);
    if (status != OGP_OK)
        return status;
    struct problem p = {
        .dtype = in->dtype,
        .padding = in->padding,
        .x_layout = in->x_layout,
        .w_layout = in->w_layout,
        .y_layout = in->y_layout,
        .n = in->n,
        .g = or_one(in->g),
        .ci = in->ci,
        .co = in->co,
    };
    status = check_channels(&p, error);
    if (status != OGP_OK)
        return status;
    p.ci_g = p.ci / p.g;
    p.co_g = p.co / p.g;
    int64_t outs[3];
    for (int at = 0; at < 3; at++) {
        status = check_axis(&p.axis[at], in, at, error);
        if (status != OGP_OK)
            return status;
        outs[at] = p.axis[at].o;
    }
    const int64_t bytes = ogp_dtype_bytes(p.dtype);
    if ((status = check_total("x", p.n, p.ci, in->in, bytes, error)) != OGP_OK ||
        (status = check_total("w", p.co, p.ci_g, in->kernel, 8, error)) != OGP_OK ||
        (status = check_total("y", p.n, p.co, outs, bytes, error)) != OGP_OK)
        return status;
    *out = p;
    return OGP_OK;
}

enum ogp_status ogp_output_extents(const struct ogp_problem *problem, int64_t out[3], struct ogp_error *error)
{
    struct problem p;
    const enum ogp_status status = ogp_problem_check(&p, problem, error);
    if (status != OGP_OK)
        return status;
    if (!out)
        return ogp_fail(error, OGP_BAD_ARG, "out: expected room for three extents, got NULL");
    for (int at = 0; at < 3; at++)
        out[at] = p.axis[at].o;
    return OGP_OK;
}

int64_t ogp_pad_source(enum ogp_padding mode, int64_t i, int64_t j)
{
    if (j >= 0 && j < i)
        return j;
    switch (mode) {
    case OGP_REFLECT:
        return j < 0 ? -j : 2 * (i - 1) - j;
    case OGP_REPLICATE:
        return j < 0 ? 0 : i - 1;
    case OGP_CIRCULAR:
        return ogp_mod(j, i);
    case OGP_ZEROS:
    default:
        return -1;
    }
}
