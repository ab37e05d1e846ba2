/* SPDX-License-Identifier: Apache-2.0 */
/* A task is a block of channels and one of the plan's splits of batch and space. Its sums run in double; splits are
 * added in ascending order, so the result does not depend on who computed which. */
#include "reduce.h"

#include <string.h>

#include "arena.h"
#include "tiling.h"
#include "util.h"

enum { MOST_SPLITS = 64, WANTED_TASKS = 96 };

static int64_t kernel_taps(const struct problem *p)
{
    return p->axis[0].k * p->axis[1].k * p->axis[2].k;
}

/* Channels in: at least one block, so that the bias gradient has a task where there are none. */
static int64_t in_blocks(const struct ogp_plan *plan, const struct tiling *t)
{
    return ogp_max(1, ogp_ceil_div(plan->problem.ci_g, t->in_channels));
}

static int64_t out_blocks(const struct ogp_plan *plan, const struct tiling *t)
{
    return ogp_ceil_div(plan->problem.co_g, t->out_channels);
}

/* How many tasks share a block of channels and a split: one sums all pieces, or each its own. */
static int64_t piece_tasks(const struct ogp_plan *plan, const struct tiling *t)
{
    int64_t count = 1;
    for (int a = 0; a < 3 && !t->all_pieces; a++)
        count *= ogp_piece_count(&plan->lattice[a], t->taps[a]);
    return count;
}

static int64_t tile_count(const struct ogp_plan *plan, const struct tiling *t)
{
    int64_t count = plan->problem.n;
    for (int a = 0; a < 3; a++)
        count *= ogp_span_count(&plan->lattice[a], true, t->out[a]);
    return count;
}

/* ---- workspace ---- */

struct partials {
    double *w; /* [split][co][ci of the group][tap]; NULL where there is one split */
    double *b; /* [split][co] */
};

static struct partials carve_shared(struct arena *a, const struct ogp_plan *plan, int64_t splits)
{
    const struct problem *const p = &plan->problem;
    struct partials s = {0};
    if (splits > 1)
        s.w = arena_take(a, (size_t)(splits * p->co * p->ci_g * kernel_taps(p)) * sizeof(double));
    s.b = arena_take(a, (size_t)(splits * p->co) * sizeof(double));
    return s;
}

struct scratch {
    char *x, *gy;
    double *sum;
};

/* Sums that a task keeps for a pair of channels. */
static int64_t channel_taps(const struct ogp_plan *plan, const struct tiling *t)
{
    return t->all_pieces ? kernel_taps(&plan->problem) : t->taps[0] * t->taps[1] * t->taps[2];
}

static struct scratch carve(struct arena *a, const struct ogp_plan *plan, const struct tiling *t,
                            const struct product *p)
{
    const size_t bytes = (size_t)ogp_dtype_bytes(plan->problem.dtype);
    struct scratch s;
    s.x = arena_take(a, (size_t)ogp_block_elements(&p->x) * bytes);
    s.gy = arena_take(a, (size_t)ogp_block_elements(&p->y) * bytes);
    s.sum = arena_take(a, (size_t)(t->in_channels * t->out_channels * channel_taps(plan, t)) * sizeof(double));
    return s;
}

/* ---- one task ---- */

struct task {
    const struct job *job;
    const struct ogp_plan *plan;
    struct scratch scratch;
    int64_t group, co, ci, channels_out, channels_in; /* first channels, within the group, and how many */
    int64_t split, piece;                             /* piece -1: all */
    double *bias;                                     /* sums of gy of channels_out channels, or NULL */
};

/* A piece as three indices into its axes' pieces; false past the last. */
static bool piece_at(const struct task *task, int64_t at, struct piece piece[3])
{
    for (int a = 2; a >= 0; a--) {
        const struct lattice *const lat = &task->plan->lattice[a];
        const int64_t most = task->plan->tiling.taps[a], count = ogp_piece_count(lat, most);
        piece[a] = ogp_piece_at(lat, most, at % count);
        at /= count;
    }
    return at == 0;
}

