/* SPDX-License-Identifier: Apache-2.0 */
#include "spectral_output.h"

#include <string.h>

#include "mute.h"
#include "util.h"

/* ---- folding ---- */

/* Where in a span of padded outputs the at-th folds onto; -1 where it stays. */
static int64_t folds_onto(const struct lattice *lat, struct span span, int64_t at)
{
    const int64_t j = span.start + at;
    return !lat->fold || (j >= 0 && j < lat->out_extent)
               ? -1
               : ogp_pad_source(lat->padding, lat->out_extent, j) - span.start;
}

void ogp_spectral_fold_depth(const struct spectral_task *task, int64_t out_channel, int64_t h)
{
    const struct fourier *const f = task->f;
    char *const bin = task->s->spectra + (out_channel * f->points[0] * f->plane + h * f->bin) * f->bytes;
    for (int64_t d = 0; d < task->unit.span[0][0].count; d++) {
        const int64_t onto = folds_onto(&task->plan->lattice[0], task->unit.span[0][0], d);
        for (int part = 0; part < 2 && onto >= 0; part++)
            task->plan->kernels->scatter(bin + (onto * f->plane + part * f->columns) * f->bytes, 1,
                                         bin + (d * f->plane + part * f->columns) * f->bytes,
                                         task->s->reader.vectors * task->plan->kernels->lanes, 0, 1);
    }
}

/* Row h of a tile in scratch. */
static char *scratch_row(const struct spectral_task *task, int tile, int64_t h)
{
    return task->s->out[tile] + h * task->s->pitch * task->f->bytes;
}

/* Adds the rows of a tile that fold to those they fold onto. */
static void fold_height(const struct spectral_task *task, int tile)
{
    if (!task->plan->lattice[1].fold)
        return;
    for (int64_t h = 0; h < task->unit.span[tile][1].count; h++) {
        const int64_t onto = folds_onto(&task->plan->lattice[1], task->unit.span[tile][1], h);
        if (onto >= 0)
            task->plan->kernels->scatter(scratch_row(task, tile, onto), 1, scratch_row(task, tile, h),
                                         task->s->reader.vectors * task->plan->kernels->lanes, 0, 1);
    }
}

/* Columns [lo, hi) of the chunk fold onto elements s->onto of a row whose first is that of output `origin`. */
static void find_folded(const struct spectral_task *task, int64_t lo, int64_t hi, int64_t origin, int64_t step)
{
    const struct lattice *const lat = &task->plan->lattice[2];
    for (int64_t c = lo; c < hi; c++)
        task->s->onto[c] = (ogp_pad_source(lat->padding, lat->out_extent, task->first + c) - origin) * step;
}

static void add_element(enum ogp_dtype dtype, char *to, const char *value)
{
    if (dtype == OGP_F32)
        *(float *)(void *)to += *(const float *)(const void *)value;
    else
        *(double *)(void *)to += *(const double *)(const void *)value;
}

static void fold_columns(const struct spectral_task *task, char *to, const char *row, int64_t lo, int64_t hi)
{
    const int64_t bytes = task->f->bytes;
    for (int64_t c = lo; c < hi; c++)
        add_element(task->plan->problem.dtype, to + task->s->onto[c] * bytes, row + c * bytes);
}

/* ---- muted outputs ---- */

/* Outputs onto which others fold are muted where all of these are. */
static void fold_muted(const struct spectral_task *task, int tile)
{
    const struct fourier *const f = task->f;
    uint64_t *const window = task->s->window + tile * f->points[0] * f->points[1];
    for (int64_t d = 0; d < task->unit.span[tile][0].count; d++) {
        const int64_t onto = folds_onto(&task->plan->lattice[0], task->unit.span[tile][0], d);
        for (int64_t h = 0; h < f->points[1] && onto >= 0; h++)
            window[onto * f->points[1] + h] &= window[d * f->points[1] + h];
    }
}

