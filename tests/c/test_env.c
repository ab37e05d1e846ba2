/* SPDX-License-Identifier: Apache-2.0 */
/* The environment, read once by each process (so each case is a child): OGP_ISA caps the instruction set, OGP_VERBOSE=1
 * prints one line per execution. And the instruction sets on offer are those that this CPU has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testlib.h"

static const char *const text = "grad_input g2 ci2 co2 i5x6x20 k3 p1";

/* Its environment, and what it runs. NULL: unset, or the default. */
struct child {
    const char *cap, *verbose, *isa, *problem, *config;
    enum ogp_pass pass; /* of the problem, if that is not NULL */
};

/* Runs the problem twice, then prints to standard error what the plan says of itself. */
static void run(const struct child *c)
{
    const struct ogp_problem p = problem_of(c->problem ? c->problem : text);
    const struct ogp_options options = {.size = sizeof options, .isa = c->isa, .config = c->config};
    const enum ogp_pass pass = c->problem ? c->pass : OGP_GRAD_INPUT;
    char line[500];
    struct operands ops;
    ogp_plan *plan = NULL;
    operands_make(&ops, &p, pass, 0, NULL, FILL_UNIFORM, 1);
    compute(&p, pass, &options, &ops, NULL);
    compute(&p, pass, &options, &ops, NULL);
    if (ogp_plan_create(&plan, &p, pass, &options, NULL) != OGP_OK)
        _exit(3);
    ogp_plan_describe(plan, line, sizeof line);
    fprintf(stderr, "%s\n", line);
    fflush(stderr);
    _exit(test_failures() != 0);
}

/* What a child with this environment writes to standard error. */
static void run_child(const struct child *c, char *out, size_t bytes)
{
    int ends[2], status = -1;
    if (!EXPECT(pipe(ends) == 0, "pipe"))
        exit(1);
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        c->cap ? setenv("OGP_ISA", c->cap, 1) : unsetenv("OGP_ISA");
        c->verbose ? setenv("OGP_VERBOSE", c->verbose, 1) : unsetenv("OGP_VERBOSE");
        run(c);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; length + 1 < bytes && (got = read(ends[0], out + length, bytes - 1 - length)) > 0;)
        length += (size_t)got;
    out[length] = '\0';
    close(ends[0]);
    EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "OGP_ISA=%s: status %#x, said: %s",
           c->cap ? c->cap : "", (unsigned)status, out);
}

static int lines(const char *s)
{
    int count = 0;
    for (; *s; s++)
        count += *s == '\n';
    return count;
}

static void test_verbose(void)
{
    char out[4000];
    run_child(&(struct child){0}, out, sizeof out);
    EXPECT(lines(out) == 1, "a quiet process says: %s", out);
    run_child(&(struct child){.verbose = "0"}, out, sizeof out);
    EXPECT(lines(out) == 1, "OGP_VERBOSE=0 says: %s", out);
    run_child(&(struct child){.verbose = "1"}, out, sizeof out);
    EXPECT(lines(out) == 3, "two executions and a plan say: %s", out);
    EXPECT(strstr(out, text) && strstr(out, " ms"), "a line holds the problem and its time: %s", out);
}

/* Noise has no quiet zone anywhere: none of it may fall back to a direct kernel, least of all at the borders, where
 * windows hold little of the tensor. */
static void test_noise_stays_transformed(void)
{
    static const struct child cases[] = {
        {.problem = "g2 ci2 co2 i40x42x100 k7x5x7 p3x2x3 reflect", .pass = OGP_GRAD_INPUT},
        {.problem = "g2 ci2 co2 i40x42x61 k7 p3 replicate", .pass = OGP_GRAD_INPUT},
        {.problem = "g2 ci2 co2 i40x42x61 k7 p3", .pass = OGP_GRAD_INPUT},
        {.problem = "g2 ci2 co2 i40x42x61 k7 p3", .pass = OGP_FORWARD},
        {.problem = "g2 ci2 co2 i40x42x61 k7 p3 reflect", .pass = OGP_GRAD_WEIGHT},
    };
    char out[4000];
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct child c = cases[k];
        c.verbose = "1";
        c.config = "fourier";
        run_child(&c, out, sizeof out);
        EXPECT(strstr(out, " direct 0 of "), "%s: %s", c.problem, out);
    }
}

