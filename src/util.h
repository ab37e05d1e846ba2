/* SPDX-License-Identifier: Apache-2.0 */
/* Small integer helpers. Counts are int64_t, so that differences stay safe; bytes are size_t. */
#ifndef OGP_UTIL_H
#define OGP_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OGP_COUNT(array) (sizeof(array) / sizeof((array)[0]))

static inline int64_t ogp_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t ogp_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* a >= 0, b >= 1 */
static inline int64_t ogp_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

static inline int64_t ogp_round_up(int64_t a, int64_t b)
{
    return ogp_ceil_div(a, b) * b;
}

/* Remainder in [0, b) for any sign of a; b >= 1. */
static inline int64_t ogp_mod(int64_t a, int64_t b)
{
    const int64_t r = a % b;
    return r < 0 ? r + b : r;
}

static inline int64_t ogp_gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Product of two counts >= 0, or INT64_MAX where it does not fit. */
static inline int64_t ogp_mul_saturated(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

#endif