bool ogp_spectral_find_muted(struct spectral_task *task)
{
    const struct fourier *const f = task->f;
    const int64_t nd = f->points[0], nh = f->points[1], ins = ogp_channels_in(task->plan);
    uint64_t *const window = task->s->window;
    uint64_t any = 0;
    const struct axis *const axis = task->plan->problem.axis;
    memset(window, 0xff, (size_t)(2 * nd * nh) * sizeof *window);
    for (int64_t in = 0; in < ins; in++)
        ogp_mute_runs(window, ogp_spectral_bits(task, in), 2 * nd * nh, axis[2].k, f->tap);
    for (int tile = 0; tile < 2; tile++) {
        const int64_t out_d = task->unit.span[tile][0].count, out_h = task->unit.span[tile][1].count;
        uint64_t *const rows = window + tile * nd * nh;
        for (int64_t d = 0; d < (out_d ? out_d + axis[0].k - 1 : 0); d++)
            ogp_mute_rows(rows + d * nh, 1, out_h, axis[1].k);
        for (int64_t h = 0; h < out_h; h++)
            ogp_mute_rows(rows + h, nh, out_d, axis[0].k);
        fold_muted(task, tile);
        for (int64_t h = 0; h < out_h; h++)
            for (int64_t d = 0; d < out_d; d++)
                any |= rows[d * nh + h];
    }
    return any != 0;
}

/* ---- writing ---- */

static const struct volume *output_of(const struct spectral_task *task)
{
    return task->plan->pass == OGP_GRAD_INPUT ? &task->job->x : &task->job->y;
}

/* The output at the first coordinates of a tile, plane d, and the chunk's first column. */
static char *plane_of(const struct spectral_task *task, int tile, int64_t channel, int64_t d)
{
    const struct volume *const out = output_of(task);
    const struct span *const span = task->unit.span[tile];
    return out->data +
           (task->place.n * out->n + channel * out->c + (span[0].start + (d ? span[0].step * d : 0)) * out->axis[0] +
            span[1].start * out->axis[1] + task->first * out->axis[2]) *
               task->f->bytes;
}

/* Whether rows go to the output in whole lines. */
static bool puts_rows(const struct spectral_task *task)
{
    const struct volume *const out = output_of(task);
    return out->axis[2] == 1 && (uintptr_t)out->data % (uintptr_t)task->f->bytes == 0 && !task->job->accumulate;
}

/* Whether the output is larger than what caches keep for who reads it next. */
static bool is_large(const struct ogp_plan *plan)
{
    const int64_t large = 32 << 20;
    int64_t elements = plan->problem.n * ogp_channels_out(plan) * plan->problem.g;
    for (int a = 0; a < 3; a++)
        elements *= plan->lattice[a].out_extent;
    return elements * ogp_dtype_bytes(plan->problem.dtype) >= large;
}

/* Rows of a plane of one tile that are outputs: [lo, hi) of its height, that of height lo at `to`, `step` elements
 * apart. */
struct rows {
    char *to;
    int64_t lo, hi, step;
};

/* The rows of plane d that do not fold away; none where the tile has no such plane, or that one folds away. */
static struct rows rows_of(const struct spectral_task *task, int tile, int64_t channel, int64_t d)
{
    const struct span *const span = task->unit.span[tile];
    const struct lattice *const height = &task->plan->lattice[1];
    struct rows rows = {.hi = span[1].count};
    while (rows.lo < rows.hi && folds_onto(height, span[1], rows.lo) >= 0)
        rows.lo++;
    while (rows.lo < rows.hi && folds_onto(height, span[1], rows.hi - 1) >= 0)
        rows.hi--;
    if (d >= span[0].count || folds_onto(&task->plan->lattice[0], span[0], d) >= 0)
        rows.hi = rows.lo;
    rows.step = span[1].count > 1 ? span[1].step * output_of(task)->axis[1] : 0;
    rows.to = plane_of(task, tile, channel, d) + rows.lo * rows.step * task->f->bytes;
    return rows;
}

