/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: creation survives every failing allocation, execution never allocates, and the resident peak is the tensors
 * plus the limit. Linked with --wrap, so that the library's calls of malloc and friends come here first.
 * `test_memory --full` takes the double precision volume of real work. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testlib.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#endif

/* ---- the allocator, watched ---- */

static atomic_int allocations, live, fail_at; /* fail_at: the allocation that fails, counted from 1; 0: none */
static atomic_int starts, fail_starts_from;   /* pthread_create likewise: this one and all later ones */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
int __real_posix_memalign(void **memory, size_t align, size_t bytes);
void __real_free(void *memory);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *), void *arg);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t align, size_t bytes);
void __wrap_free(void *memory);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *), void *arg);

static int fails(void)
{
    return ++allocations == fail_at;
}

static void *counted(void *memory)
{
    live += memory != NULL;
    return memory;
}

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : counted(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : counted(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    if (fails())
        return NULL;
    const int fresh = !memory;
    void *moved = __real_realloc(memory, bytes);
    live += fresh && moved;
    return moved;
}

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    return fails() ? NULL : counted(__real_aligned_alloc(align, bytes));
}

int __wrap_posix_memalign(void **memory, size_t align, size_t bytes)
{
    if (fails())
        return ENOMEM;
    const int status = __real_posix_memalign(memory, align, bytes);
    live += status == 0;
    return status;
}

void __wrap_free(void *memory)
{
    live -= memory != NULL;
    __real_free(memory);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *), void *arg)
{
    return fail_starts_from && ++starts >= fail_starts_from ? EAGAIN : __real_pthread_create(thread, attr, main, arg);
}

/* ---- creation ---- */

static const char *const texts[] = {"g2 ci2 co2 i8x9x20 k7 p3", "ci4 co6 i6x7x18 k3 s2 p1 circular", "f64 i5 k3 l2"};
enum { TEXTS = sizeof texts / sizeof *texts };

/* Fails allocation 1, 2, ... until creation succeeds: no memory, no plan, no leak. */
static void test_plan(const char *text, enum ogp_pass pass, const char *config)
{
    const struct ogp_problem p = problem_of(text);
    const struct ogp_options options = {.size = sizeof options, .config = config};
    struct ogp_error error = {.size = sizeof error};
    for (int n = 1; n < 1000; n++) {
        ogp_plan *plan = NULL;
        const int before = live;
        allocations = 0;
        fail_at = n;
        const enum ogp_status status = ogp_plan_create(&plan, &p, pass, &options, &error);
        fail_at = 0;
        if (status == OGP_NOT_APPLICABLE)
            return;
        if (status == OGP_OK) {
            EXPECT(n > 1, "a plan takes memory: the allocator is not watched");
            ogp_plan_destroy(plan);
            EXPECT(live == before, "%s \"%s\": destroy leaves %d allocations", pass_name(pass), text, live - before);
            return;
        }
        EXPECT(status == OGP_NO_MEMORY && !plan && *error.text, "%s \"%s\", allocation %d fails: %s", pass_name(pass),
               text, n, ogp_status_text(status));
        EXPECT(live == before, "%s \"%s\", allocation %d fails: %d leak", pass_name(pass), text, n, live - before);
    }
    test_fail("%s \"%s\" never succeeds", pass_name(pass), text);
}

static void test_pool(void)
{
    for (int n = 1; n < 1000; n++) {
        ogp_pool *pool = NULL;
        const int before = live;
        allocations = 0;
        fail_at = n;
        const enum ogp_status status = ogp_pool_create(&pool, 4, NULL);
        fail_at = 0;
        if (status == OGP_OK) {
            EXPECT(n > 1, "a pool takes memory: the allocator is not watched");
            ogp_pool_destroy(pool);
            EXPECT(live == before, "a destroyed pool leaves %d allocations", live - before);
            return;
        }
        EXPECT(status == OGP_NO_MEMORY && !pool, "allocation %d of a pool fails: %s", n, ogp_status_text(status));
        EXPECT(live == before, "allocation %d of a pool fails: %d leak", n, live - before);
    }
    test_fail("the pool never succeeds");
}

/* ---- execution ---- */

static unsigned char *bits_of(const struct tensor *t)
{
    unsigned char *bits = test_alloc((size_t)tensor_count(t) * tensor_item(t));
    tensor_bits(t, bits);
    return bits;
}

/* Where the system gives fewer threads, or none, fewer work: the same bits. */
static void test_few_threads(int given)
{
    const struct ogp_problem p = problem_of("g4 ci4 co4 i24x25x40 k3 p1");
    struct operands ops;
    ogp_pool *pool = NULL;
    operands_make(&ops, &p, OGP_FORWARD, 0, NULL, FILL_UNIFORM, 3);
    compute(&p, OGP_FORWARD, NULL, &ops, NULL);
    unsigned char *expected = bits_of(&ops.out[0]);
    starts = 0;
    fail_starts_from = given + 1;
    EXPECT(ogp_pool_create(&pool, 5, NULL) == OGP_OK, "a pool that is given %d of 4 threads", given);
    tensor_set_all(&ops.out[0], 0);
    compute(&p, OGP_FORWARD, NULL, &ops, pool);
    fail_starts_from = 0;
    unsigned char *got = bits_of(&ops.out[0]);
    EXPECT(memcmp(expected, got, (size_t)tensor_count(&ops.out[0]) * tensor_item(&ops.out[0])) == 0, "%d threads given",
           given);
    ogp_pool_destroy(pool);
    free(expected);
    free(got);
    operands_free(&ops);
}

