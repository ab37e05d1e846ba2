/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

/* XCR0: which register state the operating system saves. 0 where it says nothing. */
static uint64_t saved_state(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return 0;
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool has_avx2(void)
{
    const uint64_t sse_avx = 0x6; /* XMM and the upper halves of YMM */
    unsigned a, b, c, d;
    if ((saved_state() & sse_avx) != sse_avx || !__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_FMA) || !(c & bit_AVX))
        return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}

static bool has_avx512(void)
{
    const uint64_t zmm = 0xe0; /* mask registers, upper halves of ZMM0-15, ZMM16-31 */
    const unsigned need = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    unsigned a, b, c, d;
    return has_avx2() && (saved_state() & zmm) == zmm && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & need) == need;
}
#endif

static bool always(void)
{
    return true;
}

struct isa {
    bool (*runs)(void);
    bool chosen; /* a default may be this one */
    const struct ogp_kernels *f32, *f64;
};

#define DECLARE(isa) extern const struct ogp_kernels ogp_kernels_##isa##_f32, ogp_kernels_##isa##_f64
#define TABLES(isa) &ogp_kernels_##isa##_f32, &ogp_kernels_##isa##_f64

DECLARE(baseline);
#ifdef OGP_HAVE_NEON
DECLARE(neon);
#endif
#ifdef OGP_HAVE_AVX2
DECLARE(avx2);
#endif
#ifdef OGP_HAVE_WIDE
DECLARE(wide);
#endif
#ifdef OGP_HAVE_AVX512
DECLARE(avx512);
#endif

/* Worst first: the last that runs, up to the cap, is the default. */
static const struct isa isas[] = {
    {always, true, TABLES(baseline)},
#ifdef OGP_HAVE_NEON
    {always, true, TABLES(neon)},
#endif
#ifdef OGP_HAVE_WIDE
    {has_avx2, false, TABLES(wide)},
#endif
#ifdef OGP_HAVE_AVX2
    {has_avx2, true, TABLES(avx2)},
#endif
#ifdef OGP_HAVE_AVX512
    {has_avx512, true, TABLES(avx512)},
#endif
};

static const struct isa *best;
static pthread_once_t best_once = PTHREAD_ONCE_INIT;

static void find_best(void)
{
    const char *const cap = getenv("OGP_ISA");
    for (size_t k = 0; k < OGP_COUNT(isas); k++) {
        if (isas[k].chosen && isas[k].runs())
            best = &isas[k];
        if (cap && strcmp(cap, isas[k].f32->name) == 0)
            break;
    }
}

static const struct isa *find(const char *name)
{
    for (size_t k = 0; k < OGP_COUNT(isas); k++)
        if (strcmp(name, isas[k].f32->name) == 0)
            return isas[k].runs() ? &isas[k] : NULL;
    return NULL;
}

const struct ogp_kernels *ogp_cpu_kernels(const char *name, enum ogp_dtype dtype)
{
    pthread_once(&best_once, find_best);
    const struct isa *const isa = name ? find(name) : best;
    if (!isa)
        return NULL;
    return dtype == OGP_F32 ? isa->f32 : isa->f64;
}

int64_t ogp_cpu_cache_bytes(void)
{
    const int64_t least = (int64_t)512 << 10;
#ifdef _SC_LEVEL2_CACHE_SIZE
    return ogp_max(least, sysconf(_SC_LEVEL2_CACHE_SIZE));
#else
    return least;
#endif
}
