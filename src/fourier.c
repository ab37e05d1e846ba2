/* SPDX-License-Identifier: Apache-2.0 */
#include "fourier.h"

#include <math.h>

#include "cpu.h"
#include "direct.h"
#include "util.h"

/* ---- sizes ---- */

struct piece ogp_fourier_piece(const struct ogp_plan *plan, int a)
{
    return ogp_whole_piece(&plan->lattice[a], ogp_fourier_first(&plan->lattice[a]));
}

/* Columns need not be read where all are zero. Then a row of the tensor is read from its first element on: whole lines
 * of memory, if rows begin with one. */
static int64_t skipped_columns(const struct ogp_plan *plan, const struct fourier *f)
{
    const struct lattice *const width = &plan->lattice[2];
    const int64_t in0 = ogp_fourier_piece(plan, 2).in0;
    if (in0 >= 0 || (!width->adjoint && width->padding != OGP_ZEROS))
        return 0;
    return ogp_min(f->window - 1, ogp_ceil_div(-in0, f->step));
}

struct fourier ogp_fourier(const struct ogp_plan *plan, const struct tiling *t)
{
    const int64_t lanes = plan->kernels->lanes;
    const struct lattice *const width = &plan->lattice[2];
    struct fourier f = {
        .columns = t->columns, .vectors = t->columns / lanes, .step = width->lcm / width->l1, .tap = width->l1};
    f.window = (width->axis.k - 1) * f.tap + 1;
    f.bytes = ogp_dtype_bytes(plan->problem.dtype);
    for (int a = 0; a < 2; a++) {
        f.fft[a] = t->fft[a];
        f.points[a] = t->fft[a]->points;
    }
    f.history = ogp_round_up(f.window - 1, lanes);
    f.skip = skipped_columns(plan, &f);
    const int64_t columns = ogp_fourier_extent(width) + f.window - 1 - f.skip;
    f.chunks = ogp_ceil_div(columns, f.columns);
    f.vectors_all = ogp_ceil_div(columns, lanes);
    f.bin = 2 * f.columns;
    f.plane = ogp_odd_lines(f.points[1] * f.bin, f.bytes);
    f.part = f.history + f.columns;
    f.slab = ogp_odd_lines(2 * f.part, f.bytes);
    return f;
}

struct twiddles ogp_fourier_carve_twiddles(struct arena *a, const struct fourier *f)
{
    struct twiddles t;
    for (int axis = 0; axis < 2; axis++) {
        t.axis[axis] = arena_take(a, (size_t)(2 * f->points[axis] * f->bytes));
        t.exact[axis] = arena_take(a, (size_t)(2 * f->points[axis]) * sizeof(double));
    }
    return t;
}

void ogp_fourier_fill_twiddles(const struct fourier *f, const struct twiddles *t)
{
    for (int axis = 0; axis < 2; axis++) {
        ogp_transform_twiddles(t->axis[axis], f->points[axis], f->bytes == sizeof(double));
        ogp_transform_twiddles(t->exact[axis], f->points[axis], true);
    }
}

/* ---- choosing ---- */

bool ogp_fourier_applies(const struct ogp_plan *plan)
{
    if (plan->pass == OGP_GRAD_BIAS || plan->precision == OGP_ELEMENTWISE ||
        ogp_max(plan->problem.ci_g, plan->problem.co_g) * plan->problem.axis[2].k > OGP_LONGEST_SUM)
        return false;
    for (int a = 0; a < 3; a++) {
        const struct lattice *const lat = &plan->lattice[a];
        /* with s' = 1 and s > 1 grad input has classes that no tap reaches */
        if (lat->s1 != 1 || (lat->adjoint && lat->axis.s > 1) ||
            (lat->fold && (lat->padding == OGP_CIRCULAR || lat->lcm > 1)) || lat->axis.k > OGP_POINTS_MOST / 2 ||
            lat->lcm == INT64_MAX || (a == 2 && ogp_mul_saturated(lat->axis.k - 1, lat->l1) >= 64))
            return false;
    }
    return true;
}

/* Real operations of a small transform (kernels/fft.h). */
static double operations(int points)
{
    static const double count[] = {[1] = 0, [2] = 4, [3] = 16, [4] = 16, [5] = 44, [6] = 44, [8] = 60};
    return count[points];
}

/* Modelled cycles of one transform of a vector of columns, its pointers included. */
static double transform_cycles(const struct ogp_fft_row *row, int64_t vectors)
{
    const double a = row->a, b = row->b, products = 4 * (a - 1) * b;
    return 0.66 * (b * operations(row->a) + a * operations(row->b) + products) + (2.5 + 16 / (double)vectors) * a * b +
           10;
}

