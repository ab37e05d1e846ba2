/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include "job.h"
#include "util.h"

static void store(enum ogp_dtype dtype, char *data, int64_t at, double value, bool accumulate)
{
    if (dtype == OGP_F32)
        ((float *)data)[at] = (float)(accumulate ? (double)((float *)data)[at] + value : value);
    else
        ((double *)data)[at] = accumulate ? ((double *)data)[at] + value : value;
}

/* ---- forward and grad input: one output element at a time ---- */

/* What one output reads and where its weights are. */
struct window {
    const struct ogp_plan *plan;
    const char *in, *w;
    int64_t in_axis[3], w_axis[3], in_c, w_in, channels;
};

/* Sum over the channels of a group of one tap. */
static double tap(const struct window *win, const int64_t source[3], int64_t w_at)
{
    const enum ogp_dtype dtype = win->plan->problem.dtype;
    const bool zero = source[0] < 0 || source[1] < 0 || source[2] < 0;
    int64_t at = 0;
    for (int a = 0; a < 3 && !zero; a++)
        at += source[a] * win->in_axis[a];
    double sum = 0;
    for (int64_t c = 0; c < win->channels; c++) {
        const double x = zero ? 0 : ogp_load(dtype, win->in, at + c * win->in_c);
        sum += ogp_load(dtype, win->w, w_at + c * win->w_in) * x;
    }
    return sum;
}

/* Sum over all preimages of an output, pieces and taps, axis by axis. */
static double window_sum(const struct window *win, const struct span span[3], int a, int64_t source[3], int64_t w_at)
{
    if (a == 3)
        return tap(win, source, w_at);
    const struct lattice *const lat = &win->plan->lattice[a];
    double sum = 0;
    struct part part;
    for (struct part_cursor at = {0}; ogp_next_part(lat, span[a], 1, &at, &part);) {
        struct piece piece;
        for (struct piece_cursor pat = {0}; ogp_next_piece(lat, &part, INT64_MAX / 2, &pat, &piece);)
            for (int64_t t = 0; t < piece.taps; t++) {
                source[a] = ogp_lattice_source(lat, piece.in0 + (t ? piece.in_step * t : 0));
                sum += window_sum(win, span, a + 1, source,
                                  w_at + (piece.tap0 + piece.tap_step * t) * win->w_axis[a]);
            }
    }
    return sum;
}

/* One row along the last axis of one output channel of one item of the batch. */
static void correlate_row(const struct job *job, int64_t at, int worker)
{
    (void)worker;
    const struct ogp_plan *const plan = job->plan;
    const struct problem *const p = &plan->problem;
    const bool adjoint = plan->pass == OGP_GRAD_INPUT;
    const struct volume *const in = adjoint ? &job->y : &job->x, *const out = adjoint ? &job->x : &job->y;
    const int64_t channels_in = adjoint ? p->co_g : p->ci_g, channels_out = adjoint ? p->ci_g : p->co_g;
    const int64_t rows = plan->lattice[1].out_extent, planes = plan->lattice[0].out_extent;
    const int64_t h = at % rows, d = at / rows % planes, c = at / rows / planes % (p->g * channels_out);
    const int64_t n = at / rows / planes / (p->g * channels_out), group = c / channels_out, c_g = c % channels_out;
    const int64_t bytes = ogp_dtype_bytes(p->dtype);
    const struct window win = {
        .plan = plan,
        .in = in->data + bytes * (n * in->n + group * channels_in * in->c),
        .w = job->w.data + bytes * (group * p->co_g * job->w.co + c_g * (adjoint ? job->w.ci : job->w.co)),
        .in_axis = {in->axis[0], in->axis[1], in->axis[2]},
        .w_axis = {job->w.axis[0], job->w.axis[1], job->w.axis[2]},
        .in_c = in->c,
        .w_in = adjoint ? job->w.co : job->w.ci,
        .channels = channels_in,
    };
    const double bias = job->b.data ? ogp_load(p->dtype, job->b.data, c * job->b.step) : 0;
    const int64_t row = n * out->n + c * out->c + d * out->axis[0] + h * out->axis[1];
    for (int64_t w = 0; w < plan->lattice[2].out_extent; w++) {
        const struct span span[3] = {{d, 1, 1}, {h, 1, 1}, {w, 1, 1}};
        int64_t source[3];
        store(p->dtype, out->data, row + w * out->axis[2], window_sum(&win, span, 0, source, 0) + bias,
              job->accumulate);
    }
}

/* ---- grad weight: one tap of one pair of channels at a time ---- */

