/* SPDX-License-Identifier: Apache-2.0 */
/* The reading half of Fourier tiles (fourier.h): from the tensor to spectra, and what is seen on the way. */
#include <string.h>

#include "fourier.h"
#include "util.h"

void ogp_fourier_carve_reader(struct arena *a, const struct fourier *f, struct reader *r)
{
    const size_t rows = (size_t)f->points[1];
    for (int tile = 0; tile < 2; tile++) {
        r->packed[tile] = arena_take(a, (size_t)(f->points[1] * f->columns * f->bytes));
        r->sums[tile] = arena_take(a, (size_t)(f->points[1] * f->columns * f->bytes));
        r->offset[tile] = arena_take(a, rows * sizeof(int64_t));
    }
    r->place = arena_take(a, rows * sizeof(int64_t));
    r->across = arena_take(a, (size_t)f->columns * sizeof(int64_t));
}

void ogp_fourier_aim(struct reader *r)
{
    for (int tile = 0; tile < 2; tile++) {
        const struct sampling *const height = &r->sampling[tile][1];
        r->rows[tile] = ogp_sampled(height);
        for (int64_t h = r->rows[tile].lo; h < r->rows[tile].hi; h++)
            r->offset[tile][h] = ogp_sample_source(height, h) * r->volume.axis[1];
        memset(r->packed[tile], 0, (size_t)(r->fourier->points[1] * r->fourier->columns * r->fourier->bytes));
    }
    for (int64_t h = 0; h < r->fourier->points[1]; h++)
        r->place[h] = h * r->fourier->columns;
}

bool ogp_fourier_repeats(const struct reader *r)
{
    const struct axis *const axis = &r->plan->problem.axis[2];
    return (r->width.padding == OGP_REFLECT || r->width.padding == OGP_REPLICATE) && r->fourier->tap == 1 &&
           2 * ogp_max(axis->p, axis->q) < axis->k;
}

bool ogp_fourier_repeats_zeros(const struct reader *r, bool zeros)
{
    /* below the tensor they repeat what may lie in chunks to come */
    return ogp_fourier_repeats(r) && (zeros || 2 * ogp_inside(&r->width).lo >= r->width.count);
}

/* Whether the columns inside the tensor are taken from where they lie: they are neighbours there, and no others are to
 * be judged with them. */
static bool is_straight(const struct reader *r)
{
    const struct run run = ogp_sampled(&r->width), inside = ogp_inside(&r->width);
    return r->width.step * r->volume.axis[2] == 1 &&
           ((run.lo == inside.lo && run.hi == inside.hi) || ogp_fourier_repeats(r));
}

/* Elements from a row of the tensor to the columns that a padding mode puts beside it. */
static void find_border(const struct reader *r)
{
    const struct run run = ogp_sampled(&r->width), inside = ogp_inside(&r->width);
    for (int64_t c = run.lo; c < run.hi; c++)
        if (c < inside.lo || c >= inside.hi)
            r->across[c] = ogp_sample_source(&r->width, c) * r->volume.axis[2];
}

/* Column c of all rows of a plane. */
static void pack_column(const struct reader *r, int tile, const char *plane, int64_t c)
{
    const int64_t step = r->fourier->columns, *const offset = r->offset[tile];
    const struct run rows = r->rows[tile];
    if (r->fourier->bytes == sizeof(float)) {
        const float *const in = (const float *)(const void *)plane + r->across[c];
        for (int64_t h = rows.lo; h < rows.hi; h++)
            ((float *)(void *)r->packed[tile])[h * step + c] = in[offset[h]];
    } else {
        const double *const in = (const double *)(const void *)plane + r->across[c];
        for (int64_t h = rows.lo; h < rows.hi; h++)
            ((double *)(void *)r->packed[tile])[h * step + c] = in[offset[h]];
    }
}

static void pack_border(const struct reader *r, int tile, const char *plane)
{
    const struct run run = ogp_sampled(&r->width), inside = ogp_inside(&r->width);
    for (int64_t c = run.lo; c < inside.lo; c++)
        pack_column(r, tile, plane, c);
    for (int64_t c = inside.hi; c < run.hi; c++)
        pack_column(r, tile, plane, c);
}

