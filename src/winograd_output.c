/* SPDX-License-Identifier: Apache-2.0 */
#include "winograd_output.h"

#include <string.h>

/* ---- muted outputs ---- */

/* Keeps of zero those columns whose taps are all zero, rows and planes likewise; whether any are left. */
static bool erode(const struct winograd *f, uint8_t *zero)
{
    const int64_t nh = f->points[1], width = f->reach;
    uint8_t any = 0;
    for (int64_t k = 0; k < f->bins; k++)
        for (int64_t i = 0; i < f->columns; i++)
            for (int64_t t = f->tap; t < f->window; t += f->tap)
                zero[k * width + i] &= zero[k * width + i + t];
    for (int64_t d = 0; d < f->points[0]; d++)
        for (int64_t h = 0; h < f->outs[1]; h++)
            for (int64_t t = 1; t < nh - f->outs[1] + 1; t++)
                for (int64_t i = 0; i < f->columns; i++)
                    zero[(d * nh + h) * width + i] &= zero[(d * nh + h + t) * width + i];
    for (int64_t d = 0; d < f->outs[0]; d++)
        for (int64_t h = 0; h < f->outs[1]; h++)
            for (int64_t i = 0; i < f->columns; i++) {
                for (int64_t t = 1; t < f->points[0] - f->outs[0] + 1; t++)
                    zero[(d * nh + h) * width + i] &= zero[((d + t) * nh + h) * width + i];
                any |= zero[(d * nh + h) * width + i];
            }
    return any != 0;
}

bool ogp_winograd_find_muted(const struct winograd_tile *tile)
{
    const struct winograd *const f = tile->f;
    memset(tile->s->zero, 1, (size_t)(f->bins * f->reach));
    for (int64_t in = 0; in < ogp_channels_in(tile->plan); in++)
        ogp_winograd_zeros(&tile->s->reader, in, tile->s->zero);
    return erode(f, tile->s->zero);
}

/* ---- writing ---- */

/* The output row of element 0 of the chunk: of the tile's first plane and row. */
static char *output_of(const struct winograd_tile *tile, int64_t out_channel, struct volume *out)
{
    const struct ogp_plan *const plan = tile->plan;
    const struct span *const span = tile->span;
    *out = plan->pass == OGP_GRAD_INPUT ? tile->job->x : tile->job->y;
    return out->data + (tile->place.n * out->n +
                        (tile->place.group * ogp_channels_out(plan) + tile->place.channel + out_channel) * out->c +
                        span[0].start * out->axis[0] + span[1].start * out->axis[1] + span[2].start * out->axis[2]) *
                           tile->f->bytes;
}

/* Bytes from there to row (d, h) of the tile. */
static int64_t row_at(const struct winograd_tile *tile, const struct volume *out, int64_t d, int64_t h)
{
    const struct span *const span = tile->span;
    return ((d ? span[0].step * d : 0) * out->axis[0] + (h ? span[1].step * h : 0) * out->axis[1]) * tile->f->bytes;
}

/* Asks for the memory of an output channel while bins are multiplied. */
static void foresee_output(const struct winograd_tile *tile, int64_t out_channel)
{
    struct volume out;
    const char *const data = output_of(tile, out_channel, &out);
    const int64_t size = tile->span[2].count * tile->f->bytes;
    for (int64_t d = 0; d < tile->span[0].count && out.axis[2] == 1; d++)
        for (int64_t h = 0; h < tile->span[1].count; h++)
            for (int64_t at = 0; at < size; at += OGP_ALIGN)
                __builtin_prefetch(data + row_at(tile, &out, d, h) + at, 1, 2);
}

/* All bins of output channels [out, out + count) of the pass. */
static void multiply(const struct winograd_tile *tile, int64_t out, int64_t count)
{
    const struct ogp_plan *const plan = tile->plan;
    const struct winograd *const f = tile->f;
    const struct winograd_scratch *const s = tile->s;
    const int64_t ins = ogp_channels_in(plan), most = ogp_max(1, OGP_WINOGRAD_SUM / f->taps);
    const int64_t block = ogp_winograd_block(plan), outs = tile->place.channels;
    struct ogp_multiply m = {.offset = s->offset,
                             .y_step = s->y_channel,
                             .taps = f->taps,
                             .tap = f->tap,
                             .vectors = ogp_ceil_div(tile->span[2].count, plan->kernels->lanes)};
    for (int64_t b = 0; b < f->bins; b++) {
        for (int64_t c = b * count / f->bins; c < (b + 1) * count / f->bins; c++)
            foresee_output(tile, out + c);
        for (int64_t c = 0; c < count; c += block) {
            const int64_t channels = ogp_winograd_block_channels(plan, out + c, outs);
            const char *const w =
                tile->shared->weights +
                (b * tile->shared->bin + tile->place.group * tile->shared->group + (out + c) * ins * f->taps) *
                    f->bytes;
            m.y = s->y + (c * s->y_channel + b * f->y_row) * f->bytes;
            m.accumulate = 0;
            for (int64_t in = 0; in < ins; in += most, m.accumulate = 1) {
                m.terms = ogp_min(most, ins - in);
                m.x = s->x + (b * s->x_bin + in * f->x_row) * f->bytes;
                m.w = w + in * f->taps * channels * f->bytes;
                plan->kernels->channels[channels](&m);
            }
        }
    }
}