double ogp_fourier_read_cycles(const struct fourier *f, double planes)
{
    return planes * (transform_cycles(f->fft[1], f->vectors) + 4.0 * (double)f->points[1]);
}

double ogp_fourier_write_cycles(const struct fourier *f, double planes, double rows)
{
    return planes * (transform_cycles(f->fft[1], f->vectors) + (2 + 4 / (double)f->vectors) * rows);
}

double ogp_fourier_depth_cycles(const struct fourier *f)
{
    return (double)f->points[1] * transform_cycles(f->fft[0], f->vectors);
}

double ogp_fourier_history_cycles(const struct fourier *f)
{
    return 6 * (double)(f->points[0] * f->points[1] * f->history) / (double)f->columns;
}

double ogp_fourier_spectrum_cycles(const struct ogp_plan *plan, const struct fourier *f)
{
    const struct axis *const axis = plan->problem.axis;
    const double heights = (double)axis[0].k * transform_cycles(f->fft[1], 1),
                 depths = (double)f->points[1] * transform_cycles(f->fft[0], 1);
    const double vectors = (double)ogp_ceil_div(axis[2].k, plan->kernels_f64->lanes),
                 bins = (double)(f->points[0] * f->points[1]);
    return vectors * (heights + depths) + 6 * bins * (double)axis[2].k;
}

/* Whether some cache holds both tensors. */
static bool is_near(const struct problem *p)
{
    double x = (double)(p->n * p->ci), y = (double)(p->n * p->co);
    for (int a = 0; a < 3; a++) {
        x *= (double)p->axis[a].i;
        y *= (double)p->axis[a].o;
    }
    return (x + y) * (double)ogp_dtype_bytes(p->dtype) < 4 * (double)ogp_cpu_cache_bytes();
}

double ogp_fourier_memory_cycles(const struct ogp_plan *plan, const struct fourier *f, double rows)
{
    const double vector = (double)(plan->kernels->lanes * f->bytes), lines = 1 + 1 / (double)f->vectors;
    return (is_near(&plan->problem) ? 0.05 : 0.105) * rows * vector * (vector < 64 ? 1 : lines);
}

double ogp_fourier_spill(size_t bytes)
{
    const double cache = (double)ogp_cpu_cache_bytes(), over = ((double)bytes - 0.7 * cache) / cache;
    return 0.85 * (1 + 0.3 * fmin(fmax(over, 0), 3)); /* 0.85: measured over what the parts add up to */
}

static int64_t members(const struct lattice *lat)
{
    return lat->fold ? ogp_fourier_extent(lat) : ogp_lattice_members(lat);
}

/* Whether blocks of `most` outputs, or a chunk of so many columns, hold what folds into them. */
static bool holds_folds(const struct lattice *lat, int64_t most)
{
    const int64_t extent = ogp_fourier_extent(lat), reach = 2 * ogp_max(lat->axis.p, lat->axis.q) + 1;
    return !lat->fold || extent / ogp_ceil_div(extent, most) >= reach;
}

/* Whether a row can serve an axis. A kernel of one tap needs no transform; others none that the axis cannot fill. */
static bool serves(const struct ogp_kernels *k, int row, const struct lattice *lat)
{
    const int64_t taps = lat->axis.k, points = k->fft[row].points;
    if (taps == 1)
        return points == 1;
    return points > taps && (row < 2 || k->fft[row - 1].points < members(lat) + taps - 1);
}

