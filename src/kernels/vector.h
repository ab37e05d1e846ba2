/* SPDX-License-Identifier: Apache-2.0 */
/* The vector vocabulary: GCC and Clang vector extensions, shaped by what the ISA file defines before:
 *   VBYTES     bytes of a vector (16, 32, 64; the compiler splits what the target lacks)
 *   REGISTERS  vector registers, which fix the register blocks
 *   T, TINT    the element, and the signed integer of its size; LOG2_T, the logarithm of its bytes
 * Where a product is added the compiler may fuse (these objects are built with -ffp-contract=fast). */
#ifndef OGP_VECTOR_H
#define OGP_VECTOR_H

#include <stdint.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

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

/* A store to an aligned place that is not kept in the caches, where there is one; v_stream_end orders them before what
 * another thread is told next. */
INLINE void v_stream(T *p, V v)
{
#if defined(__AVX512F__) && VBYTES == 64
    _mm512_stream_si512((void *)p, (__m512i)v);
#elif defined(__AVX__) && VBYTES == 32
    _mm256_stream_si256((void *)p, (__m256i)v);
#elif defined(__SSE2__) && VBYTES == 16
    _mm_stream_si128((void *)p, (__m128i)v);
#else
    v_store(p, v);
#endif
}

INLINE void v_stream_end(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

INLINE V v_set1(T s)
{
    return (V){LANES_OF(s)};
}

INLINE V v_fma(V a, V b, V c)
{
    return a * b + c;
}

/* a where truth is true (all ones), else b. */
INLINE V v_where(V_int truth, V a, V b)
{
    return (V)(((V_int)a & truth) | ((V_int)b & ~truth));
}

/* The larger, and the smaller, of two numbers; b where one is NaN. */
INLINE V v_larger(V a, V b)
{
#if defined(__AVX512F__) && LOG2_T == 2
    return (V)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX512F__)
    return (V)_mm512_max_pd((__m512d)a, (__m512d)b);
#else
    return v_where(a > b, a, b);
#endif
}

INLINE V v_smaller(V a, V b)
{
#if defined(__AVX512F__) && LOG2_T == 2
    return (V)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX512F__)
    return (V)_mm512_min_pd((__m512d)a, (__m512d)b);
#else
    return v_where(a < b, a, b);
#endif
}

/* The first n lanes of v, zero in the others. */
INLINE V v_first(V v, int64_t n)
{
    const V_int lane = {LANE_NUMBERS}, count = {LANES_OF((TINT)n)};
    return (V)((V_int)v & (lane < count));
}

/* Lanes [lo, hi) of what lies at p, zero in the others, whose memory is not touched. */
INLINE V v_load_between(const T *p, int64_t lo, int64_t hi)
{
#if defined(__AVX512F__) || (defined(__AVX2__) && VBYTES == 32)
    const V_int lane = {LANE_NUMBERS}, from = {LANES_OF((TINT)(lo < LANES ? lo : LANES))},
                until = {LANES_OF((TINT)(hi > 0 ? hi : 0))};
    const V_int inside = (lane >= from) & (lane < until);
#endif
#if defined(__AVX512F__) && LOG2_T == 2
    return (V)_mm512_maskz_loadu_ps(_mm512_test_epi32_mask((__m512i)inside, (__m512i)inside), p);
#elif defined(__AVX512F__)
    return (V)_mm512_maskz_loadu_pd(_mm512_test_epi64_mask((__m512i)inside, (__m512i)inside), p);
#elif defined(__AVX2__) && VBYTES == 32 && LOG2_T == 2
    return (V)_mm256_maskload_ps(p, (__m256i)inside);
#elif defined(__AVX2__) && VBYTES == 32
    return (V)_mm256_maskload_pd(p, (__m256i)inside);
#else
    T in[LANES] = {0};
    V v;
    for (int64_t i = lo > 0 ? lo : 0; i < LANES && i < hi; i++)
        in[i] = p[i];
    __builtin_memcpy(&v, in, sizeof v);
    return v;
#endif
}

INLINE V v_magnitude(V v)
{
    return (V)((V_int)v & ~(V_int)v_set1((T)-0.0));
}

/* The greater and the lesser of each lane. */
#if defined(__AVX512F__) && LOG2_T == 2
#define V_INT_OF_TWO(name, a, b) (V_int)_mm512_##name##_epi32((__m512i)a, (__m512i)b)
#elif defined(__AVX512F__)
#define V_INT_OF_TWO(name, a, b) (V_int)_mm512_##name##_epi64((__m512i)a, (__m512i)b)
#elif defined(__AVX2__) && VBYTES == 32 && LOG2_T == 2
#define V_INT_OF_TWO(name, a, b) (V_int)_mm256_##name##_epi32((__m256i)a, (__m256i)b)
#endif

INLINE V_int v_greater(V_int a, V_int b)
{
#ifdef V_INT_OF_TWO
    return V_INT_OF_TWO(max, a, b);
#else
    return (a & (a > b)) | (b & ~(a > b));
#endif
}

INLINE V_int v_lesser(V_int a, V_int b)
{
#ifdef V_INT_OF_TWO
    return V_INT_OF_TWO(min, a, b);
#else
    return (a & (a < b)) | (b & ~(a < b));
#endif
}

