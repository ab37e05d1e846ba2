/* SPDX-License-Identifier: Apache-2.0 */
/* A task is a block of pairs of channels and one of the plan's splits of batch and space. */
#include "reduce.h"

#include <string.h>

#include "partial.h"
#include "tiling.h"
#include "util.h"

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

struct scratch {
    char *x, *gy;
    double *sum;
};

/* Sums that a task keeps for a pair of channels. */
static int64_t channel_taps(const struct ogp_plan *plan, const struct tiling *t)
{
    return t->all_pieces ? ogp_kernel_taps(&plan->problem) : t->taps[0] * t->taps[1] * t->taps[2];
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
    struct pairs pairs;
    int64_t piece; /* -1: all */
    double *bias;  /* sums of gy of the output channels, or NULL */
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
    const struct product p = ogp_product(plan, out, taps, task->pairs.ins, task->pairs.outs);
    struct sampling sampling[3];
    for (int a = 0; a < 3; a++)
        sampling[a] = (struct sampling){piece[a].in0 + span[a].start * pr->axis[a].s, piece[a].in_step, p.x.extent[a],
                                        pr->axis[a].i, pr->padding};
    struct volume x = task->job->x;
    x.data += (n * x.n + (task->pairs.group * pr->ci_g + task->pairs.ci) * x.c) * bytes;
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

/* One tile: spans of at most the tiling's outputs. */
static void add_tile(const struct task *task, int64_t n, const struct span span[3])
{
    static const int64_t one_tap[3] = {1, 1, 1};
    const struct ogp_plan *const plan = task->plan;
    const struct problem *const pr = &plan->problem;
    struct sampling sampling[3];
    int64_t out[3];
    for (int a = 0; a < 3; a++) {
        out[a] = span[a].count;
        sampling[a] = (struct sampling){span[a].start, span[a].step, span[a].count, pr->axis[a].o, OGP_ZEROS};
    }
    const struct block block = ogp_product(plan, out, one_tap, task->pairs.ins, task->pairs.outs).y;
    struct volume gy = task->job->y;
    gy.data += (n * gy.n + (task->pairs.group * pr->co_g + task->pairs.co) * gy.c) * ogp_dtype_bytes(pr->dtype);
    ogp_pack(plan, task->scratch.gy, &block, &gy, sampling);
    if (task->bias)
        add_bias(task, &block);
    if (task->pairs.ins == 0)
        return;
    struct piece piece[3];
    for (int64_t k = task->piece < 0 ? 0 : task->piece; piece_at(task, k, piece); k++) {
        add_piece(task, n, span, out, piece);
        if (task->piece >= 0)
            break;
    }
}

/* Outputs of one class of each axis. */
static void reduce_class(const struct job *job, const struct ogp_plan *plan, char *scratch, const struct pairs *pairs,
                         int64_t n, const struct span span[3], double *sum)
{
    const struct tiling *const t = &plan->tiling;
    struct arena arena = {.base = scratch};
    const struct product largest = ogp_largest_product(plan, t);
    struct task task = {.job = job, .plan = plan, .scratch = carve(&arena, plan, t, &largest), .piece = -1};
    const int64_t taps = ogp_kernel_taps(&plan->problem);
    struct span tile[3];
    for (int64_t co = 0; co < pairs->outs; co += t->out_channels)
        for (int64_t ci = 0; ci < pairs->ins; ci += t->in_channels)
            for (int64_t d = 0; ogp_span_cut(span[0], t->out[0], d, &tile[0]); d++)
                for (int64_t h = 0; ogp_span_cut(span[1], t->out[1], h, &tile[1]); h++)
                    for (int64_t w = 0; ogp_span_cut(span[2], t->out[2], w, &tile[2]); w++) {
                        task.pairs = (struct pairs){pairs->group, pairs->co + co, pairs->ci + ci,
                                                    ogp_min(t->out_channels, pairs->outs - co),
                                                    ogp_min(t->in_channels, pairs->ins - ci)};
                        memset(task.scratch.sum, 0, (size_t)(task.pairs.outs * task.pairs.ins * taps) * sizeof(double));
                        add_tile(&task, n, tile);
                        for (int64_t c = 0; c < task.pairs.outs; c++)
                            for (int64_t k = 0; k < task.pairs.ins * taps; k++)
                                sum[((co + c) * pairs->ins + ci) * taps + k] +=
                                    task.scratch.sum[c * task.pairs.ins * taps + k];
                    }
}

void ogp_reduce_spans(const struct job *job, const struct ogp_plan *plan, char *scratch, const struct pairs *pairs,
                      int64_t n, const struct span span[3], double *sum)
{
    const int64_t step = plan->lattice[2].classes;
    for (int64_t c = 0; c < ogp_min(step, span[2].count); c++) {
        const struct span one[3] = {
            span[0], span[1], {span[2].start + c, step, ogp_ceil_div(span[2].count - c, step)}};
        reduce_class(job, plan, scratch, pairs, n, one, sum);
    }
}

/* ---- tasks ---- */

/* The at-th tile of batch and space; false where it is empty. */
static bool tile_at(const struct ogp_plan *plan, int64_t at, int64_t *n, struct span span[3])
{
    for (int a = 2; a >= 0; a--) {
        const int64_t spans = ogp_span_count(&plan->lattice[a], true, plan->tiling.out[a]);
        span[a] = ogp_span_at(&plan->lattice[a], true, plan->tiling.out[a], at % spans);
        at /= spans;
        if (span[a].count == 0)
            return false;
    }
    *n = at;
    return true;
}

static void run_task(const struct job *job, int64_t at, int worker)
{
    const struct ogp_plan *const plan = job->plan;
    const struct tiling *const t = &plan->tiling;
    struct arena arena = {.base = ogp_job_scratch(job, worker)};
    const struct product largest = ogp_largest_product(plan, t);
    struct task task = {.job = job, .plan = plan, .scratch = carve(&arena, plan, t, &largest)};
    const int64_t split = at % t->splits, pieces = piece_tasks(plan, t), tiles = tile_count(plan, t);
    at /= t->splits;
    task.piece = t->all_pieces ? -1 : at % pieces;
    task.pairs = ogp_pairs_at(plan, t, at / pieces);
    if (job->b.data && task.pairs.ci == 0 && task.piece <= 0)
        task.bias = ogp_partials_bias(job, &task.pairs, split);
    const int64_t each = channel_taps(plan, t);
    memset(task.scratch.sum, 0, (size_t)(t->in_channels * t->out_channels * each) * sizeof(double));
    for (int64_t k = tiles * split / t->splits; k < tiles * (split + 1) / t->splits; k++) {
        struct span span[3];
        int64_t n;
        if (tile_at(plan, k, &n, span))
            add_tile(&task, n, span);
    }
    struct piece piece[3];
    if (task.piece >= 0)
        piece_at(&task, task.piece, piece);
    ogp_partials_put(job, &task.pairs, split, task.piece < 0 ? NULL : piece, task.scratch.sum, each);
}

void ogp_reduce_run(struct job *job)
{
    ogp_job_each(job, job->plan->tasks, run_task);
    ogp_partials_add(job);
}

/* ---- the model ---- */

static double task_count(const struct ogp_plan *plan, const struct tiling *t)
{
    return (double)(ogp_pairs_blocks(plan, t) * piece_tasks(plan, t)) *
           (double)ogp_max(1, ogp_min(OGP_SPLITS_MOST, tile_count(plan, t)));
}

static double cost_of(const struct ogp_plan *plan, const struct tiling *t)
{
    const bool dense = plan->order[2] == 2 && plan->problem.x_layout == OGP_NCDHW;
    struct product p = ogp_largest_product(plan, t);
    const double pieces = ogp_model_pieces(plan, &p);
    const bool dense_in = dense && plan->lattice[2].s1 == 1 && plan->lattice[2].l1 == 1;
    const double pack_x = ogp_model_rows(&p, true) * ogp_row_cycles(p.out[2] + p.taps[2] - 1, dense_in);
    const double pack_gy = ogp_model_rows(&p, false) * ogp_row_cycles(p.out[2], dense && plan->lattice[2].l1 == 1);
    const double each = pieces * (pack_x + 100 + ogp_reduce_cycles(plan, &p)) + pack_gy * (t->all_pieces ? 1 : pieces);
    return (double)ogp_pairs_blocks(plan, t) * (double)tile_count(plan, t) * each;
}

static size_t bytes_of(const struct ogp_plan *plan, const struct tiling *t)
{
    struct arena arena = {0};
    const struct product largest = ogp_largest_product(plan, t);
    carve(&arena, plan, t, &largest);
    return arena.bytes;
}

bool ogp_reduce_prepare(struct ogp_plan *plan, int64_t limit)
{
    static const struct tiling_model model = {bytes_of, cost_of, task_count};
    if (!ogp_tiling_choose(plan, &model, plan->problem.ci_g, plan->problem.co_g, ogp_worker_limit(limit)))
        return false;
    struct tiling *const t = &plan->tiling;
    const int64_t others = ogp_pairs_blocks(plan, t) * piece_tasks(plan, t);
    t->splits = ogp_partials_splits(plan, (double)others, tile_count(plan, t), ogp_shared_limit(limit));
    struct arena shared = {0};
    ogp_partials_carve(&shared, plan, t->splits);
    plan->tasks = others * t->splits;
    return ogp_plan_reserve(plan, limit, shared.bytes, bytes_of(plan, t));
}
