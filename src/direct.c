/* SPDX-License-Identifier: Apache-2.0 */
#include "direct.h"

#include <math.h>
#include <string.h>

#include "util.h"

struct ogp_plan ogp_direct_plan(const struct ogp_plan *plan)
{
    struct ogp_plan direct = *plan;
    direct.config = plan->direct;
    direct.tiling = plan->direct_tiling;
    return direct;
}

int64_t ogp_even_block(int64_t count, int64_t most)
{
    return ogp_ceil_div(count, ogp_ceil_div(count, most));
}

struct product ogp_product(const struct ogp_plan *plan, const int64_t out[3], const int64_t taps[3],
                           int64_t in_channels, int64_t out_channels)
{
    const int64_t bytes = ogp_dtype_bytes(plan->problem.dtype);
    const int64_t width = ogp_round_up(out[2], plan->kernels->lanes);
    struct product p = {.in_channels = in_channels, .out_channels = out_channels};
    int64_t in[3];
    for (int a = 0; a < 3; a++) {
        p.out[a] = out[a];
        p.taps[a] = taps[a];
        in[a] = out[a] + taps[a] - 1;
    }
    p.x = ogp_block(in_channels, in, width + taps[2] - 1, bytes);
    p.y = ogp_block(out_channels, out, width, bytes);
    return p;
}

struct product ogp_largest_product(const struct ogp_plan *plan, const struct tiling *t)
{
    return ogp_product(plan, t->out, t->taps, t->in_channels, t->out_channels);
}

static int64_t vectors(const struct ogp_plan *plan, int64_t n)
{
    return ogp_ceil_div(n, plan->kernels->lanes);
}

/* ---- weights ---- */

/* Copies n elements that lie `step` apart into every `apart`-th place of out. */
static void copy_steps(char *out, int64_t apart, const char *in, int64_t step, int64_t n, int64_t bytes)
{
    if (bytes == 4)
        for (int64_t i = 0; i < n; i++)
            ((uint32_t *)(void *)out)[i * apart] = ((const uint32_t *)(const void *)in)[i * step];
    else
        for (int64_t i = 0; i < n; i++)
            ((uint64_t *)(void *)out)[i * apart] = ((const uint64_t *)(const void *)in)[i * step];
}

static void pack_weights_rows(const struct ogp_plan *plan, char *out, const struct product *p, const struct weights *w,
                              const struct piece piece[3])
{
    const int64_t bytes = ogp_dtype_bytes(plan->problem.dtype);
    const int64_t most = ogp_even_block(p->taps[1], plan->kernels->rows_most);
    for (int64_t co = 0; co < p->out_channels; co++)
        for (int64_t h = 0; h < p->taps[1]; h += most) {
            const int64_t rows = ogp_min(most, p->taps[1] - h);
            for (int64_t ci = 0; ci < p->in_channels; ci++)
                for (int64_t d = 0; d < p->taps[0]; d++)
                    for (int64_t t = 0; t < p->taps[2]; t++, out += rows * bytes) {
                        const int64_t at = co * w->co + ci * w->ci +
                                           (piece[0].tap0 + piece[0].tap_step * d) * w->axis[0] +
                                           (piece[1].tap0 + piece[1].tap_step * h) * w->axis[1] +
                                           (piece[2].tap0 + piece[2].tap_step * t) * w->axis[2];
                        copy_steps(out, 1, w->data + at * bytes, rows > 1 ? piece[1].tap_step * w->axis[1] : 0, rows,
                                   bytes);
                    }
        }
}

static void pack_weights_channels(const struct ogp_plan *plan, char *out, const struct product *p,
                                  const struct weights *w, const struct piece piece[3])
{
    const int64_t bytes = ogp_dtype_bytes(plan->problem.dtype);
    const int64_t most = ogp_even_block(p->out_channels, plan->kernels->channels_most);
    const int64_t step_w = p->taps[2] > 1 ? piece[2].tap_step * w->axis[2] : 0;
    for (int64_t co = 0; co < p->out_channels; co += most) {
        const int64_t channels = ogp_min(most, p->out_channels - co);
        for (int64_t ci = 0; ci < p->in_channels; ci++)
            for (int64_t d = 0; d < p->taps[0]; d++)
                for (int64_t h = 0; h < p->taps[1]; h++, out += channels * p->taps[2] * bytes) {
                    const int64_t at = co * w->co + ci * w->ci +
                                       (piece[0].tap0 + piece[0].tap_step * d) * w->axis[0] +
                                       (piece[1].tap0 + piece[1].tap_step * h) * w->axis[1] +
                                       piece[2].tap0 * w->axis[2];
                    for (int64_t c = 0; c < channels; c++)
                        copy_steps(out + c * bytes, channels, w->data + (at + c * w->co) * bytes, step_w, p->taps[2],
                                   bytes);
                }
    }
}

