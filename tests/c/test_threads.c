/* SPDX-License-Identifier: Apache-2.0 */
/* Threads: any pool gives the bits of the serial run; pools are shared, forked, lent by a host, cancelled, outnumbered.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testlib.h"

/* ThreadSanitizer knows no threads after a fork. */
#if defined(__SANITIZE_THREAD__)
enum { FORK_WORKS = 0 };
#elif defined(__has_feature)
enum { FORK_WORKS = !__has_feature(thread_sanitizer) };
#else
enum { FORK_WORKS = 1 };
#endif

/* Big enough to be split, of every pass. */
static const char *const texts[] = {"g4 ci4 co4 i40x41x67 k5 p2", "n2 ci8 co6 i30x31x40 k3 p1",
                                    "f64 g2 ci2 co2 i28x29x35 k5 p2 reflect"};
enum { TEXTS = sizeof texts / sizeof *texts };

/* A plan with operands of its own and the bits that it must give. */
struct job {
    struct ogp_problem problem;
    enum ogp_pass pass;
    struct operands ops;
    ogp_plan *plan;
    size_t bytes;
    void *expected;
    struct scratch scratch;
    ogp_pool *pool;
    atomic_int wrong;
};

static size_t output_bytes(const struct job *j)
{
    return (size_t)tensor_count(&j->ops.out[0]) * tensor_item(&j->ops.out[0]);
}

static enum ogp_status job_run(struct job *j, ogp_pool *pool, int (*poll)(void *), void *poll_arg)
{
    const struct ogp_run run = {.size = sizeof run,
                                .workspace = j->scratch.data,
                                .workspace_bytes = j->scratch.bytes,
                                .pool = pool,
                                .poll = poll,
                                .poll_arg = poll_arg};
    tensor_set_all(&j->ops.out[0], 12345);
    return run_pass(j->plan, j->pass, &j->ops, &run, NULL);
}

static int job_right(const struct job *j)
{
    void *bits = test_alloc(output_bytes(j));
    tensor_bits(&j->ops.out[0], bits);
    const int right = memcmp(bits, j->expected, output_bytes(j)) == 0;
    free(bits);
    return right;
}

static void job_make(struct job *j, const char *text, enum ogp_pass pass)
{
    memset(j, 0, sizeof *j);
    j->problem = problem_of(text);
    j->pass = pass;
    operands_make(&j->ops, &j->problem, pass, 0, NULL, FILL_UNIFORM, 7);
    if (!EXPECT(ogp_plan_create(&j->plan, &j->problem, pass, NULL, NULL) == OGP_OK, "plan of \"%s\"", text))
        exit(1);
    j->scratch = scratch_make(ogp_plan_workspace_bytes(j->plan, 64));
    j->expected = test_alloc(output_bytes(j));
    EXPECT(job_run(j, NULL, NULL, NULL) == OGP_OK, "serial run of \"%s\"", text);
    tensor_bits(&j->ops.out[0], j->expected);
}

static void job_free(struct job *j)
{
    free(j->expected);
    scratch_free(&j->scratch);
    ogp_plan_destroy(j->plan);
    operands_free(&j->ops);
}

static ogp_pool *pool_of(int threads)
{
    ogp_pool *pool = NULL;
    EXPECT(ogp_pool_create(&pool, threads, NULL) == OGP_OK, "pool of %d", threads);
    return pool;
}

/* ---- sizes of pools ---- */

static void test_sizes(void)
{
    static const int sizes[] = {1, 2, 3, 5, 7, 64};
    for (int t = 0; t < TEXTS; t++)
        for (int pass = OGP_FORWARD; pass <= OGP_GRAD_BIAS; pass++) {
            struct job j;
            job_make(&j, texts[t], (enum ogp_pass)pass);
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                ogp_pool *pool = pool_of(sizes[s]);
                for (int again = 0; again < 3; again++)
                    EXPECT(job_run(&j, pool, NULL, NULL) == OGP_OK && job_right(&j), "%s \"%s\" on %d threads",
                           pass_name(j.pass), texts[t], sizes[s]);
                ogp_pool_destroy(pool);
            }
            job_free(&j);
        }
}

