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
    return task->s->out[tile] + h * task->f->columns * task->f->bytes;
}

/* Adds the rows of a tile that fold to those they fold onto. */
static void fold_height(const struct spectral_task *task, int tile)
{
    for (int64_t h = 0; h < task->unit.span[tile][1].count; h++) {
        const int64_t onto = folds_onto(&task->plan->lattice[1], task->unit.span[tile][1], h);
        if (onto >= 0)
            task->plan->kernels->scatter(scratch_row(task, tile, onto), 1, scratch_row(task, tile, h),
                                         task->s->reader.vectors * task->plan->kernels->lanes, 0, 1);
    }
}

static void add_element(enum ogp_dtype dtype, char *to, const char *value)
{
    if (dtype == OGP_F32)
        *(float *)(void *)to += *(const float *)(const void *)value;
    else
        *(double *)(void *)to += *(const double *)(const void *)value;
}

/* Adds the columns of a row that fold to the outputs they fold onto, which are written: those of this chunk, and beyond
 * the high end of the axis those of the one before. line: the output row's element 0. */
static void fold_width(const struct spectral_task *task, char *line, int64_t step, const char *row)
{
    const struct lattice *const lat = &task->plan->lattice[2];
    const int64_t bytes = task->f->bytes;
    for (int64_t c = task->lo; c < task->hi; c++) {
        const int64_t j = task->first + c;
        if (j < 0 || j >= lat->out_extent)
            add_element(task->plan->problem.dtype,
                        line + ogp_pad_source(lat->padding, lat->out_extent, j) * step * bytes, row + c * bytes);
    }
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
        ogp_mute_runs(window, ogp_spectral_bits(task, in), 2 * nd * nh, axis[2].k);
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

/* The output at the first coordinates of a tile, plane d, and the chunk's first column. */
static char *plane_of(const struct spectral_task *task, int tile, int64_t channel, int64_t d, struct volume *out)
{
    const struct ogp_plan *const plan = task->plan;
    const struct span *const span = task->unit.span[tile];
    *out = plan->pass == OGP_GRAD_INPUT ? task->job->x : task->job->y;
    return out->data +
           (task->place.n * out->n + channel * out->c + (span[0].start + (d ? span[0].step * d : 0)) * out->axis[0] +
            span[1].start * out->axis[1] + task->first * out->axis[2]) *
               task->f->bytes;
}

/* Vectors of the chunk that go to the output as they are; the others pass through scratch. */
static struct run straight_vectors(const struct spectral_task *task, const struct volume *out)
{
    const int lanes = task->plan->kernels->lanes;
    if (out->axis[2] != 1 || task->job->accumulate || ogp_fourier_folds(task->plan))
        return (struct run){0, 0};
    const int64_t lo = ogp_ceil_div(task->lo, lanes);
    return (struct run){lo, ogp_max(lo, task->hi / lanes)};
}

/* Rows of a plane of one tile: `count` of them, that of height 0 at `to`, `step` elements apart. */
struct rows {
    char *to;
    int64_t count, step;
};

/* The rows of plane d; none where the tile has no such plane, or the plane folds away. */
static struct rows rows_of(const struct spectral_task *task, int tile, int64_t channel, int64_t d, struct volume *out)
{
    const struct span *const span = task->unit.span[tile];
    struct rows rows = {.to = plane_of(task, tile, channel, d, out)};
    rows.count = d < span[0].count && folds_onto(&task->plan->lattice[0], span[0], d) < 0 ? span[1].count : 0;
    rows.step = span[1].count > 1 ? span[1].step * out->axis[1] : 0;
    return rows;
}

void ogp_spectral_foresee(const struct spectral_task *task, int64_t out_channel, int64_t d)
{
    const int64_t bytes = task->f->bytes;
    struct volume out;
    for (int tile = 0; tile < 2; tile++) {
        const struct rows rows = rows_of(task, tile, ogp_spectral_channel(task, out_channel), d, &out);
        for (int64_t h = 0; h < rows.count && out.axis[2] == 1; h++)
            for (int64_t at = task->lo * bytes; at < task->hi * bytes; at += OGP_ALIGN)
                __builtin_prefetch(rows.to + h * rows.step * bytes + at, 1, 2);
    }
}

/* Columns [lo, hi) of the chunk that are muted. */
static void mute_row(const struct spectral_task *task, char *row, uint64_t window, struct run columns, double value)
{
    for (int64_t i = columns.lo; i < columns.hi && window; i++)
        if (window >> (64 - task->f->columns + i) & 1) {
            if (task->f->bytes == 4)
                ((float *)(void *)row)[i] = (float)value;
            else
                ((double *)(void *)row)[i] = value;
        }
}

/* Rows of both tiles of one plane, and where they go. */
struct plane {
    struct rows rows[2];
    const uint64_t *window[2]; /* [height]: muted columns; or NULL */
    int64_t channel, d;        /* of the task's channels, and of the tile */
    int64_t step;              /* between outputs of a row */
    double bias;
};

/* Vectors of the plane back to rows: into the output, or into scratch without the bias. */
static void invert(const struct spectral_task *task, const struct plane *p, struct run vectors, bool straight)
{
    const struct fourier *const f = task->f;
    const int64_t at = vectors.lo * task->plan->kernels->lanes, bytes = f->bytes;
    struct ogp_fft back = {
        .re = (straight ? p->rows[0].to : task->s->out[0]) + at * bytes,
        .im = (straight ? p->rows[1].to : task->s->out[1]) + at * bytes,
        .re_step = straight ? p->rows[0].step : f->columns,
        .im_step = straight ? p->rows[1].step : f->columns,
        .re_count = p->rows[0].count,
        .im_count = p->rows[1].count,
        .twiddle = task->shared->twiddles.axis[1],
        .bins = task->s->spectra + ((p->channel * f->points[0] + p->d) * f->plane + at) * bytes,
        .step = f->bin,
        .imaginary = f->columns,
        .vectors = vectors.hi - vectors.lo,
        .bias = straight ? p->bias : 0,
    };
    if (back.vectors > 0)
        f->fft[1]->inverse(&back);
}

static void write_straight(const struct spectral_task *task, const struct plane *p, struct run vectors)
{
    const int lanes = task->plan->kernels->lanes;
    invert(task, p, vectors, true);
    for (int tile = 0; tile < 2; tile++)
        for (int64_t h = 0; h < p->rows[tile].count && p->window[tile]; h++)
            mute_row(task, p->rows[tile].to + h * p->rows[tile].step * task->f->bytes, p->window[tile][h],
                     (struct run){vectors.lo * lanes, vectors.hi * lanes}, p->bias);
}

/* Columns of one tile from scratch to the output. */
static void write_rows(const struct spectral_task *task, int tile, const struct plane *p, struct run columns)
{
    const struct lattice *const width = &task->plan->lattice[2];
    const int64_t lo = ogp_max(columns.lo, -task->first), hi = ogp_min(columns.hi, width->out_extent - task->first);
    const int64_t bytes = task->f->bytes;
    const struct rows *const rows = &p->rows[tile];
    for (int64_t h = 0; h < rows->count && p->window[tile]; h++)
        mute_row(task, scratch_row(task, tile, h), p->window[tile][h], columns, 0);
    fold_height(task, tile);
    for (int64_t h = 0; h < rows->count; h++) {
        const char *const row = scratch_row(task, tile, h);
        char *const to = rows->to + h * rows->step * bytes;
        if (folds_onto(&task->plan->lattice[1], task->unit.span[tile][1], h) >= 0)
            continue;
        if (hi > lo)
            task->plan->kernels->scatter(to + lo * p->step * bytes, hi - lo > 1 ? p->step : 1, row + lo * bytes,
                                         hi - lo, p->bias, task->job->accumulate);
        if (width->fold)
            fold_width(task, to - task->first * p->step * bytes, p->step, row);
    }
}

/* Vectors of both tiles by way of scratch. */
static void write_by_scratch(const struct spectral_task *task, const struct plane *p, struct run vectors)
{
    const int lanes = task->plan->kernels->lanes;
    const struct run columns = {ogp_max(task->lo, vectors.lo * lanes), ogp_min(task->hi, vectors.hi * lanes)};
    if (columns.hi <= columns.lo)
        return;
    invert(task, p, vectors, false);
    for (int tile = 0; tile < 2; tile++)
        write_rows(task, tile, p, columns);
}

/* One plane of one output channel of both tiles. */
static void write_plane(const struct spectral_task *task, int64_t out_channel, int64_t d, double bias)
{
    const struct fourier *const f = task->f;
    const int64_t channel = ogp_spectral_channel(task, out_channel);
    struct volume out;
    struct plane p = {.channel = out_channel, .d = d, .bias = bias};
    for (int tile = 0; tile < 2; tile++) {
        p.rows[tile] = rows_of(task, tile, channel, d, &out);
        p.window[tile] = task->muted ? task->s->window + (tile * f->points[0] + d) * f->points[1] : NULL;
    }
    if (p.rows[0].count == 0 && p.rows[1].count == 0)
        return;
    p.step = out.axis[2];
    const struct run straight = straight_vectors(task, &out);
    write_straight(task, &p, straight);
    write_by_scratch(task, &p, (struct run){0, straight.lo});
    write_by_scratch(task, &p, (struct run){straight.hi, task->s->reader.vectors});
}

void ogp_spectral_write(const struct spectral_task *task)
{
    const struct ogp_plan *const plan = task->plan;
    const int64_t planes = ogp_max(task->unit.span[0][0].count, task->unit.span[1][0].count);
    for (int64_t out = 0; out < task->place.channels; out++) {
        const struct line *const b = &task->job->b;
        const double bias =
            b->data ? ogp_load(plan->problem.dtype, b->data, ogp_spectral_channel(task, out) * b->step) : 0;
        for (int64_t d = 0; d < planes; d++)
            write_plane(task, out, d, bias);
    }
}