void ogp_pack_weights(const struct ogp_plan *plan, char *out, const struct product *p, const struct weights *w,
                      const struct piece piece[3])
{
    (plan->config->body == OGP_BODY_ROWS ? pack_weights_rows : pack_weights_channels)(plan, out, p, w, piece);
}

/* ---- forward and grad input ---- */

int64_t ogp_product_terms(const struct ogp_plan *plan, const struct product *p)
{
    return p->in_channels * p->taps[0] * (plan->config->body == OGP_BODY_ROWS ? 1 : p->taps[1]);
}

/* Offsets of the terms of one output row in the x block: channels, planes and, for `channels`, rows. */
static void fill_offsets(const struct ogp_plan *plan, const struct product *p, int64_t *offset)
{
    const int64_t rows = plan->config->body == OGP_BODY_ROWS ? 1 : p->taps[1];
    for (int64_t ci = 0; ci < p->in_channels; ci++)
        for (int64_t d = 0; d < p->taps[0]; d++)
            for (int64_t h = 0; h < rows; h++)
                *offset++ = ci * p->x.channel + d * p->x.plane + h * p->x.row;
}

/* Runs a kernel over all terms, in sums of at most OGP_LONGEST_SUM products. Of a term and tap: products of an output, and
 * weights. */
static void run_terms(ogp_multiply_fn *kernel, struct ogp_multiply *m, int64_t terms, int64_t products,
                      int64_t weights, int64_t bytes)
{
    const int64_t most = ogp_max(1, OGP_LONGEST_SUM / (m->taps * products));
    const int64_t *const offset = m->offset;
    const char *w = m->w;
    for (int64_t q = 0; q < terms; q += most) {
        m->terms = ogp_min(most, terms - q);
        m->offset = offset + q;
        m->w = w + q * m->taps * weights * bytes;
        kernel(m);
        m->accumulate = 1;
    }
    m->offset = offset;
    m->w = w;
}

/* One block of kernel rows of one channel, over all output rows. */
static void multiply_rows(const struct ogp_plan *plan, const struct product *p, char *y, const char *x, const char *w,
                          int64_t kernel_rows, const int64_t *offset, bool accumulate)
{
    const int64_t bytes = ogp_dtype_bytes(plan->problem.dtype);
    struct ogp_multiply m = {.w = w, .offset = offset, .y_step = p->y.row, .x_step = p->x.row, .taps = p->taps[2],
                             .vectors = vectors(plan, p->out[2])};
    for (int64_t d = 0; d < p->out[0]; d++)
        for (int64_t h = 0, log_rows; h < p->out[1]; h += (int64_t)1 << log_rows) {
            for (log_rows = OGP_ROW_BLOCKS - 1; (int64_t)1 << log_rows > p->out[1] - h;)
                log_rows--;
            m.y = y + (d * p->y.plane + h * p->y.row) * bytes;
            m.x = x + (d * p->x.plane + h * p->x.row) * bytes;
            m.accumulate = accumulate;
            run_terms(plan->kernels->rows[log_rows][kernel_rows], &m, ogp_product_terms(plan, p), kernel_rows,
                      kernel_rows, bytes);
        }
}

static void multiply_channels(const struct ogp_plan *plan, const struct product *p, char *y, const char *x,
                              const char *w, int64_t channels, const int64_t *offset, bool accumulate)
{
    const int64_t bytes = ogp_dtype_bytes(plan->problem.dtype);
    struct ogp_multiply m = {.w = w, .offset = offset, .y_step = p->y.channel, .taps = p->taps[2], .tap = 1,
                             .vectors = vectors(plan, p->out[2])};
    for (int64_t d = 0; d < p->out[0]; d++)
        for (int64_t h = 0; h < p->out[1]; h++) {
            m.y = y + (d * p->y.plane + h * p->y.row) * bytes;
            m.x = x + (d * p->x.plane + h * p->x.row) * bytes;
            m.accumulate = accumulate;
            run_terms(plan->kernels->channels[channels], &m, ogp_product_terms(plan, p), 1, channels, bytes);
        }
}