static void test_create_destroy(void)
{
    struct job j;
    job_make(&j, "g2 ci2 co2 i3x4x5 k3 p1", OGP_FORWARD); /* less work than threads */
    for (int i = 0; i < 50; i++) {
        ogp_pool *pool = pool_of(1 + i % 9);
        if (i % 3)
            EXPECT(job_run(&j, pool, NULL, NULL) == OGP_OK && job_right(&j), "pool %d", i);
        ogp_pool_destroy(pool);
    }
    job_free(&j);
}

/* ---- many callers ---- */

static void *run_many(void *arg)
{
    struct job *j = arg;
    for (int i = 0; i < 25; i++)
        if (job_run(j, j->pool, NULL, NULL) != OGP_OK || !job_right(j))
            j->wrong++;
    return NULL;
}

/* Callers with different plans on one pool: one finds it busy now and then. */
static void test_shared(ogp_pool *pool)
{
    struct job jobs[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        job_make(&jobs[i], texts[i % TEXTS], (enum ogp_pass)(i % 3));
        jobs[i].pool = pool;
    }
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, run_many, &jobs[i]);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        EXPECT(jobs[i].wrong == 0, "caller %d of a shared pool: %d wrong results", i, jobs[i].wrong);
        job_free(&jobs[i]);
    }
}

/* One plan, many executions at once. */
static void test_one_plan(void)
{
    struct job first, jobs[3];
    pthread_t threads[3];
    job_make(&first, texts[0], OGP_GRAD_WEIGHT);
    for (int i = 0; i < 3; i++) {
        job_make(&jobs[i], texts[0], OGP_GRAD_WEIGHT);
        ogp_plan_destroy(jobs[i].plan);
        jobs[i].plan = first.plan;
    }
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, run_many, &jobs[i]);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        EXPECT(jobs[i].wrong == 0, "execution %d of a shared plan: %d wrong results", i, jobs[i].wrong);
        jobs[i].plan = NULL;
        job_free(&jobs[i]);
    }
    job_free(&first);
}

/* ---- fork ---- */

static int in_child(struct job *j, ogp_pool *old)
{
    alarm(60);
    int wrong = 0;
    for (int i = 0; i < 3; i++)
        wrong += job_run(j, old, NULL, NULL) != OGP_OK || !job_right(j);
    ogp_pool *fresh = NULL;
    wrong += ogp_pool_create(&fresh, 3, NULL) != OGP_OK;
    wrong += job_run(j, fresh, NULL, NULL) != OGP_OK || !job_right(j);
    ogp_pool_destroy(fresh);
    ogp_pool_destroy(old);
    return wrong;
}

/* A convolution here, then one in the child of a fork, on the pool that has lost its threads. */
static void test_fork(int used_before)
{
    struct job j;
    job_make(&j, texts[0], OGP_GRAD_INPUT);
    ogp_pool *pool = pool_of(3);
    if (used_before)
        EXPECT(job_run(&j, pool, NULL, NULL) == OGP_OK, "before the fork");
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        _exit(in_child(&j, pool));
    int status = -1;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child, "fork");
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with status %#x", (unsigned)status);
    EXPECT(job_run(&j, pool, NULL, NULL) == OGP_OK && job_right(&j), "the parent after the fork");
    ogp_pool_destroy(pool);
    job_free(&j);
}

/* ---- a host's threads ---- */

struct host {
    int calls, most;
    int depth, nested; /* calls within calls */
};

