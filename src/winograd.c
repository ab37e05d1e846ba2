/* SPDX-License-Identifier: Apache-2.0 */
#include "winograd.h"

#include <math.h>
#include <string.h>

#include "cpu.h"
#include "direct.h"
#include "util.h"

/* ---- sizes ---- */

struct winograd ogp_winograd(const struct ogp_plan *plan, const struct tiling *t)
{
    const int64_t lanes = plan->kernels->lanes;
    struct winograd f = {.row = &plan->kernels->winograd[t->winograd[0]][t->winograd[1]],
                         .columns = t->columns,
                         .taps = plan->problem.axis[2].k,
                         .tap = plan->problem.axis[2].l,
                         .bytes = ogp_dtype_bytes(plan->problem.dtype)};
    for (int a = 0; a < 2; a++) {
        f.points[a] = ogp_winograd_points(t->winograd[a]);
        f.outs[a] = ogp_winograd_outputs(t->winograd[a]);
    }
    f.bins = f.points[0] * f.points[1];
    f.window = (f.taps - 1) * f.tap + 1;
    f.reach = ogp_round_up(f.columns + f.window - 1, lanes);
    f.x_row = ogp_odd_lines(f.reach, f.bytes);
    f.y_row = ogp_odd_lines(f.columns, f.bytes);
    f.chunks = ogp_ceil_div(plan->lattice[2].out_extent, f.columns);
    return f;
}

/* ---- choosing ---- */

bool ogp_winograd_applies(const struct ogp_plan *plan)
{
    const struct axis *const axis = plan->problem.axis;
    if (plan->pass == OGP_GRAD_BIAS || plan->precision == OGP_ELEMENTWISE || (axis[0].k != 3 && axis[1].k != 3))
        return false;
    for (int a = 0; a < 3; a++) {
        const struct lattice *const lat = &plan->lattice[a];
        if (axis[a].s != 1 || lat->fold || lat->lcm == INT64_MAX || (a < 2 && axis[a].k != 3 && axis[a].k != 1) ||
            (a == 2 && ogp_mul_saturated(axis[a].k - 1, axis[a].l) > plan->kernels->lanes))
            return false;
    }
    return true;
}

/* The row of an axis: F(2,3) where an axis has two outputs at most, or where memory is short. */
static int row_of(const struct lattice *lat, bool small)
{
    return lat->axis.k == 1 ? 0 : small || ogp_lattice_members(lat) <= 2 ? 1 : 2;
}

bool ogp_winograd_choose(struct ogp_plan *plan, struct tiling t, int64_t limit,
                         size_t (*bytes)(const struct ogp_plan *, const struct tiling *),
                         double (*cost)(const struct ogp_plan *, const struct tiling *))
{
    const int64_t widest = 256, lanes = plan->kernels->lanes; /* columns */
    const int64_t vectors = ogp_ceil_div(plan->lattice[2].out_extent, lanes);
    bool found = false;
    t.out[2] = plan->lattice[2].out_extent;
    for (int small = 0; small < 2 && !found; small++) {
        for (int a = 0; a < 2; a++) {
            t.winograd[a] = row_of(&plan->lattice[a], small);
            t.out[a] = ogp_winograd_outputs(t.winograd[a]);
        }
        for (int64_t most = widest / lanes, each; most > 0; most = each - 1) {
            each = ogp_even_block(vectors, most);
            t.columns = each * lanes;
            if ((int64_t)bytes(plan, &t) > limit)
                continue;
            const double price = cost(plan, &t);
            if (price < plan->cost) {
                plan->cost = price;
                plan->tiling = t;
                found = true;
            }
        }
    }
    return found;
}

/* ---- tiles ---- */

int64_t ogp_winograd_tiles(const struct ogp_plan *plan, const struct tiling *t, int axis)
{
    return ogp_span_count(&plan->lattice[axis], true, t->out[axis]);
}

struct span ogp_winograd_span(const struct ogp_plan *plan, int axis, int64_t at)
{
    return ogp_span_at(&plan->lattice[axis], true, plan->tiling.out[axis], at);
}