void ogp_multiply_block(const struct ogp_plan *plan, const struct product *p, char *y, const char *x, const char *w,
                        int64_t *offset, bool accumulate)
{
    const int64_t bytes = ogp_dtype_bytes(plan->problem.dtype);
    const int64_t weights_each = p->in_channels * p->taps[0] * p->taps[2] * bytes; /* of a kernel row of a channel */
    fill_offsets(plan, p, offset);
    if (plan->config->body == OGP_BODY_ROWS) {
        const int64_t most = ogp_even_block(p->taps[1], plan->kernels->rows_most);
        for (int64_t co = 0; co < p->out_channels; co++)
            for (int64_t h = 0; h < p->taps[1]; h += most) {
                const int64_t rows = ogp_min(most, p->taps[1] - h);
                multiply_rows(plan, p, y + co * p->y.channel * bytes, x + h * p->x.row * bytes, w, rows, offset,
                              accumulate || h > 0);
                w += rows * weights_each;
            }
        return;
    }
    const int64_t most = ogp_even_block(p->out_channels, plan->kernels->channels_most);
    for (int64_t co = 0; co < p->out_channels; co += most) {
        const int64_t channels = ogp_min(most, p->out_channels - co);
        multiply_channels(plan, p, y + co * p->y.channel * bytes, x, w, channels, offset, accumulate);
        w += channels * p->taps[1] * weights_each;
    }
}

/* ---- grad weight ---- */

/* Runs a reduce kernel over all planes and rows of a tile, in sums of at most OGP_LONGEST_SUM products a lane. */
static void run_planes(const struct ogp_plan *plan, const struct product *p, ogp_reduce_fn *kernel,
                       struct ogp_reduce *m)
{
    const int64_t bytes = ogp_dtype_bytes(plan->problem.dtype);
    const int64_t most_rows = ogp_max(1, OGP_LONGEST_SUM / vectors(plan, m->n));
    const int64_t rows = ogp_min(p->out[1], most_rows), planes = ogp_min(p->out[0], ogp_max(1, most_rows / rows));
    const char *const gy = m->gy, *const x = m->x;
    for (int64_t d = 0; d < p->out[0]; d += planes)
        for (int64_t h = 0; h < p->out[1]; h += rows) {
            m->gy = gy + (d * m->gy_plane + h * m->gy_row) * bytes;
            m->x = x + (d * m->x_plane + h * m->x_row) * bytes;
            m->planes = ogp_min(planes, p->out[0] - d);
            m->rows = ogp_min(rows, p->out[1] - h);
            kernel(m);
        }
}

void ogp_place_sums(double *sum, int64_t across_step, int64_t tap_step, const double *part, int64_t across,
                    int64_t taps)
{
    for (int64_t t = 0; t < taps; t++)
        for (int64_t k = 0; k < across; k++)
            sum[k * across_step + t * tap_step] += part[t * across + k];
}

/* All width taps of `across` kernel rows or output channels: steps of the sums, and the kernels for 1.. taps at once. */
static void reduce_taps(const struct ogp_plan *plan, const struct product *p, double *sum, int64_t across,
                        int64_t across_step, int64_t tap_step, int64_t most_taps, ogp_reduce_fn *const *kernels,
                        struct ogp_reduce m)
{
    const int64_t bytes = ogp_dtype_bytes(plan->problem.dtype), block = ogp_even_block(p->taps[2], most_taps);
    const char *const x = m.x, *const gy = m.gy;
    for (int64_t t = 0; t < p->taps[2]; t += block) {
        const int64_t taps = ogp_min(block, p->taps[2] - t);
        double part[OGP_ROWS_MOST * OGP_TAPS_MOST] = {0};
        m.sum = part;
        m.x = x + t * bytes;
        m.gy = gy;
        run_planes(plan, p, kernels[taps], &m);
        ogp_place_sums(sum + t * tap_step, across_step, tap_step, part, across, taps);
    }
}

void ogp_reduce_block(const struct ogp_plan *plan, const struct product *p, double *sum, int64_t channel_taps,
                      const int64_t tap[3], const char *gy, const char *x)
{
    const struct ogp_kernels *const k = plan->kernels;
    const int64_t bytes = ogp_dtype_bytes(plan->problem.dtype);
    const bool by_rows = plan->config->body == OGP_BODY_ROWS;
    const int64_t row_step = by_rows ? ogp_even_block(p->taps[1], k->rows_most) : 1;
    const int64_t co_step = by_rows ? 1 : ogp_even_block(p->out_channels, k->channels_most);
    struct ogp_reduce m = {.gy_channel = p->y.channel, .gy_plane = p->y.plane, .gy_row = p->y.row,
                           .x_plane = p->x.plane, .x_row = p->x.row, .tap = 1, .n = p->out[2]};
    for (int64_t co = 0; co < p->out_channels; co += co_step)
        for (int64_t ci = 0; ci < p->in_channels; ci++)
            for (int64_t d = 0; d < p->taps[0]; d++)
                for (int64_t h = 0; h < p->taps[1]; h += row_step) {
                    const int64_t rows = ogp_min(row_step, p->taps[1] - h);
                    const int64_t channels = ogp_min(co_step, p->out_channels - co);
                    double *const at = sum + (co * p->in_channels + ci) * channel_taps + d * tap[0] + h * tap[1];
                    m.gy = gy + co * p->y.channel * bytes;
                    m.x = x + (ci * p->x.channel + d * p->x.plane + h * p->x.row) * bytes;
                    if (by_rows)
                        reduce_taps(plan, p, at, rows, tap[1], tap[2], k->reduce_rows_taps, k->reduce_rows[rows], m);
                    else
                        reduce_taps(plan, p, at, channels, p->in_channels * channel_taps, tap[2],
                                    k->reduce_channels_taps, k->reduce_channels[channels], m);
                }
}