static void test_execution(const char *text, enum ogp_pass pass, const char *config, ogp_pool *pool)
{
    const struct ogp_problem p = problem_of(text);
    const struct ogp_options options = {.size = sizeof options, .config = config};
    struct operands ops;
    ogp_plan *plan = NULL;
    if (ogp_plan_create(&plan, &p, pass, &options, NULL) == OGP_NOT_APPLICABLE)
        return;
    operands_make(&ops, &p, pass, 1, NULL, FILL_UNIFORM, 3);
    struct ogp_run run = {.size = sizeof run, .pool = pool};
    run.workspace_bytes = ogp_plan_workspace_bytes(plan, ogp_pool_threads(pool));
    run.workspace = test_alloc(run.workspace_bytes);
    const int before = allocations;
    const enum ogp_status status = run_pass(plan, pass, &ops, &run, NULL);
    EXPECT(status == OGP_OK && allocations == before, "%s \"%s\": an execution allocates %d times (%s)",
           pass_name(pass), text, allocations - before, ogp_status_text(status));
    free(run.workspace);
    ogp_plan_destroy(plan);
    operands_free(&ops);
}

/* ---- the resident peak ---- */

static int64_t peak_bytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (int64_t)usage.ru_maxrss * 1024;
}

static int64_t tensor_bytes(const struct operands *ops)
{
    int64_t bytes = 0;
    for (int i = 0; i < 3; i++)
        bytes += (int64_t)ops->in[i].bytes;
    return bytes + (int64_t)ops->out[0].bytes + (int64_t)ops->out[1].bytes;
}

/* In a process of its own: how far the peak goes above the tensors. */
static int64_t measure(const char *text, enum ogp_pass pass, int64_t limit)
{
    const struct ogp_problem p = problem_of(text);
    const struct ogp_options options = {.size = sizeof options, .workspace_limit = limit};
    struct operands ops;
    const int64_t before = peak_bytes();
    operands_make(&ops, &p, pass, 1, NULL, FILL_UNIFORM, 3);
    ogp_pool *pool = NULL;
    ogp_pool_create(&pool, 2, NULL);
    compute(&p, pass, &options, &ops, pool);
    return peak_bytes() - before - tensor_bytes(&ops);
}

static void test_peak(const char *text, enum ogp_pass pass, int64_t limit, int64_t allowed)
{
    int ends[2];
    int64_t above = INT64_MAX;
    fflush(stdout);
    if (!EXPECT(pipe(ends) == 0, "pipe"))
        return;
    const pid_t child = fork();
    if (child == 0) {
        above = measure(text, pass, limit);
        _exit(write(ends[1], &above, sizeof above) != sizeof above || test_failures() != 0);
    }
    int status = -1;
    const ssize_t got = read(ends[0], &above, sizeof above);
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0 && got == sizeof above,
           "%s \"%s\": status %d", pass_name(pass), text, status);
    close(ends[0]);
    close(ends[1]);
    printf("  %-12s %-40s %7.1f MiB above its tensors\n", pass_name(pass), text, (double)above / 0x1p20);
    EXPECT(above <= allowed, "%s \"%s\": %" PRId64 " bytes above its tensors, allowed %" PRId64, pass_name(pass), text,
           above, allowed);
}

int main(int argc, char **argv)
{
#ifdef UNDER_ASAN /* its shadow and quarantine are resident too */
    (void)argc, (void)argv, (void)test_peak;
#else
    const int64_t mib = (int64_t)1 << 20;
    const int full = argc > 1 && strcmp(argv[1], "--full") == 0;
    for (int pass = OGP_FORWARD; pass <= OGP_GRAD_BIAS;
         pass++) { /* first: a fork keeps what the parent has in memory */
        if (full)
            test_peak("f64 g7 ci7 co7 i296x296x168 k7 p3", (enum ogp_pass)pass, 0, 128 * mib);
        else
            test_peak("f64 g2 ci2 co2 i80x80x100 k7 p3", (enum ogp_pass)pass, 4 * mib, 4 * mib + 4 * mib);
    }
#endif
    ogp_pool *pool = NULL;
    EXPECT(ogp_pool_create(&pool, 3, NULL) == OGP_OK, "pool");
    for (int t = 0; t < TEXTS; t++)
        for (int pass = OGP_FORWARD; pass <= OGP_GRAD_BIAS; pass++)
            for (int c = 0; c < config_count; c++) {
                test_plan(texts[t], (enum ogp_pass)pass, config_names[c]);
                test_execution(texts[t], (enum ogp_pass)pass, config_names[c], NULL);
                test_execution(texts[t], (enum ogp_pass)pass, config_names[c], pool);
            }
    ogp_pool_destroy(pool);
    test_pool();
    for (int given = 0; given <= 4; given++)
        test_few_threads(given);
    return test_end("test_memory");
}