struct sampling ogp_winograd_sampling(const struct ogp_plan *plan, const struct winograd *f, int axis, struct span span)
{
    const struct lattice *const lat = &plan->lattice[axis];
    const struct piece piece = ogp_whole_piece(lat, span.start);
    return (struct sampling){piece.in0, axis == 2 ? 1 : piece.in_step,
                             span.count + (axis == 2 ? f->window : piece.taps) - 1, lat->in_extent,
                             lat->adjoint ? OGP_ZEROS : lat->padding};
}

/* ---- reading ---- */

void ogp_winograd_carve_reader(struct arena *a, const struct winograd *f, struct winograd_reader *r)
{
    r->packed = arena_take(a, (size_t)(f->bins * f->x_row * f->bytes));
    r->zero = arena_take(a, (size_t)(f->reach * f->bytes));
    r->row = arena_take(a, OGP_WINOGRAD_BINS * sizeof(void *));
    r->offset = arena_take(a, OGP_WINOGRAD_BINS * sizeof(int64_t));
}

/* Segments whose zeros may belong to a window that is zero as a whole: all but those past the last row of the tile. */
static uint32_t expected_segments(const struct winograd_reader *r)
{
    const int64_t across = (r->rows[1] + 1) / 2;
    uint32_t expected = 0;
    for (int64_t d = 0; d < r->rows[0] && d < r->sampling[0].count; d += 2)
        for (int64_t h = 0; h < r->rows[1] && h < r->sampling[1].count; h += 2)
            expected |= (uint32_t)1 << (d / 2 * across + h / 2);
    return expected;
}

void ogp_winograd_aim(struct winograd_reader *r, bool spread)
{
    const struct winograd *const f = r->winograd;
    const struct sampling *const width = &r->sampling[2];
    for (int a = 0; a < 2; a++)
        r->rows[a] = spread ? f->outs[a] : f->points[a];
    const int64_t lanes = r->plan->kernels->lanes, more = spread ? 0 : f->window - 1;
    r->vectors = ogp_ceil_div(ogp_round_up(width->count - more, lanes) + more, lanes);
    r->transform = spread ? f->row->spread : f->row->forward;
    r->inside = ogp_sampled(width);
    r->in_place = width->padding == OGP_ZEROS && (r->volume.axis[2] == 1 || width->count == 1);
    r->expected = expected_segments(r);
    memset(r->zero, 0, (size_t)(f->reach * f->bytes));
    for (int64_t d = 0; d < r->rows[0]; d++)
        for (int64_t h = 0; h < r->rows[1]; h++) {
            const int64_t from_d = ogp_sample_source(&r->sampling[0], d),
                          from_h = ogp_sample_source(&r->sampling[1], h);
            r->offset[d * r->rows[1] + h] =
                from_d < 0 || from_h < 0
                    ? INT64_MIN
                    : from_d * r->volume.axis[0] + from_h * r->volume.axis[1] + width->first * r->volume.axis[2];
        }
}

/* Points r->row at the rows of the channel. */
static void point(const struct winograd_reader *r, int64_t channel)
{
    const struct winograd *const f = r->winograd;
    struct volume volume = r->volume;
    volume.data += channel * volume.c * f->bytes;
    const struct block block = {.channels = 1, .plane = r->rows[1] * f->x_row, .row = f->x_row};
    if (!r->in_place)
        ogp_pack(r->plan, r->packed, &block, &volume, r->sampling);
    for (int64_t k = 0; k < r->rows[0] * r->rows[1]; k++)
        r->row[k] = r->offset[k] == INT64_MIN ? r->zero
                    : r->in_place             ? volume.data + r->offset[k] * f->bytes
                                              : r->packed + k * f->x_row * f->bytes;
}

void ogp_winograd_read(const struct winograd_reader *r, int64_t channel, char *bins, int64_t step, char *loud)
{
    const struct winograd *const f = r->winograd;
    point(r, channel);
    const struct ogp_winograd m = {.rows = r->row,
                                   .bins = bins,
                                   .loud = loud,
                                   .bin = step,
                                   .loud_step = ogp_winograd_loud_step(f),
                                   .vectors = r->vectors,
                                   .lo = r->inside.lo,
                                   .hi = r->inside.hi};
    r->transform(&m);
}

