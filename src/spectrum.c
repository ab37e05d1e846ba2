/* SPDX-License-Identifier: Apache-2.0 */
#include "spectrum.h"

#include <math.h>
#include <string.h>

#include "arena.h"
#include "util.h"

/* The width taps pass one vector of doubles at a time: a pair is a vector of real parts and one of imaginary parts. */
struct columns {
    int64_t lanes, pair; /* doubles */
    int64_t plane;       /* of mixed */
    const struct ogp_fft_row *fft[2];
    double *rows;  /* [height]: of one depth tap */
    double *zeros; /* one row */
    double *mixed; /* [depth][height place] pairs: only the height is transformed */
    double *slab;  /* [depth place] pairs: of one height place */
};

static struct columns carve(struct arena *a, const struct ogp_plan *plan, const struct fourier *f)
{
    const struct ogp_kernels *const k = plan->kernels_f64;
    struct columns c = {.lanes = k->lanes, .pair = 2 * k->lanes};
    for (int axis = 0; axis < 2; axis++)
        c.fft[axis] = &k->fft[f->fft[axis] - plan->kernels->fft];
    c.plane = ogp_odd_lines(f->points[1] * c.pair, sizeof(double));
    c.rows = arena_take(a, (size_t)(f->points[1] * c.lanes) * sizeof(double));
    c.zeros = arena_take(a, (size_t)c.lanes * sizeof(double));
    c.mixed = arena_take(a, (size_t)(f->points[0] * c.plane) * sizeof(double));
    c.slab = arena_take(a, (size_t)(f->points[0] * c.pair) * sizeof(double));
    return c;
}

int64_t ogp_spectrum_scratch(const struct ogp_plan *plan, const struct fourier *f)
{
    struct arena a = {0};
    carve(&a, plan, f);
    return (int64_t)a.bytes;
}

/* The transform of depth tap d of c->mixed along the height, but for where it comes from or goes. */
static struct ogp_fft height_of(const struct columns *c, const struct twiddles *twiddles, int64_t d)
{
    return (struct ogp_fft){.bins = c->mixed + d * c->plane,
                            .twiddle = twiddles->exact[1],
                            .step = c->pair,
                            .imaginary = c->lanes,
                            .vectors = 1};
}

/* The transform of height place b between c->mixed, of which the inverse takes `taps` planes, and c->slab. */
static struct ogp_fft depth_of(const struct columns *c, const struct twiddles *twiddles, int64_t b, int64_t taps)
{
    double *const column = c->mixed + b * c->pair;
    return (struct ogp_fft){.re = column,
                            .im = column + c->lanes,
                            .bins = c->slab,
                            .twiddle = twiddles->exact[0],
                            .re_step = c->plane,
                            .im_step = c->plane,
                            .step = c->pair,
                            .imaginary = c->lanes,
                            .vectors = 1,
                            .re_count = taps,
                            .im_count = taps};
}

/* ---- from taps ---- */

/* Takes `count` width taps from t on of one depth tap to c->rows, scaled; returns the larger of `largest` and their
 * magnitudes, which are not. */
static double load_rows(const struct columns *c, enum ogp_dtype dtype, const struct weights *w,
                        const struct piece piece[3], int64_t d, int64_t t, int64_t count, double scale, double largest)
{
    for (int64_t h = 0; h < piece[1].taps; h++)
        for (int64_t k = 0; k < count; k++) {
            const double value = ogp_load(dtype, w->data,
                                          (piece[0].tap0 + piece[0].tap_step * d) * w->axis[0] +
                                              (piece[1].tap0 + piece[1].tap_step * h) * w->axis[1] +
                                              (piece[2].tap0 + piece[2].tap_step * (t + k)) * w->axis[2]);
            if (!(fabs(value) <= largest))
                largest = isfinite(value) ? fabs(value) : INFINITY;
            c->rows[h * c->lanes + k] = value * scale;
        }
    return largest;
}

/* Transforms the height of c->rows into depth tap d of c->mixed. The weights are the imaginary parts: exchanged in the
 * end, the two parts are the conjugate of their spectrum. */