static void mute(const struct winograd_tile *tile, char *row, const uint8_t *zero)
{
    for (int64_t i = 0; i < tile->span[2].count; i++)
        if (zero[i])
            ogp_store(tile->plan->problem.dtype, row, i, 0);
}

/* Rows of the tile from scratch to the output, from column `from` on. */
static void scatter(const struct winograd_tile *tile, char *data, const struct volume *out, int64_t from, double bias)
{
    const struct winograd *const f = tile->f;
    const int64_t count = tile->span[2].count - from;
    for (int64_t d = 0; d < tile->span[0].count; d++)
        for (int64_t h = 0; h < tile->span[1].count; h++) {
            char *const row = tile->s->out + (d * f->outs[1] + h) * f->y_row * f->bytes;
            if (tile->muted)
                mute(tile, row, tile->s->zero + (d * f->points[1] + h) * f->reach);
            tile->plan->kernels->scatter(data + row_at(tile, out, d, h) + from * out->axis[2] * f->bytes,
                                         count > 1 ? out->axis[2] : 1, row + from * f->bytes, count, bias,
                                         tile->job->accumulate);
        }
}

/* Transforms the columns of one channel back: whole vectors straight into the output where rows lie there as they do
 * here, the rest by way of scratch. */
static void write_channel(const struct winograd_tile *tile, int64_t out_channel, const char *bins, double bias)
{
    const struct ogp_plan *const plan = tile->plan;
    const struct winograd *const f = tile->f;
    const int64_t lanes = plan->kernels->lanes, rows = f->outs[0] * f->outs[1];
    const struct span *const span = tile->span;
    struct volume out;
    char *const data = output_of(tile, out_channel, &out);
    const bool straight = out.axis[2] == 1 && !tile->job->accumulate && !tile->muted;
    const int64_t whole = straight ? span[2].count / lanes : 0, all = ogp_ceil_div(span[2].count, lanes);
    struct ogp_winograd m = {
        .rows = tile->s->to, .bins = (char *)(uintptr_t)bins, .bin = f->y_row, .vectors = whole, .bias = bias};
    for (int64_t k = 0; k < rows && whole > 0; k++) {
        const int64_t d = k / f->outs[1], h = k % f->outs[1];
        tile->s->to[k] = d < span[0].count && h < span[1].count ? data + row_at(tile, &out, d, h)
                                                                : tile->s->out + rows * f->y_row * f->bytes;
    }
    if (whole > 0)
        f->row->inverse(&m);
    if (whole == all)
        return;
    for (int64_t k = 0; k < rows; k++)
        tile->s->to[k] = tile->s->out + (k * f->y_row + whole * lanes) * f->bytes;
    m.bins = (char *)(uintptr_t)bins + whole * lanes * f->bytes;
    m.vectors = all - whole;
    m.bias = 0;
    f->row->inverse(&m);
    scatter(tile, data, &out, whole * lanes, bias);
}

void ogp_winograd_write(const struct winograd_tile *tile)
{
    const struct ogp_plan *const plan = tile->plan;
    const struct line *const b = &tile->job->b;
    for (int64_t out = 0; out < tile->place.channels; out += plan->tiling.together) {
        const int64_t count = ogp_min(plan->tiling.together, tile->place.channels - out);
        multiply(tile, out, count);
        for (int64_t c = 0; c < count; c++) {
            const int64_t channel = tile->place.group * ogp_channels_out(plan) + tile->place.channel + out + c;
            const double bias = b->data ? ogp_load(plan->problem.dtype, b->data, channel * b->step) : 0;
            write_channel(tile, out + c, tile->s->y + c * tile->s->y_channel * tile->f->bytes, bias);
        }
    }
}