void ogp_winograd_foresee(const struct winograd_reader *r, int64_t channel)
{
    const int64_t bytes = r->winograd->bytes, size = (r->inside.hi - r->inside.lo) * bytes;
    const char *const data = r->volume.data + (channel * r->volume.c + r->inside.lo) * bytes;
    for (int64_t k = 0; k < r->rows[0] * r->rows[1] && r->in_place; k++)
        for (int64_t at = 0; at < size && r->offset[k] != INT64_MIN; at += OGP_ALIGN)
            __builtin_prefetch(data + r->offset[k] * bytes + at, 0, 2);
}

double ogp_winograd_sum(const struct winograd_reader *r)
{
    double sum = 0;
    for (int64_t k = 0; k < r->rows[0] * r->rows[1]; k++)
        if (r->offset[k] != INT64_MIN)
            sum += r->plan->kernels->sum((const char *)r->row[k] + r->inside.lo * r->winograd->bytes, 1,
                                         r->inside.hi - r->inside.lo);
    return sum;
}

static bool is_zero(const void *row, int64_t at, int64_t bytes)
{
    return bytes == 4 ? ((const float *)row)[at] == 0 : ((const double *)row)[at] == 0;
}

void ogp_winograd_zeros(const struct winograd_reader *r, int64_t channel, uint8_t *zero)
{
    const struct winograd *const f = r->winograd;
    point(r, channel);
    for (int64_t k = 0; k < r->rows[0] * r->rows[1]; k++)
        for (int64_t i = r->inside.lo; i < r->inside.hi; i++)
            zero[k * f->reach + i] &= is_zero(r->row[k], i, f->bytes);
}

/* ---- judging ---- */

/* A product of two operands grows by 10^4 at most between the transforms: 2^14, and 2^10 in the sum. */
static const double largest[] = {[OGP_F32] = 0x1p50, [OGP_F64] = 0x1p400};
static const double smallest[] = {[OGP_F32] = 0x1p-60, [OGP_F64] = 0x1p-400};

bool ogp_winograd_in_range(enum ogp_dtype dtype, double magnitude)
{
    return magnitude == 0 || (magnitude < largest[dtype] && magnitude > smallest[dtype]);
}

struct winograd_finding ogp_winograd_judge(const struct winograd_reader *r, char *loud)
{
    const struct winograd *const f = r->winograd;
    const enum ogp_dtype dtype = r->plan->problem.dtype;
    struct ogp_loudness m = {.loud = loud,
                             .step = ogp_winograd_loud_step(f),
                             .segments = ((r->rows[0] + 1) / 2) * ((r->rows[1] + 1) / 2),
                             .vectors = r->vectors,
                             .window = f->window,
                             .lo = r->inside.lo,
                             .hi = r->inside.hi,
                             .expected = r->expected,
                             .contrast = 0x1p12};
    r->plan->kernels->loudness(&m);
    const bool ranges = m.loudest < largest[dtype] && m.quietest > smallest[dtype];
    return (struct winograd_finding){ranges && (r->plan->precision == OGP_NORMWISE || !m.stark), m.zeros != 0};
}

/* ---- the model ---- */

double ogp_winograd_read_cycles(const struct ogp_plan *plan, const struct winograd *f, bool spread)
{
    const double rows = (double)(spread ? f->outs[0] * f->outs[1] : f->bins), bins = (double)f->bins;
    const double vectors = (double)((spread ? f->columns : f->reach) / plan->kernels->lanes);
    const double line = (double)(plan->kernels->lanes * f->bytes) / 64;
    return (vectors * (1.5 * rows + 3.5 * bins + 6 * rows * line) + 6 * rows + 40);
}

double ogp_winograd_spill(int64_t bytes)
{
    const double cache = (double)ogp_cpu_cache_bytes(), over = ((double)bytes - 0.7 * cache) / cache;
    return 1 + 0.1 * fmin(fmax(over, 0), 3);
}