static void add_piece(const struct task *task, int64_t n, const struct span span[3], const int64_t out[3],
                      const struct piece piece[3])
{
    const struct ogp_plan *const plan = task->plan;
    const struct problem *const pr = &plan->problem;
    const int64_t bytes = ogp_dtype_bytes(pr->dtype), taps[3] = {piece[0].taps, piece[1].taps, piece[2].taps};
    const struct product p = ogp_product(plan, out, taps, task->channels_in, task->channels_out);
    struct sampling sampling[3];
    for (int a = 0; a < 3; a++)
        sampling[a] = (struct sampling){piece[a].in0 + span[a].start * pr->axis[a].s, piece[a].in_step, p.x.extent[a],
                                        pr->axis[a].i, pr->padding};
    struct volume x = task->job->x;
    x.data += (n * x.n + (task->group * pr->ci_g + task->ci) * x.c) * bytes;
    ogp_pack(plan, task->scratch.x, &p.x, &x, sampling);

    int64_t tap[3] = {p.taps[1] * p.taps[2], p.taps[2], 1};
    double *sum = task->scratch.sum;
    if (plan->tiling.all_pieces) { /* taps at their places in the whole kernel */
        int64_t step = 1;
        for (int a = 2; a >= 0; a--) {
            sum += piece[a].tap0 * step;
            tap[a] = piece[a].tap_step * step;
            step *= pr->axis[a].k;
        }
    }
    ogp_reduce_block(plan, &p, sum, channel_taps(plan, &plan->tiling), tap, task->scratch.gy, task->scratch.x);
}

static void add_bias(const struct task *task, const struct block *gy)
{
    const int64_t bytes = ogp_dtype_bytes(task->plan->problem.dtype);
    for (int64_t c = 0; c < gy->channels; c++)
        for (int64_t d = 0; d < gy->extent[0]; d++)
            for (int64_t h = 0; h < gy->extent[1]; h++)
                task->bias[c] += task->plan->kernels->sum(
                    task->scratch.gy + (c * gy->channel + d * gy->plane + h * gy->row) * bytes, 1, gy->extent[2]);
}

static void add_tile(const struct task *task, int64_t at)
{
    static const int64_t one_tap[3] = {1, 1, 1};
    const struct ogp_plan *const plan = task->plan;
    const struct problem *const pr = &plan->problem;
    struct span span[3];
    struct sampling sampling[3];
    int64_t out[3];
    for (int a = 2; a >= 0; a--) {
        const int64_t spans = ogp_span_count(&plan->lattice[a], true, plan->tiling.out[a]);
        span[a] = ogp_span_at(&plan->lattice[a], true, plan->tiling.out[a], at % spans);
        at /= spans;
        if (span[a].count == 0)
            return;
        out[a] = span[a].count;
        sampling[a] = (struct sampling){span[a].start, span[a].step, span[a].count, pr->axis[a].o, OGP_ZEROS};
    }
    const struct block block = ogp_product(plan, out, one_tap, task->channels_in, task->channels_out).y;
    struct volume gy = task->job->y;
    gy.data += (at * gy.n + (task->group * pr->co_g + task->co) * gy.c) * ogp_dtype_bytes(pr->dtype);
    ogp_pack(plan, task->scratch.gy, &block, &gy, sampling);
    if (task->bias)
        add_bias(task, &block);
    if (task->channels_in == 0)
        return;
    struct piece piece[3];
    for (int64_t k = task->piece < 0 ? 0 : task->piece; piece_at(task, k, piece); k++) {
        add_piece(task, at, span, out, piece);
        if (task->piece >= 0)
            break;
    }
}

/* Sums of one tap of one pair of channels to their place: the partials, or the output itself. */
static void put_taps(const struct job *job, const double *partial_sums, int64_t co, int64_t ci,
                     const struct piece piece[3])
{
    const int64_t bytes = ogp_dtype_bytes(job->plan->problem.dtype);
    for (int64_t d = 0; d < piece[0].taps; d++)
        for (int64_t h = 0; h < piece[1].taps; h++) {
            const int64_t at = co * job->w.co + ci * job->w.ci +
                               (piece[0].tap0 + piece[0].tap_step * d) * job->w.axis[0] +
                               (piece[1].tap0 + piece[1].tap_step * h) * job->w.axis[1] +
                               piece[2].tap0 * job->w.axis[2];
            job->plan->kernels->scatter_f64(job->w.data + at * bytes,
                                            piece[2].taps > 1 ? piece[2].tap_step * job->w.axis[2] : 1,
                                            partial_sums + (d * piece[1].taps + h) * piece[2].taps, piece[2].taps,
                                            job->accumulate);
        }
}