static void mix_height(const struct columns *c, const struct twiddles *twiddles, int64_t d)
{
    struct ogp_fft height = height_of(c, twiddles, d);
    height.re = c->zeros;
    height.im = c->rows;
    height.im_step = c->lanes;
    c->fft[1]->forward(&height);
}

/* The pairs of c->slab, a depth place every `row` elements. */
static void store(const struct columns *c, enum ogp_dtype dtype, void *out, int64_t row, int64_t points, int64_t count)
{
    const double *re = c->slab + c->lanes, *im = c->slab;
    if (dtype == OGP_F32)
        for (float *to = out; points > 0; points--, to += row, re += c->pair, im += c->pair)
            for (int64_t k = 0; k < count; k++) {
                to[2 * k] = (float)re[k];
                to[2 * k + 1] = (float)im[k];
            }
    else
        for (double *to = out; points > 0; points--, to += row, re += c->pair, im += c->pair)
            for (int64_t k = 0; k < count; k++) {
                to[2 * k] = re[k];
                to[2 * k + 1] = im[k];
            }
}

double ogp_spectrum_of_weights(const struct ogp_plan *plan, const struct fourier *f, const struct twiddles *twiddles,
                               void *out, int64_t bin, int64_t row, const struct weights *w,
                               const struct piece piece[3], void *scratch)
{
    struct arena a = {.base = scratch};
    const struct columns c = carve(&a, plan, f);
    const double scale = 1 / (double)(f->points[0] * f->points[1]);
    memset(scratch, 0, a.bytes);
    double largest = 0;
    for (int64_t t = 0; t < piece[2].taps; t += c.lanes) {
        const int64_t count = ogp_min(c.lanes, piece[2].taps - t);
        for (int64_t d = 0; d < piece[0].taps; d++) {
            largest = load_rows(&c, plan->problem.dtype, w, piece, d, t, count, scale, largest);
            mix_height(&c, twiddles, d);
        }
        for (int64_t b = 0; b < f->points[1]; b++) {
            const struct ogp_fft depth = depth_of(&c, twiddles, b, piece[0].taps);
            c.fft[0]->forward(&depth);
            store(&c, plan->problem.dtype, (char *)out + (b * bin + 2 * t) * f->bytes, row, f->points[0], count);
        }
    }
    return largest;
}

/* ---- to taps ---- */

/* Height taps of depth tap d, their real parts, into c->rows. */
static void part_height(const struct columns *c, const struct twiddles *twiddles, int64_t d, int64_t taps)
{
    struct ogp_fft height = height_of(c, twiddles, d);
    height.re = height.im = c->rows;
    height.re_step = c->lanes;
    height.re_count = taps;
    c->fft[1]->inverse(&height);
}

void ogp_spectrum_to_taps(const struct ogp_plan *plan, const struct fourier *f, const struct twiddles *twiddles,
                          double *taps, const double *sum, void *scratch)
{
    const int64_t nd = f->points[0], nh = f->points[1];
    const int64_t kd = plan->problem.axis[0].k, kh = plan->problem.axis[1].k, kw = plan->problem.axis[2].k;
    const double scale = 1 / (double)(nd * nh);
    struct arena a = {.base = scratch};
    const struct columns c = carve(&a, plan, f);
    memset(c.slab, 0, (size_t)(nd * c.pair) * sizeof(double));
    for (int64_t t = 0; t < kw; t += c.lanes) {
        const int64_t count = ogp_min(c.lanes, kw - t);
        for (int64_t b = 0; b < nh; b++) {
            for (int64_t place = 0; place < nd; place++)
                for (int64_t k = 0; k < 2 * count; k++)
                    c.slab[place * c.pair + k % 2 * c.lanes + k / 2] = sum[2 * ((b * nd + place) * kw + t) + k];
            const struct ogp_fft depth = depth_of(&c, twiddles, b, kd);
            c.fft[0]->inverse(&depth);
        }
        for (int64_t d = 0; d < kd; d++) {
            part_height(&c, twiddles, d, kh);
            for (int64_t h = 0; h < kh; h++)
                for (int64_t k = 0; k < count; k++)
                    taps[(d * kh + h) * kw + t + k] += scale * c.rows[h * c.lanes + k];
        }
    }
}
