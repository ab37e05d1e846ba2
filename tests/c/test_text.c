/* SPDX-License-Identifier: Apache-2.0 */
/* The text form of problems: every word, every default, round trips, cut prints, wrong words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testlib.h"

static const struct {
    const char *text, *canonical;
} good[] = {
    {"i5 k3", "forward i5 k3"},
    {"forward f32 zeros n1 g7 ci7 co7 i296x296x168 k9 s1 p4 q4 l1 xndhwc wndhwc yndhwc",
     "forward g7 ci7 co7 i296x296x168 k9 p4 xndhwc wndhwc yndhwc"},
    {"k3 i5 grad_weight f64 reflect p1 q2 n0", "grad_weight f64 reflect n0 i5 k3 p1 q2"},
    {"grad_input replicate i5x6x7 k1x2x3 s4x5x6 p1x2x3 q3x2x1 l1x1x2",
     "grad_input replicate i5x6x7 k1x2x3 s4x5x6 p1x2x3 q3x2x1 l1x1x2"},
    {"  grad_bias\tcircular   co3 i4x4x4 k2x2x2 q0 p1 ", "grad_bias circular co3 i4 k2 p1 q0"},
    {"ci0 co2 i3 k3 s1099511627776", "forward ci0 co2 i3 k3 s1099511627776"},
    {"g-9223372036854775808 i9223372036854775807 k-1", "forward g-9223372036854775808 i9223372036854775807 k-1"},
    {"i5 k3 q1", "forward i5 k3 q1"},
    {"yndhwc i5 k3", "forward i5 k3 yndhwc"},
};

static const char *const bad[] = {
    "i5 k3 nonsense",
    "i5 k3 z4",
    "i5 k",
    "i5x6 k3",
    "i5x6x7x8 k3",
    "i5 k3x",
    "i5 kx3",
    "i5 k3 f16",
    "i5 k3 n1x2x3",
    "i5 k3 forwar",
    "i5 k3 xn",
    "i5 k3 n1.5",
    "i5 k--3",
    "i5 k+3",
    "i5 k3 X",
    "i5,k3",
    "i5 k9223372036854775808",
    "i5 k99999999999999999999999",
    "i5 k-9223372036854775809",
    "i5 k0x10",
    "i5 k3 -",
};

static size_t print(const struct ogp_problem *p, enum ogp_pass pass, char *text, size_t bytes)
{
    return ogp_problem_print(p, pass, text, bytes);
}

static void test_good(const char *text, const char *canonical)
{
    struct ogp_problem p, again;
    struct ogp_error error = {.size = sizeof error};
    enum ogp_pass pass, pass_again;
    char out[300];
    if (!EXPECT(ogp_problem_parse(text, &p, &pass, &error) == OGP_OK, "\"%s\": %s", text, error.text))
        return;
    EXPECT(p.size == sizeof p, "\"%s\": parsing sets the size", text);
    const size_t length = print(&p, pass, out, sizeof out);
    EXPECT(strcmp(out, canonical) == 0 && length == strlen(canonical), "\"%s\" prints as \"%s\"", text, out);
    EXPECT(ogp_problem_parse(out, &again, &pass_again, NULL) == OGP_OK, "\"%s\" reads back", out);
    EXPECT(pass == pass_again && memcmp(p.in, again.in, sizeof p - offsetof(struct ogp_problem, in)) == 0 &&
               p.n == again.n && p.g == again.g && p.ci == again.ci && p.co == again.co && p.dtype == again.dtype &&
               p.padding == again.padding && p.x_layout == again.x_layout && p.w_layout == again.w_layout &&
               p.y_layout == again.y_layout,
           "\"%s\" reads back as another problem", out);
}

static void test_bad(const char *text)
{
    struct ogp_problem p;
    struct ogp_error error = {.size = sizeof error};
    enum ogp_pass pass;
    EXPECT(ogp_problem_parse(text, &p, &pass, &error) == OGP_BAD_ARG, "\"%s\" was read", text);
    EXPECT(strlen(error.text) > 10, "\"%s\": no message", text);
}

/* Cut prints: what fits, a zero byte, nothing more, and always the full length. */
static void test_cuts(const char *whole, size_t length, size_t (*printer)(const void *, char *, size_t),
                      const void *what)
{
    EXPECT(printer(what, NULL, 0) == length, "the length without a buffer: \"%s\"", whole);
    for (size_t bytes = 0; bytes <= length + 2; bytes++) {
        char out[600];
        memset(out, 'Z', sizeof out);
        EXPECT(printer(what, out, bytes) == length, "the length with %zu bytes", bytes);
        const size_t fits = bytes == 0 ? 0 : bytes - 1 < length ? bytes - 1 : length;
        EXPECT(memcmp(out, whole, fits) == 0 && (bytes == 0 || out[fits] == '\0'), "%zu bytes: \"%.*s\"", bytes,
               (int)fits, out);
        for (size_t i = bytes ? fits + 1 : 0; i < sizeof out; i++)
            if (!EXPECT(i < bytes || out[i] == 'Z', "%zu bytes: wrote at %zu", bytes, i))
                return;
    }
}

