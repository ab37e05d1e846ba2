/* SPDX-License-Identifier: Apache-2.0 */
#include "pack.h"

#include <string.h>

#include "arena.h"
#include "util.h"

int64_t ogp_odd_lines(int64_t elements, int64_t element_bytes)
{
    const int64_t line = OGP_ALIGN / element_bytes;
    return (ogp_ceil_div(elements, line) | 1) * line;
}

struct block ogp_block(int64_t channels, const int64_t extent[3], int64_t width, int64_t element_bytes)
{
    struct block b = {.channels = channels, .extent = {extent[0], extent[1], extent[2]}};
    b.row = ogp_odd_lines(width, element_bytes);
    b.plane = ogp_odd_lines(extent[1] * b.row, element_bytes);
    b.channel = ogp_odd_lines(extent[0] * b.plane, element_bytes);
    return b;
}

struct run ogp_inside(const struct sampling *s)
{
    const int64_t before = s->first < 0 ? ogp_ceil_div(-s->first, s->step) : 0;
    const int64_t until = s->first < s->extent ? ogp_ceil_div(s->extent - s->first, s->step) : 0;
    const int64_t lo = ogp_min(before, s->count);
    return (struct run){lo, ogp_max(lo, ogp_min(until, s->count))};
}

struct run ogp_sampled(const struct sampling *s)
{
    return s->count > 0 && s->padding == OGP_ZEROS ? ogp_inside(s) : (struct run){0, s->count};
}

int64_t ogp_sample_source(const struct sampling *s, int64_t m)
{
    return m < s->count ? ogp_pad_source(s->padding, s->extent, s->first + (m ? s->step * m : 0)) : -1;
}

/* Members [lo, hi) of a row, outside the axis: each by the padding mode, one by one. */
static void pack_border(char *out, const char *in, int64_t step, const struct sampling *s, int64_t lo, int64_t hi,
                        size_t bytes)
{
    for (int64_t m = lo; m < hi; m++) {
        const int64_t at = ogp_pad_source(s->padding, s->extent, s->first + s->step * m);
        memcpy(out + (size_t)m * bytes, in + at * step * (int64_t)bytes, bytes);
    }
}

static void pack_row(const struct ogp_kernels *k, char *out, const char *in, int64_t step, const struct sampling *s,
                     struct run run, size_t bytes)
{
    if (run.hi > run.lo)
        k->gather(out + (size_t)run.lo * bytes, in + (s->first + s->step * run.lo) * step * (int64_t)bytes,
                  run.hi - run.lo > 1 ? s->step * step : 1, run.hi - run.lo);
    if (s->padding == OGP_ZEROS) {
        memset(out, 0, (size_t)run.lo * bytes);
        memset(out + (size_t)run.hi * bytes, 0, (size_t)(s->count - run.hi) * bytes);
    } else {
        pack_border(out, in, step, s, 0, run.lo, bytes);
        pack_border(out, in, step, s, run.hi, s->count, bytes);
    }
}

/* Rows that lie in the tensor as they will in scratch, between zeros: a plane of a channel. */
static void pack_plane(const struct ogp_kernels *k, char *out, const struct block *block, const char *in,
                       int64_t row_step, const struct sampling sampling[3], size_t bytes)
{
    const struct sampling *const height = &sampling[1], *const width = &sampling[2];
    const struct run rows = ogp_inside(height), run = ogp_inside(width);
    const size_t pitch = (size_t)block->row * bytes;
    memset(out, 0, (size_t)rows.lo * pitch);
    if (rows.hi > rows.lo) {
        const int64_t first = height->first + (rows.lo ? height->step * rows.lo : 0);
        const int64_t from = first * row_step + (run.hi > run.lo ? width->first + run.lo : 0);
        k->pad_rows(out + (size_t)rows.lo * pitch, block->row, in + from * (int64_t)bytes,
                    rows.hi - rows.lo > 1 ? height->step * row_step : 0, rows.hi - rows.lo, run.lo, run.hi - run.lo,
                    block->row / k->lanes);
    }
    memset(out + (size_t)rows.hi * pitch, 0, (size_t)(height->count - rows.hi) * pitch);
}

static void pack_planes(const struct ogp_plan *plan, char *out, const struct block *block, const struct volume *in,
                        const struct sampling sampling[3])
{
    const int64_t bytes = ogp_dtype_bytes(plan->problem.dtype);
    for (int64_t d = 0; d < sampling[0].count; d++) {
        const int64_t from = ogp_sample_source(&sampling[0], d);
        for (int64_t c = 0; c < block->channels; c++) {
            char *const plane = out + (d * block->plane + c * block->channel) * bytes;
            if (from < 0)
                memset(plane, 0, (size_t)(sampling[1].count * block->row * bytes));
            else
                pack_plane(plan->kernels, plane, block, in->data + (from * in->axis[0] + c * in->c) * bytes,
                           in->axis[1], sampling, (size_t)bytes);
        }
    }
}