static void pack_inside(const struct reader *r, int tile, const char *plane)
{
    const struct run inside = ogp_inside(&r->width);
    const int64_t columns = inside.hi - inside.lo, across = r->volume.axis[2], bytes = r->fourier->bytes;
    const int64_t step = columns > 1 ? r->width.step * across : 1;
    const char *const first = plane + (r->width.first + r->width.step * inside.lo) * across * bytes;
    for (int64_t h = r->rows[tile].lo; h < r->rows[tile].hi && columns > 0; h++)
        r->plan->kernels->gather(r->packed[tile] + (h * r->fourier->columns + inside.lo) * bytes,
                                 first + r->offset[tile][h] * bytes, step, columns);
}

/* Takes plane d of a tile to r->packed, zeros where there is none. Sets the rows and columns of *take. Planes are
 * judged in pairs, the last with the one before if it has no other: a flat reflector crosses zero in all of a plane. */
static void take_plane(const struct reader *r, int tile, int64_t d, int64_t together, struct ogp_take *take)
{
    const struct fourier *const f = r->fourier;
    const struct sampling *const depth = &r->sampling[tile][0];
    const struct run *const rows = &r->rows[tile], planes = ogp_sampled(depth);
    const int64_t from_d = ogp_sample_source(depth, d);
    if (from_d < 0) {
        memset(r->packed[tile], 0, (size_t)(f->points[1] * f->columns * f->bytes));
        return;
    }
    const char *const plane = r->volume.data + from_d * r->volume.axis[0] * f->bytes;
    const bool straight = is_straight(r);
    const struct run run = straight ? ogp_inside(&r->width) : ogp_sampled(&r->width);
    if (!straight) {
        pack_inside(r, tile, plane);
        pack_border(r, tile, plane);
    }
    take->lo = run.lo;
    take->hi = run.hi;
    take->count = rows->hi - rows->lo;
    take->step = f->columns;
    take->out = r->packed[tile] + rows->lo * f->columns * f->bytes;
    take->in = straight ? plane + r->width.first * r->volume.axis[2] * f->bytes : take->out;
    take->offset = straight ? r->offset[tile] + rows->lo : r->place;
    take->sums = r->sums[tile];
    take->joins = together == 2 && d > planes.lo;
    take->judges = together == 1 || (d - planes.lo) % 2 == 1 || d + 1 == planes.hi;
    r->plan->kernels->take(take);
    if (straight)
        pack_border(r, tile, plane);
}

/* Asks for the rows of plane d of a tile while the one before is transformed: a chunk is a few lines of each row, which
 * the hardware does not foresee. Earlier, and what is asked for would drive the spectra out of the second-level cache.
 */
static void prefetch(const struct reader *r, int tile, int64_t d)
{
    const struct sampling *const depth = &r->sampling[tile][0];
    const struct run run = ogp_inside(&r->width);
    const int64_t from_d = ogp_sample_source(depth, d), bytes = (run.hi - run.lo) * r->fourier->bytes;
    if (from_d < 0 || r->width.step * r->volume.axis[2] != 1)
        return;
    const char *const plane =
        r->volume.data + (from_d * r->volume.axis[0] + r->width.first + run.lo) * r->fourier->bytes;
    for (int64_t h = r->rows[tile].lo; h < r->rows[tile].hi; h++)
        for (int64_t at = 0; at < bytes; at += OGP_ALIGN)
            __builtin_prefetch(plane + r->offset[tile][h] * r->fourier->bytes + at, 0, 2);
}

static int64_t planes(const struct reader *r)
{
    return ogp_max(r->sampling[0][0].count, r->sampling[1][0].count);
}

