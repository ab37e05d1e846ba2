/* SPDX-License-Identifier: Apache-2.0 */
#include "partial.h"

#include <string.h>

#include "util.h"

enum { WANTED_TASKS = 96 };

static int64_t in_blocks(const struct ogp_plan *plan, const struct tiling *t)
{
    return ogp_max(1, ogp_ceil_div(plan->problem.ci_g, t->in_channels));
}

static int64_t out_blocks(const struct ogp_plan *plan, const struct tiling *t)
{
    return ogp_ceil_div(plan->problem.co_g, t->out_channels);
}

int64_t ogp_pairs_blocks(const struct ogp_plan *plan, const struct tiling *t)
{
    return plan->problem.g * out_blocks(plan, t) * in_blocks(plan, t);
}

struct pairs ogp_pairs_at(const struct ogp_plan *plan, const struct tiling *t, int64_t at)
{
    struct pairs p = {.ci = at % in_blocks(plan, t) * t->in_channels};
    at /= in_blocks(plan, t);
    p.co = at % out_blocks(plan, t) * t->out_channels;
    p.group = at / out_blocks(plan, t);
    p.ins = ogp_min(t->in_channels, plan->problem.ci_g - p.ci);
    p.outs = ogp_min(t->out_channels, plan->problem.co_g - p.co);
    return p;
}

int64_t ogp_kernel_taps(const struct problem *p)
{
    return p->axis[0].k * p->axis[1].k * p->axis[2].k;
}

struct partials ogp_partials_carve(struct arena *a, const struct ogp_plan *plan, int64_t splits)
{
    const struct problem *const p = &plan->problem;
    struct partials s = {0};
    if (splits > 1)
        s.w = arena_take(a, (size_t)(splits * p->co * p->ci_g * ogp_kernel_taps(p)) * sizeof(double));
    s.b = arena_take(a, (size_t)(splits * p->co) * sizeof(double));
    return s;
}

static struct partials partials_of(const struct job *job)
{
    struct arena shared = {.base = job->shared};
    return ogp_partials_carve(&shared, job->plan, job->plan->tiling.splits);
}

double *ogp_partials_bias(const struct job *job, const struct pairs *pairs, int64_t split)
{
    const struct problem *const p = &job->plan->problem;
    double *const bias = partials_of(job).b + split * p->co + pairs->group * p->co_g + pairs->co;
    memset(bias, 0, (size_t)pairs->outs * sizeof(double));
    return bias;
}

/* ---- one task's sums ---- */

/* Sums of a piece of one pair of channels to the output. */
static void put_taps(const struct job *job, const double *partial_sums, int64_t co, int64_t ci,
                     const struct piece piece[3])
{
    const int64_t bytes = ogp_dtype_bytes(job->plan->problem.dtype);
    for (int64_t d = 0; d < piece[0].taps; d++)
        for (int64_t h = 0; h < piece[1].taps; h++) {
            const int64_t at =
                co * job->w.co + ci * job->w.ci + (piece[0].tap0 + piece[0].tap_step * d) * job->w.axis[0] +
                (piece[1].tap0 + piece[1].tap_step * h) * job->w.axis[1] + piece[2].tap0 * job->w.axis[2];
            job->plan->kernels->scatter_f64(
                job->w.data + at * bytes, piece[2].taps > 1 ? piece[2].tap_step * job->w.axis[2] : 1,
                partial_sums + (d * piece[1].taps + h) * piece[2].taps, piece[2].taps, job->accumulate);
        }
}

/* The whole kernel as one piece. */
static void whole_kernel(const struct problem *p, struct piece piece[3])
{
    for (int a = 0; a < 3; a++)
        piece[a] = (struct piece){.tap_step = 1, .taps = p->axis[a].k};
}