/* The whole kernel as one piece. */
static void whole_kernel(const struct problem *p, struct piece piece[3])
{
    for (int a = 0; a < 3; a++)
        piece[a] = (struct piece){.tap_step = 1, .taps = p->axis[a].k};
}

/* Copies the sums of a piece, which are dense, into the whole kernel of a partial. */
static void copy_taps(double *out, const double *in, const struct problem *p, const struct piece piece[3])
{
    for (int64_t d = 0; d < piece[0].taps; d++)
        for (int64_t h = 0; h < piece[1].taps; h++)
            for (int64_t w = 0; w < piece[2].taps; w++)
                out[((piece[0].tap0 + piece[0].tap_step * d) * p->axis[1].k + piece[1].tap0 + piece[1].tap_step * h) *
                        p->axis[2].k +
                    piece[2].tap0 + piece[2].tap_step * w] = *in++;
}

static void put_sums(const struct task *task, double *partial)
{
    const struct problem *const p = &task->plan->problem;
    struct piece piece[3];
    if (task->piece < 0)
        whole_kernel(p, piece);
    else
        piece_at(task, task->piece, piece);
    /* dense within the task's own taps, whose count may be that of a smaller chunk */
    const int64_t each = channel_taps(task->plan, &task->plan->tiling);
    for (int64_t co = 0; co < task->channels_out; co++)
        for (int64_t ci = 0; ci < task->channels_in; ci++) {
            const double *const sum = task->scratch.sum + (co * task->channels_in + ci) * each;
            const int64_t to_co = task->group * p->co_g + task->co + co, to_ci = task->ci + ci;
            if (partial)
                copy_taps(partial + ((task->split * p->co + to_co) * p->ci_g + to_ci) * kernel_taps(p), sum, p, piece);
            else
                put_taps(task->job, sum, to_co, to_ci, piece);
        }
}

static void run_task(const struct job *job, int64_t at, int worker)
{
    const struct ogp_plan *const plan = job->plan;
    const struct tiling *const t = &plan->tiling;
    struct arena shared = {.base = job->shared}, arena = {.base = ogp_job_scratch(job, worker)};
    const struct partials partials = carve_shared(&shared, plan, t->splits);
    const struct product largest = ogp_largest_product(plan, t);
    struct task task = {.job = job, .plan = plan, .scratch = carve(&arena, plan, t, &largest)};
    task.split = at % t->splits;
    at /= t->splits;
    const int64_t pieces = piece_tasks(plan, t);
    task.piece = t->all_pieces ? -1 : at % pieces;
    at /= pieces;
    task.ci = at % in_blocks(plan, t) * t->in_channels;
    at /= in_blocks(plan, t);
    task.co = at % out_blocks(plan, t) * t->out_channels;
    task.group = at / out_blocks(plan, t);
    task.channels_in = ogp_min(t->in_channels, plan->problem.ci_g - task.ci);
    task.channels_out = ogp_min(t->out_channels, plan->problem.co_g - task.co);
    if (job->b.data && task.ci == 0 && task.piece <= 0) {
        task.bias = partials.b + task.split * plan->problem.co + task.group * plan->problem.co_g + task.co;
        memset(task.bias, 0, (size_t)task.channels_out * sizeof(double));
    }
    memset(task.scratch.sum, 0,
           (size_t)(t->in_channels * t->out_channels * channel_taps(plan, t)) * sizeof(double));
    const int64_t tiles = tile_count(plan, t);
    for (int64_t k = tiles * task.split / t->splits; k < tiles * (task.split + 1) / t->splits; k++)
        add_tile(&task, k);
    put_sums(&task, partials.w);
}

/* ---- adding the splits ---- */

/* All taps of one pair of channels: the first split becomes the sum. */
static void add_splits(const struct job *job, int64_t pair, int worker)
{
    (void)worker;
    const struct problem *const p = &job->plan->problem;
    struct arena shared = {.base = job->shared};
    const int64_t splits = job->plan->tiling.splits, taps = kernel_taps(p);
    double *const sum = carve_shared(&shared, job->plan, splits).w + pair * taps;
    for (int64_t s = 1; s < splits; s++) {
        const double *const part = sum + s * p->co * p->ci_g * taps;
        for (int64_t t = 0; t < taps; t++)
            sum[t] += part[t];
    }
    struct piece piece[3];
    whole_kernel(p, piece);
    put_taps(job, sum, pair / p->ci_g, pair % p->ci_g, piece);
}