static void pack_rows(const struct ogp_plan *plan, char *out, const struct block *block, const struct volume *in,
                      const struct sampling sampling[3])
{
    const size_t bytes = (size_t)ogp_dtype_bytes(plan->problem.dtype);
    const struct sampling *const width = &sampling[2];
    const struct run run = ogp_inside(width);
    for (int64_t d = 0; d < sampling[0].count; d++) {
        const int64_t from_d = ogp_sample_source(&sampling[0], d);
        for (int64_t h = 0; h < sampling[1].count; h++) {
            const int64_t from_h = ogp_sample_source(&sampling[1], h);
            char *row = out + (size_t)(d * block->plane + h * block->row) * bytes;
            const char *source = in->data + (from_d * in->axis[0] + from_h * in->axis[1]) * (int64_t)bytes;
            for (int64_t c = 0; c < block->channels;
                 c++, row += (size_t)block->channel * bytes, source += in->c * (int64_t)bytes) {
                if (from_d < 0 || from_h < 0) {
                    memset(row, 0, (size_t)block->row * bytes);
                    continue;
                }
                pack_row(plan->kernels, row, source, in->axis[2], width, run, bytes);
                memset(row + (size_t)width->count * bytes, 0, (size_t)(block->row - width->count) * bytes);
            }
        }
    }
}

void ogp_pack(const struct ogp_plan *plan, char *out, const struct block *block, const struct volume *in,
              const struct sampling sampling[3])
{
    const bool plain = sampling[2].padding == OGP_ZEROS && sampling[2].step == 1 && in->axis[2] == 1;
    (plain && block->row % plan->kernels->lanes == 0 ? pack_planes : pack_rows)(plan, out, block, in, sampling);
}

/* Makes one long row of rows, and of planes, that follow one another in the tensor and in scratch. */
static void join_rows(struct block *b, const struct volume *in, struct sampling s[3])
{
    for (int a = 1; a >= 0; a--) {
        struct sampling *const row = &s[2];
        const bool whole = row->first == 0 && row->step == 1 && row->count == row->extent && b->row == row->count;
        if (!whole || s[a].step != 1 || s[a].first < 0 || s[a].first + s[a].count > s[a].extent ||
            in->axis[a] != in->axis[2] * row->extent || (a == 0 && b->plane != b->row))
            return;
        row->first = s[a].first * row->extent;
        row->count *= s[a].count;
        row->extent *= s[a].extent;
        b->row = row->count;
        s[a] = (struct sampling){0, 1, 1, 1, s[a].padding};
    }
}

void ogp_pack_joined(const struct ogp_plan *plan, char *out, const struct block *block, const struct volume *in,
                     const struct sampling sampling[3])
{
    struct block b = *block;
    struct sampling s[3] = {sampling[0], sampling[1], sampling[2]};
    join_rows(&b, in, s);
    ogp_pack(plan, out, &b, in, s);
}

bool ogp_dense_run(const struct volume *in, const struct sampling sampling[3], int64_t *first)
{
    int64_t run = 1;
    *first = 0;
    for (int a = 2; a >= 0; a--) {
        const struct sampling *const s = &sampling[a];
        const struct run inside = ogp_inside(s);
        if (inside.lo > 0 || inside.hi < s->count || (s->count > 1 && s->step * in->axis[a] != run))
            return false;
        *first += s->first * in->axis[a];
        run *= s->count;
    }
    return true;
}

static double load_bias(const struct ogp_plan *plan, const struct line *bias, int64_t c)
{
    return bias->data ? ogp_load(plan->problem.dtype, bias->data, c * bias->step) : 0;
}

void ogp_unpack(const struct ogp_plan *plan, const struct volume *out, const struct span span[3], const char *in,
                const struct block *block, const struct line *bias, bool accumulate)
{
    const int64_t bytes = ogp_dtype_bytes(plan->problem.dtype);
    const int64_t step_d = span[0].count > 1 ? span[0].step * out->axis[0] : 0;
    const int64_t step_h = span[1].count > 1 ? span[1].step * out->axis[1] : 0;
    const int64_t step_w = span[2].count > 1 ? span[2].step * out->axis[2] : 1;
    for (int64_t d = 0; d < span[0].count; d++)
        for (int64_t c = 0; c < block->channels; c++) {
            char *to = out->data + (c * out->c + d * step_d) * bytes;
            const char *from = in + (c * block->channel + d * block->plane) * bytes;
            const double b = load_bias(plan, bias, c);
            if (step_w == 1) {
                plan->kernels->unpack_rows(to, step_h, from, block->row, span[1].count, span[2].count, b, accumulate);
                continue;
            }
            for (int64_t h = 0; h < span[1].count; h++)
                plan->kernels->scatter(to + h * step_h * bytes, step_w, from + h * block->row * bytes, span[2].count, b,
                                       accumulate);
        }
}

double ogp_row_cycles(int64_t n, bool dense)
{
    return 20 + (double)n * (dense ? 0.15 : 1.0);
}