static void host_serial(void *arg, int workers, void (*body)(void *arg, int worker), void *body_arg)
{
    struct host *h = arg;
    h->calls++;
    h->most = workers > h->most ? workers : h->most;
    h->nested += h->depth++ > 0;
    for (int w = workers - 1; w >= 0; w--)
        body(body_arg, w);
    h->depth--;
}

struct host_task {
    void (*body)(void *, int);
    void *arg;
    int worker;
};

static void *host_thread(void *arg)
{
    const struct host_task *t = arg;
    t->body(t->arg, t->worker);
    return NULL;
}

static void host_threads(void *arg, int workers, void (*body)(void *arg, int worker), void *body_arg)
{
    struct host_task tasks[64];
    pthread_t threads[64];
    (void)arg;
    for (int w = 0; w < workers; w++) {
        tasks[w] = (struct host_task){body, body_arg, w};
        pthread_create(&threads[w], NULL, host_thread, &tasks[w]);
    }
    for (int w = 0; w < workers; w++)
        pthread_join(threads[w], NULL);
}

static void test_host(void)
{
    for (int t = 0; t < TEXTS; t++)
        for (int pass = OGP_FORWARD; pass <= OGP_GRAD_WEIGHT; pass++) {
            struct job j;
            struct host h = {0};
            ogp_pool *serial = NULL, *threaded = NULL;
            job_make(&j, texts[t], (enum ogp_pass)pass);
            EXPECT(ogp_pool_from_callback(&serial, host_serial, &h, 4, NULL) == OGP_OK, "host pool");
            EXPECT(ogp_pool_from_callback(&threaded, host_threads, NULL, 5, NULL) == OGP_OK, "host pool");
            EXPECT(job_run(&j, serial, NULL, NULL) == OGP_OK && job_right(&j), "on a host's loop");
            EXPECT(h.calls > 0 && h.most > 1 && h.most <= 4,
                   "%s \"%s\": the host was called %d times with up to %d workers", pass_name(j.pass), texts[t],
                   h.calls, h.most);
            EXPECT(job_run(&j, threaded, NULL, NULL) == OGP_OK && job_right(&j), "on a host's threads");
            ogp_pool_destroy(serial);
            ogp_pool_destroy(threaded);
            job_free(&j);
        }
}

/* A tiny problem wakes nobody. */
static void test_tiny(void)
{
    for (int pass = OGP_FORWARD; pass <= OGP_GRAD_BIAS; pass++) {
        struct job j;
        struct host h = {0};
        ogp_pool *pool = NULL;
        job_make(&j, "i4 k3", (enum ogp_pass)pass);
        EXPECT(ogp_pool_from_callback(&pool, host_serial, &h, 8, NULL) == OGP_OK, "host pool");
        EXPECT(job_run(&j, pool, NULL, NULL) == OGP_OK && job_right(&j), "tiny");
        EXPECT(h.most <= 1, "%s of a tiny problem took %d workers", pass_name(j.pass), h.most);
        ogp_pool_destroy(pool);
        job_free(&j);
    }
}

/* ---- polling ---- */

struct poll {
    int calls, stop_after, elsewhere;
    pthread_t caller;
};

static int poll_count(void *arg)
{
    struct poll *p = arg;
    p->calls++;
    p->elsewhere += !pthread_equal(pthread_self(), p->caller);
    return p->stop_after && p->calls >= p->stop_after;
}