/* Lane i of the result is lane from[i] of a followed by b. Where there is no instruction for it, a loop: the code for a
 * vector that the target lacks would be a thousand moves. */
#if defined(__clang__) || (VBYTES == 64 && defined(__x86_64__) && !defined(__AVX512F__))
#define SHUFFLES_ARE_LOOPS 1
INLINE V v_shuffle_two(V a, V b, V_int from)
{
    T in[2 * LANES], out[LANES];
    TINT at[LANES];
    V v;
    __builtin_memcpy(in, &a, sizeof a);
    __builtin_memcpy(in + LANES, &b, sizeof b);
    __builtin_memcpy(at, &from, sizeof at);
    _Pragma("GCC unroll 1") for (int i = 0; i < LANES; i++) out[i] = in[at[i]];
    __builtin_memcpy(&v, out, sizeof v);
    return v;
}

INLINE V v_shuffle(V v, V_int from)
{
    return v_shuffle_two(v, v, from);
}
#else
#define SHUFFLES_ARE_LOOPS 0
INLINE V v_shuffle_two(V a, V b, V_int from)
{
    return __builtin_shuffle(a, b, from);
}

INLINE V v_shuffle(V v, V_int from)
{
    return __builtin_shuffle(v, from);
}
#endif

/* Lanes by, by + 1, ... of a followed by b: a constant, 0 to LANES. V_SHIFTS: whether one instruction does it, and a
 * vector is a cache line. OGP_PLAIN_SHIFTS: for compilers, or flags, that do not see the constant. */
#if defined(__AVX512F__) && LOG2_T == 2 && !defined(OGP_PLAIN_SHIFTS)
#define V_SHIFT(a, b, by) ((by) == LANES ? (b) : (V)_mm512_alignr_epi32((__m512i)(b), (__m512i)(a), (by) % LANES))
enum { V_SHIFTS = 1 };
#elif defined(__AVX512F__) && !defined(OGP_PLAIN_SHIFTS)
#define V_SHIFT(a, b, by) ((by) == LANES ? (b) : (V)_mm512_alignr_epi64((__m512i)(b), (__m512i)(a), (by) % LANES))
enum { V_SHIFTS = 1 };
#else
#define V_SHIFT(a, b, by) v_shuffle_two(a, b, (V_int){LANE_NUMBERS} + (TINT)(by))
enum { V_SHIFTS = 0 };
#endif

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

/* p + by, which the compiler may not trade for a pointer of its own to each row that p passes: there are more of these
 * than registers. */
INLINE const T *v_onward(const T *p, int64_t by)
{
    p += by;
#ifdef __GNUC__
    __asm__("" : "+r"(p));
#endif
    return p;
}

/* Sum of the lanes in double, halves first. */
typedef double V_double __attribute__((vector_size(VBYTES)));
#define DOUBLES (VBYTES / 8)

typedef double V_doubles __attribute__((vector_size(VBYTES), aligned(8), may_alias));

#if LOG2_T == 2
typedef float V_half __attribute__((vector_size(VBYTES / 2)));

INLINE V_double v_low(V v)
{
    V_half low;
    __builtin_memcpy(&low, &v, sizeof low);
    return __builtin_convertvector(low, V_double);
}

INLINE V_double v_high(V v)
{
    V_half high;
    __builtin_memcpy(&high, (const char *)&v + sizeof high, sizeof high);
    return __builtin_convertvector(high, V_double);
}
#endif

INLINE double v_sum(V v)
{
#if LOG2_T == 2
    const V_double d = v_low(v) + v_high(v);
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

/* sum[i] += lane i of v */
INLINE void v_add_to_doubles(double *sum, V v)
{
#if LOG2_T == 2
    *(V_doubles *)sum += v_low(v);
    *(V_doubles *)(sum + DOUBLES) += v_high(v);
#else
    *(V_doubles *)sum += v;
#endif
}

/* Sum of the lanes in the element type, halves first. */
INLINE T v_total(V v)
{
    T lane[LANES];
    __builtin_memcpy(lane, &v, sizeof lane);
    UNROLL
    for (int half = LANES / 2; half > 0; half /= 2)
        UNROLL
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

/* Bit i: whether lane i of a comparison is true. */
INLINE uint64_t v_bits(V_int truth)
{
#if defined(__AVX512DQ__) && LOG2_T == 2
    return (uint16_t)_mm512_movepi32_mask((__m512i)truth);
#elif defined(__AVX512DQ__)
    return (uint8_t)_mm512_movepi64_mask((__m512i)truth);
#elif defined(__AVX2__) && VBYTES == 32 && LOG2_T == 2
    return (uint64_t)_mm256_movemask_ps((__m256)truth);
#elif defined(__AVX2__) && VBYTES == 32
    return (uint64_t)_mm256_movemask_pd((__m256d)truth);
#else
    uint64_t bits = 0;
    UNROLL
    for (int i = 0; i < LANES; i++)
        bits |= (uint64_t)(truth[i] & 1) << i;
    return bits;
#endif
}

#endif
