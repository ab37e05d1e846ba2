/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* dladdr, dl_iterate_phdr, RTLD_DEFAULT */
#include "_openmp.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* GCC's entry points; the runtimes of LLVM and Intel have them too. */
static struct {
    void (*parallel)(void (*body)(void *), void *arg, unsigned threads, unsigned flags);
    int (*thread_num)(void);
    int (*num_threads)(void);
    int (*in_parallel)(void);
} omp;

static bool looked_up, forked;

/* ---- looking the runtime up ---- */

static bool bind(void *library)
{
    *(void **)&omp.parallel = dlsym(library, "GOMP_parallel");
    *(void **)&omp.thread_num = dlsym(library, "omp_get_thread_num");
    *(void **)&omp.num_threads = dlsym(library, "omp_get_num_threads");
    *(void **)&omp.in_parallel = dlsym(library, "omp_in_parallel");
    if (omp.parallel && omp.thread_num && omp.num_threads && omp.in_parallel)
        return true;
    memset(&omp, 0, sizeof omp);
    return false;
}

static const char *base_name(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

struct search {
    const char *prefix;
    char path[PATH_MAX];
};

/* Only notes the path: opening a library from in here could deadlock with another thread that does. */
static int match(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct search *const s = arg;
    (void)size;
    if (strncmp(base_name(info->dlpi_name), s->prefix, strlen(s->prefix)) != 0 ||
        strlen(info->dlpi_name) >= sizeof s->path)
        return 0;
    strcpy(s->path, info->dlpi_name);
    return 1;
}

static bool bind_loaded(const char *prefix)
{
    struct search s = {.prefix = prefix};
    if (!dl_iterate_phdr(match, &s))
        return false;
    void *const library = dlopen(s.path, RTLD_LAZY | RTLD_NOLOAD);
    return library && bind(library);
}

/* Where the dynamic linker looked when torch was loaded: the global scope (a preloaded runtime), then torch and what it
 * depends on. A runtime by its name comes last. */
static void look_up(void)
{
    static const char *const prefixes[] = {"libtorch_cpu.", "libgomp", "libiomp5", "libomp"};
    if (looked_up)
        return;
    looked_up = true;
    if (bind(RTLD_DEFAULT))
        return;
    for (size_t k = 0; k < sizeof prefixes / sizeof prefixes[0]; k++)
        if (bind_loaded(prefixes[k]))
            return;
}

static bool use_openmp(void)
{
    if (forked)
        return false;
    look_up();
    return omp.parallel != NULL;
}

const char *threads_runtime(void)
{
    Dl_info info;
    if (!use_openmp())
        return "built-in";
    return dladdr(*(void **)&omp.parallel, &info) && info.dli_fname ? base_name(info.dli_fname) : "OpenMP";
}

/* ---- pools ---- */

struct region {
    void (*body)(void *arg, int worker);
    void *arg;
    int workers;
};

/* The runtime may give fewer threads than were asked for: each then takes several workers' parts. */
static void region_main(void *arg)
{
    const struct region *const r = arg;
    const int step = omp.num_threads();
    for (int worker = omp.thread_num(); worker < r->workers; worker += step)
        r->body(r->arg, worker);
}

struct entry {
    ogp_pool *pool;
    unsigned threads;
    bool openmp;
    struct entry *next;
};

/* Always a team of the full size, as torch does: a smaller one would make the runtime end threads and start them anew. */
static void parallel(void *host, int workers, void (*body)(void *arg, int worker), void *arg)
{
    const struct entry *const e = host;
    struct region r = {.body = body, .arg = arg, .workers = workers};
    omp.parallel(region_main, &r, e->threads, 0);
}

static enum ogp_status make(struct entry *e, struct ogp_error *error)
{
    if (e->openmp)
        return ogp_pool_from_callback(&e->pool, parallel, e, (int)e->threads, error);
    return ogp_pool_create(&e->pool, (int)e->threads, error);
}

enum ogp_status threads_pool(ogp_pool **pool, int64_t threads, struct ogp_error *error)
{
    static struct entry *entries; /* as many as there are thread counts in use; never freed */
    *pool = NULL;
    if (threads == 1)
        return OGP_OK;
    const bool openmp = use_openmp();
    if (openmp && omp.in_parallel())
        return OGP_OK;
    for (const struct entry *e = entries; e; e = e->next)
        if (e->threads == threads && e->openmp == openmp) {
            *pool = e->pool;
            return OGP_OK;
        }
    struct entry *const e = malloc(sizeof *e);
    if (!e)
        return OGP_NO_MEMORY;
    const int asked = threads < INT_MIN ? INT_MIN : threads > INT_MAX ? INT_MAX : (int)threads;
    *e = (struct entry){.threads = (unsigned)asked, .openmp = openmp, .next = entries};
    const enum ogp_status status = make(e, error);
    if (status != OGP_OK) {
        free(e);
        return status;
    }
    entries = e;
    *pool = e->pool;
    return OGP_OK;
}

void threads_after_fork(void)
{
    forked = true;
}