static void add_bias_splits(const struct job *job, int64_t co, int worker)
{
    (void)worker;
    struct arena shared = {.base = job->shared};
    const int64_t splits = job->plan->tiling.splits;
    ogp_job_put_bias(job, co, carve_shared(&shared, job->plan, splits).b + co, job->plan->problem.co, splits);
}

void ogp_reduce_run(struct job *job)
{
    const struct ogp_plan *const plan = job->plan;
    ogp_job_each(job, plan->tasks, run_task);
    if (plan->tiling.splits > 1)
        ogp_job_each(job, plan->problem.co * plan->problem.ci_g, add_splits);
    if (job->b.data)
        ogp_job_each(job, plan->problem.co, add_bias_splits);
}

/* ---- the model ---- */

static double task_count(const struct ogp_plan *plan, const struct tiling *t)
{
    return (double)(plan->problem.g * out_blocks(plan, t) * in_blocks(plan, t) * piece_tasks(plan, t)) *
           (double)ogp_max(1, ogp_min(MOST_SPLITS, tile_count(plan, t)));
}

static double cost_of(const struct ogp_plan *plan, const struct tiling *t)
{
    const bool dense = plan->order[2] == 2 && plan->problem.x_layout == OGP_NCDHW;
    struct product p = ogp_largest_product(plan, t);
    const double pieces = ogp_model_pieces(plan, &p);
    const bool dense_in = dense && plan->lattice[2].s1 == 1 && plan->lattice[2].l1 == 1;
    const double pack_x = ogp_model_rows(&p, true) * ogp_row_cycles(p.out[2] + p.taps[2] - 1, dense_in);
    const double pack_gy = ogp_model_rows(&p, false) * ogp_row_cycles(p.out[2], dense && plan->lattice[2].l1 == 1);
    const double each = pieces * (pack_x + 100 + ogp_reduce_cycles(plan, &p)) +
                        pack_gy * (t->all_pieces ? 1 : pieces);
    return (double)(plan->problem.g * out_blocks(plan, t) * in_blocks(plan, t)) * (double)tile_count(plan, t) * each;
}

static size_t bytes_of(const struct ogp_plan *plan, const struct tiling *t)
{
    struct arena arena = {0};
    const struct product largest = ogp_largest_product(plan, t);
    carve(&arena, plan, t, &largest);
    return arena.bytes;
}

/* Partial sums over batch and space: enough tasks to share, within the shared limit. */
static int64_t choose_splits(const struct ogp_plan *plan, const struct tiling *t, int64_t shared_limit)
{
    const double others = task_count(plan, t) / (double)ogp_max(1, ogp_min(MOST_SPLITS, tile_count(plan, t)));
    int64_t splits = ogp_min((int64_t)((double)WANTED_TASKS / others) + 1, ogp_min(MOST_SPLITS, tile_count(plan, t)));
    struct arena two = {0};
    carve_shared(&two, plan, 2);
    if (splits < 2 || (int64_t)two.bytes > shared_limit)
        return 1;
    return ogp_min(splits, shared_limit / (int64_t)(two.bytes / 2 + OGP_ALIGN));
}

bool ogp_reduce_prepare(struct ogp_plan *plan, int64_t limit)
{
    static const struct tiling_model model = {bytes_of, cost_of, task_count};
    if (!ogp_tiling_choose(plan, &model, plan->problem.ci_g, plan->problem.co_g, ogp_worker_limit(limit)))
        return false;
    struct tiling *const t = &plan->tiling;
    t->splits = choose_splits(plan, t, ogp_shared_limit(limit));
    struct arena shared = {0};
    carve_shared(&shared, plan, t->splits);
    plan->shared_bytes = shared.bytes;
    plan->worker_bytes = bytes_of(plan, t);
    plan->workers_most = (limit - OGP_ALIGN - (int64_t)plan->shared_bytes) / (int64_t)plan->worker_bytes;
    plan->tasks = plan->problem.g * out_blocks(plan, t) * in_blocks(plan, t) * piece_tasks(plan, t) * t->splits;
    return plan->workers_most >= 1;
}