/* Dense operands of a kernel that covers the volume are multiplied as matrices. */
static void test_flat(void)
{
    static const enum ogp_pass passes[] = {OGP_FORWARD, OGP_GRAD_INPUT, OGP_GRAD_WEIGHT};
    char out[4000], said[100];
    for (int k = 0; k < 3; k++) {
        run_child(&(struct child){.problem = "n20 g2 ci6 co8 i2x4x4 k2x4x4 s2x4x4", .verbose = "1", .pass = passes[k]},
                  out, sizeof out);
        snprintf(said, sizeof said, "ogp: %s g2 ci192 co8 i1x1x20 k1 ", pass_name(passes[k]));
        EXPECT(strstr(out, said), "%s: %s", pass_name(passes[k]), out);
    }
}

static int plan_status(const char *isa)
{
    const struct ogp_problem p = problem_of(text);
    const struct ogp_options options = {.size = sizeof options, .isa = isa};
    ogp_plan *plan = NULL;
    return (int)ogp_plan_create(&plan, &p, OGP_FORWARD, &options, NULL);
}

/* In a child too: the environment of this process has to stay unread. */
static int plan_runs(const char *isa)
{
    int status = -1;
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0)
        _exit(plan_status(isa));
    EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status), "fork");
    status = WEXITSTATUS(status);
    EXPECT(status == OGP_OK || status == OGP_NOT_APPLICABLE, "isa %s: %s", isa,
           ogp_status_text((enum ogp_status)status));
    return status == OGP_OK;
}

static void test_offer(void)
{
    EXPECT(plan_runs("baseline"), "the baseline runs everywhere");
#if defined(__x86_64__) && defined(__GNUC__)
    const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const int avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    EXPECT(plan_runs("avx2") == avx2, "avx2 on a CPU that has it: %d", avx2);
    EXPECT(plan_runs("wide") == (TEST_WIDE && avx2), "wide on a CPU that has AVX2: %d", avx2);
    EXPECT(plan_runs("avx512") == avx512, "avx512 on a CPU that has it: %d", avx512);
    EXPECT(!plan_runs("neon"), "neon here");
#elif defined(__aarch64__)
    EXPECT(plan_runs("neon"), "neon on a CPU that always has it");
    EXPECT(!plan_runs("avx2"), "avx2 here");
#endif
}

static void test_cap(void)
{
    char out[4000], best[4000];
    run_child(&(struct child){0}, best, sizeof best);
    run_child(&(struct child){.cap = "baseline"}, out, sizeof out);
    EXPECT(strstr(out, "baseline"), "capped to the baseline: %s", out);
    run_child(&(struct child){.cap = "nonesuch"}, out, sizeof out);
    EXPECT(strcmp(out, best) == 0, "an unknown cap caps nothing: %s", out);
    if (!plan_runs("avx2"))
        return;
    run_child(&(struct child){.cap = "avx2"}, out, sizeof out);
    EXPECT(strstr(out, "avx2") && !strstr(out, "avx512"), "capped to AVX2: %s", out);
    if (!plan_runs("avx512"))
        return;
    EXPECT(strstr(best, "avx512"), "the best of this CPU: %s", best);
    run_child(&(struct child){.cap = "baseline", .isa = "avx512"}, out, sizeof out);
    EXPECT(strstr(out, "avx512"), "an instruction set by name is not capped: %s", out);
}

int main(void)
{
    test_verbose();
    test_noise_stays_transformed();
    test_flat();
    test_cap();
    test_offer();
    return test_end("test_env");
}
