/* SPDX-License-Identifier: Apache-2.0 */
/* The vector vocabulary: GCC and Clang vector extensions, shaped by what the ISA file defines before:
 *   VBYTES     bytes of a vector (16, 32, 64; the compiler splits what the target lacks)
 *   REGISTERS  vector registers, which fix the register blocks
 *   T, TINT    the element, and the signed integer of its size; LOG2_T, the logarithm of its bytes
 * Where a product is added the compiler may fuse (these objects are built with -ffp-contract=fast). */
#ifndef OGP_VECTOR_H
#define OGP_VECTOR_H

#include <stdint.h>

#define LANES (VBYTES >> LOG2_T)
#define EIGHT(s) s, s, s, s, s, s, s, s
#if LANES == 16
#define LANES_OF(s) EIGHT(s), EIGHT(s)
#define LANE_NUMBERS 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#elif LANES == 8
#define LANES_OF(s) EIGHT(s)
#define LANE_NUMBERS 0, 1, 2, 3, 4, 5, 6, 7
#elif LANES == 4
#define LANES_OF(s) s, s, s, s
#define LANE_NUMBERS 0, 1, 2, 3
#else
#define LANES_OF(s) s, s
#define LANE_NUMBERS 0, 1
#endif
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 32")

typedef T V __attribute__((vector_size(VBYTES)));
typedef T V_anywhere __attribute__((vector_size(VBYTES), aligned(sizeof(T)), may_alias));
typedef TINT V_int __attribute__((vector_size(VBYTES)));

INLINE V v_zero(void)
{
    return (V){0};
}

INLINE V v_load(const T *p)
{
    return *(const V_anywhere *)p;
}

INLINE void v_store(T *p, V v)
{
    *(V_anywhere *)p = v;
}

INLINE V v_set1(T s)
{
    return (V){LANES_OF(s)};
}

INLINE V v_fma(V a, V b, V c)
{
    return a * b + c;
}

/* The first n lanes of v, zero in the others. */
INLINE V v_first(V v, int64_t n)
{
    const V_int lane = {LANE_NUMBERS}, count = {LANES_OF((TINT)n)};
    return (V)((V_int)v & (lane < count));
}

/* Keeps v in a register: a load folded into each of several products would cost a load slot in each. */
INLINE V v_keep(V v)
{
#if defined(__AVX512F__)
    __asm__("" : "+v"(v));
#elif defined(__x86_64__) && VBYTES <= 32
    __asm__("" : "+x"(v));
#elif defined(__aarch64__)
    __asm__("" : "+w"(v));
#endif
    return v;
}

/* Sum of the lanes in double, halves first. */
typedef double V_double __attribute__((vector_size(VBYTES)));
#define DOUBLES (VBYTES / 8)

INLINE double v_sum(V v)
{
#if LOG2_T == 2
    typedef float half __attribute__((vector_size(VBYTES / 2)));
    half low, high;
    __builtin_memcpy(&low, &v, sizeof low);
    __builtin_memcpy(&high, (const char *)&v + sizeof low, sizeof high);
    const V_double d = __builtin_convertvector(low, V_double) + __builtin_convertvector(high, V_double);
#else
    const V_double d = v;
#endif
#if DOUBLES == 8
    return ((d[0] + d[4]) + (d[2] + d[6])) + ((d[1] + d[5]) + (d[3] + d[7]));
#elif DOUBLES == 4
    return (d[0] + d[2]) + (d[1] + d[3]);
#else
    return d[0] + d[1];
#endif
}

#endif