static void test_poll(ogp_pool *pool, const char *text)
{
    for (int pass = OGP_FORWARD; pass <= OGP_GRAD_WEIGHT; pass++) {
        struct job j;
        job_make(&j, text, (enum ogp_pass)pass);
        struct poll p = {.caller = pthread_self()};
        EXPECT(job_run(&j, pool, poll_count, &p) == OGP_OK && job_right(&j), "%s polled", pass_name(j.pass));
        EXPECT(p.calls > 0 && p.elsewhere == 0, "%s: %d polls, %d on other threads", pass_name(j.pass), p.calls,
               p.elsewhere);
        const int all = p.calls;
        for (int stop = 1; stop <= all; stop += 1 + all / 3) {
            p = (struct poll){.caller = pthread_self(), .stop_after = stop};
            const enum ogp_status status = job_run(&j, pool, poll_count, &p);
            EXPECT(status == OGP_CANCELLED || (pool && p.calls < stop), "%s cancelled at poll %d of %d: %s",
                   pass_name(j.pass), stop, all, ogp_status_text(status));
            EXPECT(p.calls <= stop, "%s was polled again after it was cancelled", pass_name(j.pass));
        }
        EXPECT(job_run(&j, pool, NULL, NULL) == OGP_OK && job_right(&j), "%s after cancelling", pass_name(j.pass));
        job_free(&j);
    }
}

struct nested {
    struct job *job;
    ogp_pool *pool;
    int runs, wrong;
};

static int poll_nested(void *arg)
{
    struct nested *n = arg;
    if (n->runs++ < 2)
        n->wrong += job_run(n->job, n->pool, NULL, NULL) != OGP_OK || !job_right(n->job);
    return 0;
}

/* An execution on a pool that is busy with the execution around it. */
static void test_nested(ogp_pool *pool)
{
    struct job outer, inner;
    job_make(&outer, texts[0], OGP_FORWARD);
    job_make(&inner, texts[1], OGP_GRAD_WEIGHT);
    struct nested n = {.job = &inner, .pool = pool};
    EXPECT(job_run(&outer, pool, poll_nested, &n) == OGP_OK && job_right(&outer), "the outer execution");
    EXPECT(n.runs > 0 && n.wrong == 0, "%d inner executions, %d wrong", n.runs, n.wrong);
    job_free(&outer);
    job_free(&inner);
}

/* The same on a host's pool, which sees that the inner execution leaves it alone. */
static void test_nested_host(void)
{
    struct host h = {0};
    ogp_pool *pool = NULL;
    EXPECT(ogp_pool_from_callback(&pool, host_serial, &h, 4, NULL) == OGP_OK, "host pool");
    test_nested(pool);
    EXPECT(h.calls > 0 && h.nested == 0, "%d calls of the host, %d of them nested", h.calls, h.nested);
    ogp_pool_destroy(pool);
}

/* Layers of a millisecond are not left to one thread. */
static void test_small_layers(void)
{
    static const char *const layers[] = {"ci64 co64 i8 k3 p1", "ci320 co320 i4 k3 p1", "ci512 co1024 i4 k1",
                                         "ci16 co16 i8 k7 p3", "ci8 co8 i16 k5 p2"};
    for (size_t k = 0; k < sizeof layers / sizeof *layers; k++)
        for (int pass = OGP_FORWARD; pass <= OGP_GRAD_WEIGHT; pass++) {
            const struct ogp_problem p = problem_of(layers[k]);
            ogp_plan *plan = NULL;
            char line[1024] = "";
            EXPECT(ogp_plan_create(&plan, &p, (enum ogp_pass)pass, NULL, NULL) == OGP_OK, "no plan");
            ogp_plan_describe(plan, line, sizeof line);
            const char *const tasks = strstr(line, " tasks ");
            EXPECT(tasks && atoi(tasks + 7) >= 4, "%s", line);
            ogp_plan_destroy(plan);
        }
}

int main(void)
{
    ogp_pool *pool = pool_of(3);
    test_sizes();
    test_create_destroy();
    test_shared(pool);
    test_shared(NULL);
    test_one_plan();
    test_host();
    test_tiny();
    test_small_layers();
    test_poll(NULL, texts[0]);
    test_poll(pool, texts[0]);
    test_poll(NULL, texts[2]);
    test_nested(pool);
    test_nested_host();
    ogp_pool_destroy(pool);
    if (FORK_WORKS) {
        test_fork(0);
        test_fork(1);
    }
    return test_end("test_threads");
}
