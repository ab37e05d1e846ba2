/* SPDX-License-Identifier: Apache-2.0 */
#include "pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "error.h"
#include "util.h"

enum { MOST_THREADS = 4096 };

/* Children count the forks behind them: a pool made before has lost its threads and its locks' owners. */
static atomic_uint forks;
static pthread_once_t watch_once = PTHREAD_ONCE_INIT;

struct helper {
    struct ogp_pool *pool;
    pthread_t thread;
    int worker;
};

struct ogp_pool {
    int threads;
    ogp_parallel_fn *parallel; /* not NULL: the host's threads, and nothing below `owner` is used */
    void *host;
    atomic_uint owner; /* 0: idle; otherwise forks + 1 of the process whose execution holds it */

    unsigned generation;    /* forks + 1 of the process that started the helpers */
    int started;            /* helpers that run; -1: to be started */
    struct helper *helpers; /* threads - 1 */
    pthread_mutex_t lock;
    pthread_cond_t wake, done; /* guarded by lock, as all below */
    unsigned round;            /* changes when there is new work */
    bool quit;
    int workers, running; /* workers asked for in this round; helpers still in it */
    void (*body)(void *, int);
    void *arg;
};

static void count_fork(void)
{
    atomic_fetch_add(&forks, 1);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

static void *helper_main(void *arg)
{
    const struct helper *const h = arg;
    struct ogp_pool *const pool = h->pool;
    unsigned seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->round == seen && !pool->quit)
            pthread_cond_wait(&pool->wake, &pool->lock);
        if (pool->quit)
            break;
        seen = pool->round;
        if (h->worker >= pool->workers)
            continue;
        pthread_mutex_unlock(&pool->lock);
        pool->body(pool->arg, h->worker);
        pthread_mutex_lock(&pool->lock);
        if (--pool->running == 0)
            pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static void start_helpers(struct ogp_pool *pool)
{
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->round = 0;
    pool->quit = false;
    for (pool->started = 0; pool->started < pool->threads - 1; pool->started++) {
        struct helper *const h = &pool->helpers[pool->started];
        *h = (struct helper){.pool = pool, .worker = pool->started + 1};
        if (pthread_create(&h->thread, NULL, helper_main, h) != 0)
            break; /* fewer threads work */
    }
}

static void run_on_helpers(struct ogp_pool *pool, int workers, void (*body)(void *, int), void *arg)
{
    if (pool->started < 0)
        start_helpers(pool);
    pthread_mutex_lock(&pool->lock);
    pool->workers = workers;
    pool->running = (int)ogp_min(workers - 1, pool->started);
    pool->body = body;
    pool->arg = arg;
    pool->round++;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    body(arg, 0);
    pthread_mutex_lock(&pool->lock);
    while (pool->running > 0)
        pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

/* Takes the pool for one execution. An owner from before a fork does not exist here: its hold is void. */
static bool acquire(struct ogp_pool *pool)
{
    const unsigned mine = atomic_load(&forks) + 1;
    unsigned owner = atomic_load(&pool->owner);
    if (owner == mine || !atomic_compare_exchange_strong(&pool->owner, &owner, mine))
        return false;
    if (pool->generation != mine) {
        pool->generation = mine;
        pool->started = -1;
    }
    return true;
}

void ogp_pool_run(ogp_pool *pool, int workers, void (*body)(void *arg, int worker), void *arg)
{
    if (!pool || workers <= 1) {
        body(arg, 0);
        return;
    }
    if (!acquire(pool)) {
        body(arg, 0);
        return;
    }
    if (pool->parallel)
        pool->parallel(pool->host, workers, body, arg);
    else
        run_on_helpers(pool, workers, body, arg);
    atomic_store(&pool->owner, 0);
}

static enum ogp_status create(ogp_pool **out, int threads, ogp_parallel_fn *parallel, void *host,
                              struct ogp_error *error)
{
    if (!out)
        return ogp_fail(error, OGP_BAD_ARG, "pool: expected a pointer, got NULL");
    *out = NULL;
    if (threads < 1 || threads > MOST_THREADS)
        return ogp_fail(error, OGP_BAD_ARG, "threads: expected 1 to %d, got %d", MOST_THREADS, threads);
    pthread_once(&watch_once, watch_forks);
    struct ogp_pool *const pool = calloc(1, sizeof *pool);
    struct helper *const helpers = calloc((size_t)threads, sizeof *helpers);
    if (!pool || !helpers) {
        free(pool);
        free(helpers);
        return ogp_fail(error, OGP_NO_MEMORY, "pool: no memory for %d threads", threads);
    }
    pool->threads = threads;
    pool->parallel = parallel;
    pool->host = host;
    pool->helpers = helpers;
    pool->generation = atomic_load(&forks) + 1;
    atomic_init(&pool->owner, 0);
    if (!parallel)
        start_helpers(pool);
    *out = pool;
    return OGP_OK;
}

enum ogp_status ogp_pool_create(ogp_pool **pool, int threads, struct ogp_error *error)
{
    return create(pool, threads, NULL, NULL, error);
}

enum ogp_status ogp_pool_from_callback(ogp_pool **pool, ogp_parallel_fn *parallel, void *host, int threads,
                                       struct ogp_error *error)
{
    if (!parallel)
        return ogp_fail(error, OGP_BAD_ARG, "parallel: expected a function, got NULL");
    return create(pool, threads, parallel, host, error);
}

int ogp_pool_threads(const ogp_pool *pool)
{
    return pool ? pool->threads : 1;
}

static void stop_helpers(struct ogp_pool *pool)
{
    if (pool->started < 0 || pool->generation != atomic_load(&forks) + 1)
        return; /* they were the parent's */
    pthread_mutex_lock(&pool->lock);
    pool->quit = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int h = 0; h < pool->started; h++)
        pthread_join(pool->helpers[h].thread, NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
}

void ogp_pool_destroy(ogp_pool *pool)
{
    if (!pool)
        return;
    if (!pool->parallel)
        stop_helpers(pool);
    free(pool->helpers);
    free(pool);
}