void ogp_spectral_foresee(const struct spectral_task *task, int64_t out_channel, int64_t d)
{
    const int64_t bytes = task->f->bytes;
    if (output_of(task)->axis[2] != 1 || (puts_rows(task) && is_large(task->plan)))
        return;
    for (int tile = 0; tile < 2; tile++) {
        const struct rows rows = rows_of(task, tile, ogp_spectral_channel(task, out_channel), d);
        for (int64_t h = rows.lo; h < rows.hi; h++)
            for (int64_t at = task->lo * bytes; at < task->hi * bytes; at += OGP_ALIGN)
                __builtin_prefetch(rows.to + (h - rows.lo) * rows.step * bytes + at, 1, 2);
    }
}

static void mute_row(const struct spectral_task *task, char *row, uint64_t window, double value)
{
    for (int64_t i = task->lo; i < task->hi && window; i++)
        if (window >> (64 - task->f->columns + i) & 1)
            ogp_store(task->plan->problem.dtype, row, i, value);
}

/* One plane of both tiles of an output channel, and where its rows go. */
struct plane {
    struct rows rows[2];
    int64_t channel, d; /* of the task's channels, and of the tile */
    double bias;
};

/* All rows of a plane that has outputs. */
static int64_t inverted(const struct spectral_task *task, const struct plane *p, int tile)
{
    return p->rows[tile].hi > p->rows[tile].lo ? task->unit.span[tile][1].count : 0;
}

/* Back to rows in scratch. */
static void invert(const struct spectral_task *task, const struct plane *p, double bias)
{
    const struct fourier *const f = task->f;
    const struct ogp_fft back = {.re = task->s->out[0],
                                 .im = task->s->out[1],
                                 .re_step = task->s->pitch,
                                 .im_step = task->s->pitch,
                                 .re_count = inverted(task, p, 0),
                                 .im_count = inverted(task, p, 1),
                                 .twiddle = task->shared->twiddles.axis[1],
                                 .bins = task->s->spectra + (p->channel * f->points[0] + p->d) * f->plane * f->bytes,
                                 .step = f->bin,
                                 .imaginary = f->columns,
                                 .vectors = task->s->reader.vectors,
                                 .bias = bias};
    f->fft[1]->inverse(&back);
    for (int tile = 0; tile < 2 && task->muted; tile++) {
        const uint64_t *const window = task->s->window + (tile * f->points[0] + p->d) * f->points[1];
        for (int64_t h = 0; h < inverted(task, p, tile); h++)
            mute_row(task, scratch_row(task, tile, h), window[h], bias);
    }
}

/* Columns [lo, hi) of the chunk, which follow those of the chunk before unless it went direct. */
static void put_rows(const struct spectral_task *task, int tile, const struct plane *p, int64_t lo, int64_t hi)
{
    const struct tiling *const t = &task->plan->tiling;
    const struct rows *const rows = &p->rows[tile];
    const int64_t bytes = task->f->bytes;
    const struct ogp_put put = {
        .out = rows->to + lo * bytes,
        .in = scratch_row(task, tile, rows->lo) + lo * bytes,
        .carry = task->s->carry + (((p->channel * t->out[0] + p->d) * 2 + tile) * t->out[1] + rows->lo) * OGP_ALIGN,
        .out_step = rows->step,
        .in_step = task->s->pitch,
        .rows = rows->hi - rows->lo,
        .n = hi - lo,
        .before = task->first + lo - task->begun,
        .ends = hi == lo || task->first + hi == task->plan->lattice[2].out_extent,
        .stream = is_large(task->plan)};
    task->plan->kernels->put(&put);
}

/* Columns [lo, hi) added to what the output holds, or into other places than successive ones. */
static void scatter_rows(const struct spectral_task *task, int tile, const struct plane *p, int64_t lo, int64_t hi)
{
    const int64_t bytes = task->f->bytes, step = output_of(task)->axis[2];
    const struct rows *const rows = &p->rows[tile];
    for (int64_t h = rows->lo; h < rows->hi; h++)
        task->plan->kernels->scatter(rows->to + ((h - rows->lo) * rows->step + lo * step) * bytes,
                                     hi - lo > 1 ? step : 1, scratch_row(task, tile, h) + lo * bytes, hi - lo, p->bias,
                                     task->job->accumulate);
}