/* Whether the kernels of an output channel follow one another in the output. */
static bool is_dense(const struct job *job)
{
    const struct problem *const p = &job->plan->problem;
    int64_t step = 1;
    for (int a = 2; a >= 0; a--) {
        if (p->axis[a].k > 1 && job->w.axis[a] != step)
            return false;
        step *= p->axis[a].k;
    }
    return p->ci_g == 1 || job->w.ci == step;
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

/* Sums to the output: as one row for each output channel where whole kernels (piece NULL) are one there too. */
static void put_output(const struct job *job, const struct pairs *pairs, const struct piece *piece, const double *sum,
                       int64_t each)
{
    const struct problem *const p = &job->plan->problem;
    const int64_t taps = ogp_kernel_taps(p), bytes = ogp_dtype_bytes(p->dtype);
    struct piece whole[3];
    whole_kernel(p, whole);
    const bool rows = !piece && is_dense(job);
    for (int64_t i = 0; i < pairs->outs; i++) {
        const int64_t co = pairs->group * p->co_g + pairs->co + i;
        if (rows)
            job->plan->kernels->scatter_f64(job->w.data + (co * job->w.co + pairs->ci * job->w.ci) * bytes, 1,
                                            sum + i * pairs->ins * taps, pairs->ins * taps, job->accumulate);
        for (int64_t ci = 0; ci < pairs->ins && !rows; ci++)
            put_taps(job, sum + (i * pairs->ins + ci) * each, co, pairs->ci + ci, piece ? piece : whole);
    }
}

/* Sums to a split's partial. */
static void put_partial(const struct job *job, double *partial, const struct pairs *pairs, const struct piece *piece,
                        const double *sum, int64_t each)
{
    const struct problem *const p = &job->plan->problem;
    const int64_t taps = ogp_kernel_taps(p), row = pairs->ins * taps;
    for (int64_t i = 0; i < pairs->outs; i++) {
        double *const to = partial + ((pairs->group * p->co_g + pairs->co + i) * p->ci_g + pairs->ci) * taps;
        if (!piece) /* then each == taps */
            memcpy(to, sum + i * row, (size_t)row * sizeof(double));
        for (int64_t ci = 0; ci < pairs->ins && piece; ci++)
            copy_taps(to + ci * taps, sum + (i * pairs->ins + ci) * each, p, piece);
    }
}

void ogp_partials_put(const struct job *job, const struct pairs *pairs, int64_t split, const struct piece *piece,
                      const double *sum, int64_t each)
{
    const struct problem *const p = &job->plan->problem;
    double *const partial = partials_of(job).w;
    if (partial)
        put_partial(job, partial + split * p->co * p->ci_g * ogp_kernel_taps(p), pairs, piece, sum, each);
    else
        put_output(job, pairs, piece, sum, each);
}

char *ogp_partials_row(const struct job *job, const struct pairs *pairs)
{
    const struct problem *const p = &job->plan->problem;
    if (job->accumulate || partials_of(job).w || !is_dense(job))
        return NULL;
    const int64_t co = pairs->group * p->co_g + pairs->co;
    return job->w.data + (co * job->w.co + pairs->ci * job->w.ci) * ogp_dtype_bytes(p->dtype);
}

/* ---- adding the splits ---- */

/* Input channels of one output channel whose splits are added by one task. */
static int64_t pairs_a_task(const struct problem *p)
{
    const int64_t sums = 2048;
    return ogp_max(1, ogp_min(p->ci_g, sums / ogp_kernel_taps(p)));
}

/* All taps of some pairs of channels: the first split becomes the sum. */
static void add_splits(const struct job *job, int64_t at, int worker)
{
    (void)worker;
    const struct problem *const p = &job->plan->problem;
    const int64_t splits = job->plan->tiling.splits, taps = ogp_kernel_taps(p), most = pairs_a_task(p);
    const int64_t blocks = ogp_ceil_div(p->ci_g, most), co = at / blocks, ci = at % blocks * most;
    const struct pairs pairs = {co / p->co_g, co % p->co_g, ci, 1, ogp_min(most, p->ci_g - ci)};
    double *const sum = partials_of(job).w + (co * p->ci_g + ci) * taps;
    for (int64_t s = 1; s < splits; s++) {
        const double *const part = sum + s * p->co * p->ci_g * taps;
        for (int64_t t = 0; t < pairs.ins * taps; t++)
            sum[t] += part[t];
    }
    put_output(job, &pairs, NULL, sum, taps);
}

static void add_bias_splits(const struct job *job, int64_t co, int worker)
{
    (void)worker;
    ogp_job_put_bias(job, co, partials_of(job).b + co, job->plan->problem.co, job->plan->tiling.splits);
}

void ogp_partials_add(struct job *job)
{
    const struct problem *const p = &job->plan->problem;
    if (job->plan->tiling.splits > 1)
        ogp_job_each(job, p->co * ogp_ceil_div(p->ci_g, pairs_a_task(p)), add_splits);
    if (job->b.data)
        ogp_job_each(job, p->co, add_bias_splits);
}

int64_t ogp_partials_splits(const struct ogp_plan *plan, double others, int64_t most, int64_t shared_limit)
{
    most = ogp_min(OGP_SPLITS_MOST, most);
    const int64_t splits = ogp_min((int64_t)((double)WANTED_TASKS / others) + 1, most);
    struct arena two = {0};
    ogp_partials_carve(&two, plan, 2);
    if (splits < 2 || (int64_t)two.bytes > shared_limit)
        return 1;
    return ogp_min(splits, shared_limit / (int64_t)(two.bytes / 2 + OGP_ALIGN));
}