static size_t print_problem(const void *what, char *text, size_t bytes)
{
    return ogp_problem_print(what, OGP_GRAD_INPUT, text, bytes);
}

static size_t print_plan(const void *what, char *text, size_t bytes)
{
    return ogp_plan_describe(what, text, bytes);
}

static void test_printing(void)
{
    char whole[600];
    const struct ogp_problem p = problem_of("f64 n2 g2 ci4 co6 i5x6x7 k3 p1 q2 xndhwc");
    size_t length = print(&p, OGP_GRAD_INPUT, whole, sizeof whole);
    test_cuts(whole, length, print_problem, &p);
    ogp_plan *plan = NULL;
    EXPECT(ogp_plan_create(&plan, &p, OGP_GRAD_INPUT, NULL, NULL) == OGP_OK, "plan");
    length = ogp_plan_describe(plan, whole, sizeof whole);
    EXPECT(length < sizeof whole && strlen(whole) == length && !strchr(whole, '\n'), "describe: \"%s\"", whole);
    EXPECT(strncmp(whole, "grad_input f64 n2 g2 ci4 co6", 28) == 0, "describe begins with the problem: \"%s\"", whole);
    char *first = strchr(whole, '|');
    EXPECT(first && strchr(first + 1, '|'), "describe has three parts: \"%s\"", whole);
    test_cuts(whole, length, print_plan, plan);
    ogp_plan_destroy(plan);
}

/* A problem whose zeros stand for defaults prints what it means. */
static void test_defaults(void)
{
    char out[200];
    const struct ogp_problem p = {.size = sizeof p, .n = 1, .ci = 1, .co = 1, .in = {4, 5, 6}, .kernel = {1, 2, 3}};
    print(&p, OGP_FORWARD, out, sizeof out);
    EXPECT(strcmp(out, "forward i4x5x6 k1x2x3") == 0, "\"%s\"", out);
}

/* Any bytes: an answer, no crash; and what is accepted prints and reads back. */
static void test_noise(void)
{
    static const char *const bits[] = {"i",  "k3", "5",       "x",      " ",    "forward", "f64",
                                       "n",  "-",  "reflect", "p1",     "q",    "xndhwc",  "99999999999999999999",
                                       "g2", "\t", "l",       "s1x2x3", "\x80", "_",       "0"};
    int accepted = 0;
    for (uint64_t trial = 0; trial < 20000; trial++) {
        char text[400] = "", out[400];
        struct ogp_problem p, again;
        enum ogp_pass pass;
        for (uint64_t i = 0, count = mix(trial, 0) % 9; i < count; i++) {
            strcat(text, bits[mix(trial, 1 + i) % (sizeof bits / sizeof *bits)]);
            if (mix(trial, 50 + i) % 2)
                strcat(text, " ");
        }
        if (ogp_problem_parse(text, &p, &pass, NULL) != OGP_OK)
            continue;
        accepted++; /* l0 means l1: what is printed has to print the same again */
        print(&p, pass, out, sizeof out);
        const int reads = ogp_problem_parse(out, &again, &pass, NULL) == OGP_OK;
        EXPECT(reads, "\"%s\" printed \"%s\", which does not read", text, out);
        print(&again, pass, text, sizeof text);
        EXPECT(strcmp(text, out) == 0, "\"%s\" reads back as \"%s\"", out, text);
    }
    EXPECT(accepted > 100, "only %d texts were accepted: the test is empty", accepted);
}

int main(void)
{
    struct ogp_problem p;
    enum ogp_pass pass;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        test_good(good[i].text, good[i].canonical);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        test_bad(bad[i]);
    EXPECT(ogp_problem_parse(NULL, &p, &pass, NULL) == OGP_BAD_ARG, "no text");
    EXPECT(ogp_problem_parse("i5 k3", NULL, &pass, NULL) == OGP_BAD_ARG, "no problem");
    EXPECT(ogp_problem_parse("i5 k3", &p, NULL, NULL) == OGP_BAD_ARG, "no pass");
    test_defaults();
    test_printing();
    test_noise();
    return test_end("test_text");
}