/* ---- cost model ---- */

/* What an unaligned vector load takes of two loads a cycle. A load that crosses a cache line costs about four (Zen 5);
 * all but one in lanes do with 64-byte vectors, half with 32. */
static double load_slots(const struct ogp_plan *plan)
{
    const double line_share = (double)(plan->kernels->lanes * ogp_dtype_bytes(plan->problem.dtype)) / 64;
    return 1 + 2.5 * line_share * line_share;
}

static double cycles_for(double products, double slots)
{
    return 0.5 * (products > slots ? products : slots);
}

double ogp_model_pieces(const struct ogp_plan *plan, struct product *p)
{
    double pieces = 1;
    for (int a = 0; a < 3; a++) {
        const struct lattice *const lat = &plan->lattice[a];
        const int64_t phase = ogp_ceil_div(lat->axis.k, lat->s1);
        p->taps[a] = ogp_min(p->taps[a], phase);
        pieces *= (double)ogp_ceil_div(phase, p->taps[a]);
        if (!lat->adjoint)
            pieces *= (double)ogp_min(lat->s1, lat->axis.k);
    }
    return pieces;
}

double ogp_model_rows(const struct product *p, bool in)
{
    double rows = (double)(in ? p->in_channels : p->out_channels);
    for (int a = 0; a < 2; a++)
        rows *= (double)(p->out[a] + (in ? p->taps[a] - 1 : 0));
    return rows;
}

double ogp_multiply_cycles(const struct ogp_plan *plan, const struct product *p)
{
    const double call = 25, slot = load_slots(plan), n = (double)vectors(plan, p->out[2]);
    const double outs = (double)(p->out[0] * p->out[1]), rows = (double)p->taps[1];
    const double inner = (double)(p->in_channels * p->taps[0] * p->taps[2]);
    if (plan->config->body == OGP_BODY_ROWS) {
        const double block = (double)ogp_even_block(p->taps[1], plan->kernels->rows_most);
        const double high = (double)ogp_min(p->out[1], 8), calls = outs / high * (rows / block);
        const double each = n * inner * cycles_for(high * block, (high + block - 1) * slot + block / 2);
        return (double)p->out_channels * calls * (each + call + n * high);
    }
    const double block = (double)ogp_even_block(p->out_channels, plan->kernels->channels_most);
    const double calls = outs * (double)p->out_channels / block;
    const double each = n * inner * rows * cycles_for(block, slot + block / 3) * 1.4; /* 1.4: measured */
    return calls * (each + call + n * block);
}

double ogp_reduce_cycles(const struct ogp_plan *plan, const struct product *p)
{
    const double slot = load_slots(plan), n = (double)vectors(plan, p->out[2]);
    const double outs = (double)(p->out[0] * p->out[1]), rows = (double)p->taps[1];
    const double inner = (double)(p->in_channels * p->taps[0] * p->taps[2]);
    if (plan->config->body == OGP_BODY_ROWS) {
        const double block = (double)ogp_even_block(p->taps[1], plan->kernels->rows_most), high = 4;
        const double each = cycles_for(high * block, (high + block - 1) * slot + high / 2) * 1.8; /* 1.8: measured */
        const double sums = 12 * block;
        return (double)p->out_channels * inner * (rows / block) * (outs / high * n * each + sums);
    }
    const double block = (double)ogp_even_block(p->out_channels, plan->kernels->channels_most);
    const double taps = (double)ogp_min(p->taps[2], plan->kernels->reduce_channels_taps);
    const double each = cycles_for(block * taps, taps * slot + block) / taps, sums = 12 * block;
    return (double)p->out_channels / block * inner * rows * (outs * n * each * 1.7 + sums); /* 1.7: measured */
}

double ogp_broadcast_cycles(double high, double across)
{
    const double products = 0.5 * high * across + 0.7; /* two a cycle, and the loop */
    const double loads = 0.5 * (high + across) + 0.5, latency = 4;
    return fmax(fmax(products, loads), latency);
}