void ogp_fourier_read(struct reader *r, char *spectra, const void *twiddle, struct finding *found,
                      struct segment segment, double *sum)
{
    const struct fourier *const f = r->fourier;
    const int64_t filled = planes(r), rest = f->points[0] - filled;
    struct ogp_take take = {
        .group = segment.rows, .vectors = r->vectors, .loudest = found->loudest, .quietest = found->quietest};
    struct ogp_fft fft = {.re = r->packed[0],
                          .im = r->packed[1],
                          .re_step = f->columns,
                          .im_step = f->columns,
                          .twiddle = twiddle,
                          .step = f->bin,
                          .imaginary = f->columns,
                          .vectors = r->vectors};
    find_border(r);
    if (r->begins)
        memset(spectra + filled * f->plane * f->bytes, 0, (size_t)(rest * f->plane * f->bytes));
    for (int64_t d = 0; d < filled; d++) {
        for (int tile = 0; tile < 2; tile++) {
            prefetch(r, tile, d + 1);
            take_plane(r, tile, d, segment.planes, &take);
            for (int64_t h = 0; h < f->points[1] && sum; h++)
                *sum += r->plan->kernels->sum(r->packed[tile] + h * f->columns * f->bytes, 1,
                                              r->vectors * r->plan->kernels->lanes);
        }
        fft.bins = spectra + d * f->plane * f->bytes;
        f->fft[1]->forward(&fft);
    }
    *found = (struct finding){take.loudest, take.quietest, found->zeros || take.zeros};
}

void ogp_fourier_zeros(const struct reader *r, uint64_t *bits)
{
    const struct fourier *const f = r->fourier;
    struct ogp_take take = {.group = 1, .vectors = r->vectors};
    find_border(r);
    for (int64_t d = 0; d < planes(r); d++)
        for (int tile = 0; tile < 2; tile++) {
            take_plane(r, tile, d, 1, &take);
            uint64_t *const row = bits + (tile * f->points[0] + d) * f->points[1];
            for (int64_t h = 0; h < f->points[1]; h++)
                row[h] |= r->plan->kernels->zeros(r->packed[tile] + h * f->columns * f->bytes,
                                                  r->vectors * r->plan->kernels->lanes)
                          << (64 - f->columns);
        }
}

uint64_t ogp_fourier_padding_zeros(const struct reader *r)
{
    const int64_t columns = r->fourier->columns, read = r->vectors * r->plan->kernels->lanes;
    const struct run run = ogp_sampled(&r->width);
    uint64_t bits = 0;
    for (int64_t c = 0; c < read; c++)
        if (c < run.lo || c >= run.hi)
            bits |= (uint64_t)1 << (64 - columns + c);
    return bits;
}

void ogp_fourier_slab(const struct reader *r, char *slab, char *spectra, int64_t h, const void *twiddle)
{
    const struct fourier *const f = r->fourier;
    char *const bin = spectra + h * f->bin * f->bytes;
    const struct ogp_fft fft = {.re = bin,
                                .im = bin + f->columns * f->bytes,
                                .re_step = f->plane,
                                .im_step = f->plane,
                                .twiddle = twiddle,
                                .step = f->slab,
                                .imaginary = f->part,
                                .vectors = r->vectors,
                                .bins = slab + f->history * f->bytes};
    f->fft[0]->forward(&fft);
}

/* Real and imaginary parts of a slab follow each other at `part`; pitches between bins need not be twice that. */
static void copy_history(const struct ogp_plan *plan, const struct fourier *f, char *out, int64_t out_step,
                         int64_t out_part, const char *in, int64_t in_step, int64_t in_part)
{
    const int64_t vectors = f->history / plan->kernels->lanes;
    for (int part = 0; part < 2 && vectors > 0; part++)
        plan->kernels->copy_rows(out + part * out_part * f->bytes, out_step, in + part * in_part * f->bytes, in_step,
                                 f->points[0], vectors);
}

void ogp_fourier_recall(const struct ogp_plan *plan, const struct fourier *f, char *slab, const char *history)
{
    if (!history) {
        for (int64_t d = 0; d < f->points[0]; d++)
            for (int part = 0; part < 2; part++)
                memset(slab + (d * f->slab + part * f->part) * f->bytes, 0, (size_t)(f->history * f->bytes));
        return;
    }
    copy_history(plan, f, slab, f->slab, f->part, history, 2 * f->history, f->history);
}

void ogp_fourier_keep(const struct ogp_plan *plan, const struct fourier *f, char *history, const char *slab)
{
    copy_history(plan, f, history, 2 * f->history, f->history, slab + f->columns * f->bytes, f->slab, f->part);
}