/* Sum over the outputs from axis a on of gy[o] * X[o*s + t*l - p]. A padded zero is multiplied like any value. */
static double tap_sum(const struct job *job, const int64_t t[3], int a, bool zero, const char *x, const char *gy)
{
    const struct problem *const p = &job->plan->problem;
    const int64_t bytes = ogp_dtype_bytes(p->dtype);
    if (a == 3)
        return ogp_load(p->dtype, gy, 0) * (zero ? 0 : ogp_load(p->dtype, x, 0));
    const struct axis *const axis = &p->axis[a];
    double sum = 0;
    for (int64_t o = 0; o < axis->o; o++) {
        const int64_t at = ogp_pad_source(p->padding, axis->i, o * axis->s + t[a] * axis->l - axis->p);
        sum += tap_sum(job, t, a + 1, zero || at < 0, at < 0 ? x : x + bytes * at * job->x.axis[a],
                       gy + bytes * o * job->y.axis[a]);
    }
    return sum;
}

static void reduce_taps(const struct job *job, int64_t at, int worker)
{
    (void)worker;
    const struct problem *const p = &job->plan->problem;
    const int64_t bytes = ogp_dtype_bytes(p->dtype);
    const int64_t depth = at % p->axis[0].k, ci = at / p->axis[0].k % p->ci_g, co = at / p->axis[0].k / p->ci_g;
    const char *const x = job->x.data + bytes * (co / p->co_g * p->ci_g + ci) * job->x.c;
    const char *const gy = job->y.data + bytes * co * job->y.c;
    const int64_t w_at = co * job->w.co + ci * job->w.ci;
    for (int64_t h = 0; h < p->axis[1].k; h++)
        for (int64_t w = 0; w < p->axis[2].k; w++) {
            const int64_t t[3] = {depth, h, w};
            double sum = 0;
            for (int64_t n = 0; n < p->n; n++)
                sum += tap_sum(job, t, 0, false, x + bytes * n * job->x.n, gy + bytes * n * job->y.n);
            store(p->dtype, job->w.data, w_at + depth * job->w.axis[0] + h * job->w.axis[1] + w * job->w.axis[2], sum,
                  job->accumulate);
        }
}

/* ---- grad bias ---- */

static void bias_channel(const struct job *job, int64_t co, int worker)
{
    (void)worker;
    const struct problem *const p = &job->plan->problem;
    const int64_t bytes = ogp_dtype_bytes(p->dtype);
    double sum = 0;
    for (int64_t n = 0; n < p->n; n++)
        for (int64_t d = 0; d < p->axis[0].o; d++)
            for (int64_t h = 0; h < p->axis[1].o; h++)
                sum += job->plan->kernels->sum(job->y.data + bytes * (n * job->y.n + co * job->y.c +
                                                                      d * job->y.axis[0] + h * job->y.axis[1]),
                                               job->y.axis[2], p->axis[2].o);
    store(p->dtype, job->b.data, co * job->b.step, sum, job->accumulate);
}

static bool prepare(struct ogp_plan *plan, int64_t limit)
{
    (void)limit;
    const struct problem *const p = &plan->problem;
    const double cycles_a_product = 20, cycles_a_sum = 1;
    plan->shared_bytes = plan->worker_bytes = 0;
    plan->workers_most = INT32_MAX;
    plan->cost = plan->multiplies * (plan->pass == OGP_GRAD_BIAS ? cycles_a_sum : cycles_a_product);
    if (plan->pass == OGP_GRAD_WEIGHT)
        plan->tasks = p->co * p->ci_g * p->axis[0].k;
    else if (plan->pass == OGP_GRAD_BIAS)
        plan->tasks = p->co;
    else
        plan->tasks = p->n * (plan->pass == OGP_FORWARD ? p->co : p->ci) * plan->lattice[0].out_extent *
                      plan->lattice[1].out_extent;
    return true;
}

static void run(struct job *job)
{
    const struct ogp_plan *const plan = job->plan;
    if (plan->pass == OGP_FORWARD || plan->pass == OGP_GRAD_INPUT)
        ogp_job_each(job, plan->tasks, correlate_row);
    if (plan->pass == OGP_GRAD_WEIGHT)
        ogp_job_each(job, plan->tasks, reduce_taps);
    if (plan->pass == OGP_GRAD_BIAS || (plan->pass == OGP_GRAD_WEIGHT && job->b.data))
        ogp_job_each(job, plan->problem.co, bias_channel);
}

const struct config ogp_config_reference = {.name = "reference", .prepare = prepare, .run = run};
