/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_problem [--seconds S] [--count N] [--seed S]: random small problems, each run every way and compared with the
 * oracle. Built with OGP_LIBFUZZER it is a libFuzzer target: bytes choose the problem. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "testlib.h"
#include "trial.h"

struct bytes {
    const uint8_t *next;
    size_t left;
};

/* 0 .. most; zeros when the bytes have run out. */
static int pick(struct bytes *b, int most)
{
    if (b->left == 0)
        return 0;
    b->left--;
    return *b->next++ % (most + 1);
}

/* Usually small, sometimes 16 more: the extents of interest lie around vector lengths. */
static int pick_extent(struct bytes *b, int most)
{
    const int v = pick(b, 255);
    return 1 + v % most + (v > 240 ? 16 : 0);
}

struct axis_pick {
    int i, k, s, l, p, q;
};

/* Transforms take strides of 1 only, Winograd's kernels of 1 and 3 taps only: each has a share of the problems. */
enum kind { ANY, DENSE, OF_3_TAPS };

static struct axis_pick pick_axis(struct bytes *b, enum ogp_padding padding, enum kind kind, int width)
{
    struct axis_pick a = {.i = pick_extent(b, width ? 40 : 8),
                          .k = kind == OF_3_TAPS ? 1 + 2 * pick(b, 1) : 1 + pick(b, 6),
                          .s = kind == ANY ? 1 + pick(b, 3) : 1,
                          .l = 1 + pick(b, 3)};
    const int most = padding == OGP_REFLECT ? a.i - 1 : 2 * a.i > 9 ? 9 : 2 * a.i;
    a.p = pick(b, most);
    a.q = pick(b, most);
    if (kind == ANY && pick(b, 7) == 0)
        a.s = a.l = 1 + pick(b, 5);
    while (a.l * (a.k - 1) >= a.i + a.p + a.q) /* never empty */
        a.k--;
    return a;
}

/* Writes the text of the problem that the bytes describe. */
static void describe(struct bytes *b, char text[300])
{
    static const char *const paddings[] = {"zeros", "reflect", "replicate", "circular"};
    static const char *const layouts[] = {
        "", " xndhwc", " yndhwc", " xndhwc yndhwc", " wndhwc", " xndhwc wndhwc yndhwc"};
    const enum ogp_padding padding = (enum ogp_padding)(pick(b, 1) ? pick(b, 3) : 0);
    const char *dtype = pick(b, 2) ? "f32" : "f64";
    const int g = pick(b, 1) ? 1 + pick(b, 3) : 1, depthwise = pick(b, 1);
    const int n = pick(b, 15) == 0 ? 0 : 1 + pick(b, 1), ci = depthwise ? 1 : pick(b, 20) == 0 ? 0 : 1 + pick(b, 4);
    const int co = depthwise ? 1 + pick(b, 2) / 2 : 1 + pick(b, 5);
    const enum kind kind = (enum kind)pick(b, 2);
    const struct axis_pick d = pick_axis(b, padding, kind, 0), h = pick_axis(b, padding, kind, 0),
                           w = pick_axis(b, padding, kind, 1);
    snprintf(text, 300, "%s %s n%d g%d ci%d co%d i%dx%dx%d k%dx%dx%d s%dx%dx%d p%dx%dx%d q%dx%dx%d l%dx%dx%d%s", dtype,
             paddings[padding], n, g, ci * g, co * g, d.i, h.i, w.i, d.k, h.k, w.k, d.s, h.s, w.s, d.p, h.p, w.p, d.q,
             h.q, w.q, d.l, h.l, w.l, layouts[pick(b, 5)]);
}

/* Products that the oracle has to add up. */
static double work(const char *text)
{
    const struct ogp_problem p = problem_of(text);
    int64_t extent[5];
    role_extents(&p, ROLE_Y, extent);
    return (double)extents_count(extent) * (double)(p.kernel[0] * p.kernel[1] * p.kernel[2] * (p.ci / p.g));
}

static void fuzz(const uint8_t *data, size_t size)
{
    char text[300];
    struct bytes b = {data, size};
    const struct trial_filter filter = {.seed = 1, .quick = 1};
    describe(&b, text);
    if (work(text) < 2e5)
        trial_run(text, &filter);
}

#ifdef OGP_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz(data, size);
    if (test_failures())
        abort();
    return 0;
}
#else
int main(int argc, char **argv)
{
    double seconds = 5;
    long long count = 1000000000;
    uint64_t seed = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0)
            seconds = atof(argv[i + 1]);
        else if (strcmp(argv[i], "--count") == 0)
            count = atoll(argv[i + 1]);
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
        else
            return fprintf(stderr, "fuzz_problem: cannot use '%s'\n", argv[i]), 2;
    }
    const time_t start = time(NULL);
    for (long long trial = 0; trial < count && difftime(time(NULL), start) < seconds && test_failures() < 10; trial++) {
        uint8_t data[64];
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = (uint8_t)mix(mix(seed, (uint64_t)trial), i);
        fuzz(data, sizeof data);
    }
    trial_summary();
    trial_end();
    return test_end("fuzz_problem");
}
#endif
