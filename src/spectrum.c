/* SPDX-License-Identifier: Apache-2.0 */
#include "spectrum.h"

#include <math.h>
#include <string.h>

#include "util.h"

/* out[t] += in[t] * root, pairs of numbers. */
static void add_turned(double *out, const double *in, const double root[2], int64_t count)
{
    for (int64_t t = 0; t < count; t++) {
        out[2 * t] += in[2 * t] * root[0] - in[2 * t + 1] * root[1];
        out[2 * t + 1] += in[2 * t] * root[1] + in[2 * t + 1] * root[0];
    }
}

int64_t ogp_spectrum_scratch(const struct ogp_plan *plan, const struct fourier *f)
{
    const struct axis *const axis = plan->problem.axis;
    return 2 * axis[2].k * (1 + ogp_max(axis[0].k, f->points[1])) + axis[0].k * axis[1].k * axis[2].k;
}

/* ---- from taps ---- */

/* Weights, dense [depth][height][width]; returns the largest magnitude. */
static double load_weights(enum ogp_dtype dtype, double *out, const struct weights *w, const struct piece piece[3])
{
    double largest = 0;
    for (int64_t d = 0; d < piece[0].taps; d++)
        for (int64_t h = 0; h < piece[1].taps; h++)
            for (int64_t t = 0; t < piece[2].taps; t++) {
                *out = ogp_load(dtype, w->data,
                                (piece[0].tap0 + piece[0].tap_step * d) * w->axis[0] +
                                    (piece[1].tap0 + piece[1].tap_step * h) * w->axis[1] +
                                    (piece[2].tap0 + piece[2].tap_step * t) * w->axis[2]);
                largest = isfinite(*out) ? fmax(largest, fabs(*out)) : INFINITY;
                out++;
            }
    return largest;
}

/* Height frequency k of every depth tap: column[d] = sum over h: exp(2 pi i k h / points) w[d][h]. */
static void transform_height(double *column, const double *w, int64_t points, int64_t k, const struct piece piece[3])
{
    const int64_t kh = piece[1].taps, kw = piece[2].taps;
    memset(column, 0, (size_t)(2 * piece[0].taps * kw) * sizeof(double));
    for (int64_t d = 0; d < piece[0].taps; d++)
        for (int64_t h = 0; h < kh; h++) {
            double root[2];
            ogp_transform_root(points, k * h, root);
            for (int64_t t = 0; t < kw; t++) {
                column[2 * (d * kw + t)] += w[(d * kh + h) * kw + t] * root[0];
                column[2 * (d * kw + t) + 1] += w[(d * kh + h) * kw + t] * root[1];
            }
        }
}

static void store(enum ogp_dtype dtype, void *out, int64_t at, const double *in, int64_t count, double scale)
{
    for (int64_t k = 0; k < count; k++)
        if (dtype == OGP_F32)
            ((float *)out)[at + k] = (float)(in[k] * scale);
        else
            ((double *)out)[at + k] = in[k] * scale;
}

double ogp_spectrum_of_weights(const struct ogp_plan *plan, const struct fourier *f, void *out, int64_t bin,
                               int64_t row, const struct weights *w, const struct piece piece[3], double *scratch)
{
    const int64_t kw = piece[2].taps, nd = f->points[0], nh = f->points[1];
    double *const sum = scratch, *const column = sum + 2 * kw, *const real = column + 2 * kw * piece[0].taps;
    const double largest = load_weights(plan->problem.dtype, real, w, piece);
    for (int64_t b = 0; b < nh; b++) {
        transform_height(column, real, nh, ogp_transform_frequency(f->fft[1], b), piece);
        for (int64_t c = 0; c < nd; c++) {
            const int64_t k = ogp_transform_frequency(f->fft[0], c);
            memset(sum, 0, (size_t)(2 * kw) * sizeof(double));
            for (int64_t d = 0; d < piece[0].taps; d++) {
                double root[2];
                ogp_transform_root(nd, k * d, root);
                add_turned(sum, column + 2 * d * kw, root, kw);
            }
            store(plan->problem.dtype, out, b * bin + c * row, sum, 2 * kw, 1 / (double)(nd * nh));
        }
    }
    return largest;
}

/* ---- to taps ---- */

void ogp_spectrum_to_taps(const struct ogp_plan *plan, const struct fourier *f, double *taps, const double *sum,
                          double *scratch)
{
    const int64_t nd = f->points[0], nh = f->points[1];
    const int64_t kd = plan->problem.axis[0].k, kh = plan->problem.axis[1].k, kw = plan->problem.axis[2].k;
    const double scale = 1 / (double)(nd * nh);
    double *const column = scratch; /* [height place][width tap] of one depth tap */
    for (int64_t d = 0; d < kd; d++) {
        memset(column, 0, (size_t)(2 * nh * kw) * sizeof(double));
        for (int64_t c = 0; c < nd; c++) {
            double root[2];
            ogp_transform_root(nd, ogp_transform_frequency(f->fft[0], c) * d, root);
            for (int64_t b = 0; b < nh; b++)
                add_turned(column + 2 * b * kw, sum + 2 * (b * nd + c) * kw, root, kw);
        }
        for (int64_t h = 0; h < kh; h++)
            for (int64_t b = 0; b < nh; b++) {
                double root[2];
                ogp_transform_root(nh, ogp_transform_frequency(f->fft[1], b) * h, root);
                for (int64_t t = 0; t < kw; t++)
                    taps[(d * kh + h) * kw + t] +=
                        scale * (column[2 * (b * kw + t)] * root[0] - column[2 * (b * kw + t) + 1] * root[1]);
            }
    }
}