/* Columns below the axis fold onto others of the chunk. */
static void fold_low(const struct spectral_task *task, int tile, const struct rows *rows)
{
    const int64_t below = ogp_min(task->hi, -task->first);
    if (!task->plan->lattice[2].fold || below <= task->lo)
        return;
    find_folded(task, task->lo, below, task->first, 1);
    for (int64_t h = rows->lo; h < rows->hi; h++)
        fold_columns(task, scratch_row(task, tile, h), scratch_row(task, tile, h), task->lo, below);
}

/* Columns above the axis fold onto outputs that are written, of this chunk or the one before. */
static void fold_high(const struct spectral_task *task, int tile, const struct rows *rows)
{
    const int64_t above = ogp_max(task->lo, task->plan->lattice[2].out_extent - task->first);
    const int64_t bytes = task->f->bytes, step = output_of(task)->axis[2];
    if (!task->plan->lattice[2].fold || above >= task->hi)
        return;
    find_folded(task, above, task->hi, 0, step);
    for (int64_t h = rows->lo; h < rows->hi; h++)
        fold_columns(task, rows->to + ((h - rows->lo) * rows->step - task->first * step) * bytes,
                     scratch_row(task, tile, h), above, task->hi);
}

/* Columns of the chunk that are outputs themselves. */
static int64_t first_column(const struct spectral_task *task)
{
    return ogp_max(task->lo, -task->first);
}

static void write_rows(const struct spectral_task *task, int tile, const struct plane *p, bool puts)
{
    const int64_t lo = first_column(task), hi = ogp_min(task->hi, task->plan->lattice[2].out_extent - task->first);
    fold_height(task, tile);
    fold_low(task, tile, &p->rows[tile]);
    if (hi > lo && puts)
        put_rows(task, tile, p, lo, hi);
    else if (hi > lo)
        scatter_rows(task, tile, p, lo, hi);
    fold_high(task, tile, &p->rows[tile]);
}

/* Plane d of an output channel. */
static struct plane plane_at(const struct spectral_task *task, int64_t out_channel, int64_t d)
{
    const struct line *const b = &task->job->b;
    const int64_t channel = ogp_spectral_channel(task, out_channel);
    struct plane p = {.channel = out_channel, .d = d};
    p.bias = b->data ? ogp_load(task->plan->problem.dtype, b->data, channel * b->step) : 0;
    for (int tile = 0; tile < 2; tile++)
        p.rows[tile] = rows_of(task, tile, channel, d);
    return p;
}

static int64_t plane_count(const struct spectral_task *task)
{
    return ogp_max(task->unit.span[0][0].count, task->unit.span[1][0].count);
}

void ogp_spectral_write(struct spectral_task *task)
{
    const bool puts = puts_rows(task);
    if (puts && task->begun < 0)
        task->begun = task->first + first_column(task);
    for (int64_t out = 0; out < task->place.channels; out++)
        for (int64_t d = 0; d < plane_count(task); d++) {
            const struct plane p = plane_at(task, out, d);
            if (inverted(task, &p, 0) > 0 || inverted(task, &p, 1) > 0)
                invert(task, &p, puts ? p.bias : 0);
            for (int tile = 0; tile < 2; tile++)
                if (inverted(task, &p, tile) > 0)
                    write_rows(task, tile, &p, puts);
        }
}

void ogp_spectral_end_rows(struct spectral_task *task)
{
    for (int64_t out = 0; out < task->place.channels && task->begun >= 0; out++)
        for (int64_t d = 0; d < plane_count(task); d++) {
            const struct plane p = plane_at(task, out, d);
            for (int tile = 0; tile < 2; tile++)
                put_rows(task, tile, &p, 0, 0);
        }
    task->begun = -1;
}