bool ogp_fourier_choose(struct ogp_plan *plan, struct tiling t, int64_t limit,
                        size_t (*bytes)(const struct ogp_plan *, const struct tiling *),
                        double (*cost)(const struct ogp_plan *, const struct tiling *))
{
    const struct ogp_kernels *const k = plan->kernels;
    const struct lattice *const width = &plan->lattice[2];
    const int64_t beyond = (width->axis.k - 1) * width->l1, extent = ogp_fourier_extent(width),
                  vectors_most = ogp_ceil_div(extent + beyond, k->lanes);
    bool found = false;
    t.out[2] = extent;
    for (int d = 0; d < OGP_FFT_ROWS; d++)
        for (int h = 0; h < OGP_FFT_ROWS; h++) {
            if (!serves(k, d, &plan->lattice[0]) || !serves(k, h, &plan->lattice[1]))
                continue;
            t.fft[0] = &k->fft[d];
            t.fft[1] = &k->fft[h];
            for (int a = 0; a < 2; a++)
                t.out[a] = ogp_even_block(members(&plan->lattice[a]), t.fft[a]->points - plan->problem.axis[a].k + 1);
            if (!holds_folds(&plan->lattice[0], t.out[0]) || !holds_folds(&plan->lattice[1], t.out[1]))
                continue;
            for (int vectors = 1; vectors <= 4 && vectors <= vectors_most; vectors++) {
                t.columns = vectors * k->lanes;
                if (width->fold && t.columns <= beyond + 2 * width->axis.p)
                    continue;
                /* muted outputs are bits of a word, which grad weight has none of */
                if ((plan->pass != OGP_GRAD_WEIGHT && t.columns + beyond > 64) || (int64_t)bytes(plan, &t) > limit)
                    break;
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

/* ---- units ---- */

static int64_t tile_count(const struct ogp_plan *plan, const struct tiling *t, int a)
{
    const struct lattice *const lat = &plan->lattice[a];
    return lat->fold ? ogp_ceil_div(ogp_fourier_extent(lat), t->out[a]) : ogp_span_count(lat, true, t->out[a]);
}

static struct span tile_span(const struct ogp_plan *plan, int a, int64_t at, int64_t tiles)
{
    const struct lattice *const lat = &plan->lattice[a];
    if (!lat->fold)
        return ogp_span_at(lat, true, plan->tiling.out[a], at);
    const int64_t extent = ogp_fourier_extent(lat), lo = at * extent / tiles, hi = (at + 1) * extent / tiles;
    return (struct span){ogp_fourier_first(lat) + lo, 1, hi - lo};
}

/* Tiles of a row of tiles along the height, rounded up to whole units where two rows may not share one: planes fold
 * before the height is transformed back, when both tiles are still mixed. */
static int64_t row_of_tiles(const struct ogp_plan *plan, const struct tiling *t)
{
    const int64_t across = tile_count(plan, t, 1);
    return plan->lattice[0].fold ? ogp_round_up(across, 2) : across;
}

int64_t ogp_fourier_units(const struct ogp_plan *plan, const struct tiling *t)
{
    return ogp_ceil_div(tile_count(plan, t, 0) * row_of_tiles(plan, t), 2);
}

struct unit ogp_fourier_unit(const struct ogp_plan *plan, int64_t u)
{
    const int64_t down = tile_count(plan, &plan->tiling, 0), across = tile_count(plan, &plan->tiling, 1);
    const int64_t row = row_of_tiles(plan, &plan->tiling);
    struct unit unit = {0};
    for (int tile = 0; tile < 2; tile++) {
        const int64_t d = (2 * u + tile) / row, h = (2 * u + tile) % row;
        if (d >= down || h >= across)
            continue;
        unit.span[tile][0] = tile_span(plan, 0, d, down);
        unit.span[tile][1] = tile_span(plan, 1, h, across);
        if (unit.span[tile][0].count == 0 || unit.span[tile][1].count == 0)
            unit.span[tile][0].count = unit.span[tile][1].count = 0;
    }
    return unit;
}

/* ---- judging ---- */

void ogp_fourier_add_finding(struct finding *all, const struct finding *one)
{
    all->loudest = fmax(all->loudest, one->loudest);
    all->quietest = fmin(all->quietest, one->quietest);
    all->zeros |= one->zeros;
}

void ogp_fourier_note(struct findings *f, const struct finding *now)
{
    f->of[f->count++ % OGP_CHUNKS_REACHED_MOST] = *now;
}

struct finding ogp_fourier_reached(const struct fourier *f, const struct findings *before)
{
    const int64_t reached = ogp_min(before->count, ogp_ceil_div(f->window - 1, f->columns));
    struct finding all = ogp_nothing_found;
    for (int64_t back = 1; back <= reached; back++)
        ogp_fourier_add_finding(&all, &before->of[(before->count - back) % OGP_CHUNKS_REACHED_MOST]);
    return all;
}

bool ogp_fourier_in_range(enum ogp_dtype dtype, double magnitude)
{
    const double most = dtype == OGP_F32 ? 0x1p60 : 0x1p400, least = dtype == OGP_F32 ? 0x1p-60 : 0x1p-400;
    return magnitude == 0 || (magnitude < most && magnitude > least);
}

bool ogp_fourier_fits(const struct ogp_plan *plan, const struct finding *chunk, const struct finding *history)
{
    const double loudest = fmax(chunk->loudest, history->loudest), quietest = fmin(chunk->quietest, history->quietest);
    if (!ogp_fourier_in_range(plan->problem.dtype, loudest))
        return false;
    return plan->precision == OGP_NORMWISE || loudest == 0 || loudest <= 0x1p12 * quietest;
}
