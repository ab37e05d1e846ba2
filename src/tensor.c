/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor.h"

#include <inttypes.h>
#include <stdlib.h>

#include "error.h"
#include "util.h"

static bool is_empty(const struct tensor *t)
{
    for (int a = 0; a < t->axes; a++)
        if (t->extent[a] == 0)
            return true;
    return false;
}

/* Bytes from data to the lowest and past the highest element; false where they do not fit. */
static bool byte_range(const struct tensor *t, int64_t element_bytes, int64_t *low, int64_t *high)
{
    int64_t lo = 0, hi = 0;
    for (int a = 0; a < t->axes; a++) {
        int64_t reach;
        if (t->extent[a] == 1)
            continue;
        if (__builtin_mul_overflow(t->extent[a] - 1, t->stride[a], &reach) ||
            __builtin_mul_overflow(reach, element_bytes, &reach))
            return false;
        if (__builtin_add_overflow(reach < 0 ? lo : hi, reach, reach < 0 ? &lo : &hi))
            return false;
    }
    *low = lo;
    return !__builtin_add_overflow(hi, element_bytes, high) && *high >= 0;
}

/* Whether each axis, from the smallest stride up, steps over all that lies below it. Sufficient for distinct
 * elements, and true of every permutation, slice and padding of a dense tensor. */
static bool is_injective(const struct tensor *t)
{
    int64_t reach = 0;
    bool done[5] = {false};
    for (int round = 0; round < t->axes; round++) {
        int next = -1;
        for (int a = 0; a < t->axes; a++) {
            if (t->extent[a] == 1)
                done[a] = true;
            if (!done[a] && (next < 0 || llabs(t->stride[a]) < llabs(t->stride[next])))
                next = a;
        }
        if (next < 0)
            return true;
        const int64_t step = llabs(t->stride[next]);
        if (step <= reach)
            return false;
        reach += step * (t->extent[next] - 1);
        done[next] = true;
    }
    return true;
}

enum ogp_status ogp_tensor_check(const struct tensor *t, int64_t element_bytes, int is_output,
                                 struct ogp_error *error)
{
    int64_t low, high;
    if (is_empty(t))
        return OGP_OK;
    if (!t->data)
        return ogp_fail(error, OGP_BAD_ARG, "%s.data: expected an address, got NULL", t->name);
    if (!byte_range(t, element_bytes, &low, &high))
        return ogp_fail(error, OGP_TOO_LARGE, "%s: its strides reach beyond 63 bits", t->name);
    if (is_output && !is_injective(t))
        return ogp_fail(error, OGP_BAD_ARG, "%s: expected an output whose elements are apart, got strides that may let "
                        "them overlap", t->name);
    return OGP_OK;
}

enum ogp_status ogp_tensor_apart(const struct tensor *output, const struct tensor *other, int64_t element_bytes,
                                 struct ogp_error *error)
{
    int64_t low[2], high[2];
    if (is_empty(output) || is_empty(other) || !byte_range(output, element_bytes, &low[0], &high[0]) ||
        !byte_range(other, element_bytes, &low[1], &high[1]))
        return OGP_OK;
    const uintptr_t a = (uintptr_t)output->data, b = (uintptr_t)other->data;
    if (a + (uintptr_t)low[0] < b + (uintptr_t)high[1] && b + (uintptr_t)low[1] < a + (uintptr_t)high[0])
        return ogp_fail(error, OGP_BAD_ARG, "%s: expected an output apart from the other tensors, got one that shares "
                        "addresses with %s", output->name, other->name);
    return OGP_OK;
}
