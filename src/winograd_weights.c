/* SPDX-License-Identifier: Apache-2.0 */
#include "winograd_weights.h"

#include <math.h>
#include <string.h>

#include "util.h"

/* G: row p is (1, p, p^2) over the product of p - q of the other finite points q (kernels/winograd.h). */
static const double one_point[1][3] = {{1, 0, 0}};
static const double four_points[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
#define A 0.75
#define B 1.5
#define NORM_A (2 * A * A * (A * A - B * B))
#define NORM_B (2 * B * B * (B * B - A * A))
static const double six_points[6][3] = {
    {1 / (A * A * B * B), 0, 0},
    {1 / NORM_A, A / NORM_A, A *A / NORM_A},
    {1 / NORM_A, -A / NORM_A, A *A / NORM_A},
    {1 / NORM_B, B / NORM_B, B *B / NORM_B},
    {1 / NORM_B, -B / NORM_B, B *B / NORM_B},
    {0, 0, 1},
};

static const double (*matrix(int64_t points))[3]
{
    return points == 1 ? one_point : points == 4 ? four_points : six_points;
}

static int64_t taps_of(int64_t points)
{
    return points == 1 ? 1 : 3;
}

double ogp_winograd_of_weights(const struct ogp_plan *plan, const struct winograd *f, double *bins,
                               const struct weights *w, const struct piece piece[3])
{
    const double(*const depth)[3] = matrix(f->points[0]), (*const height)[3] = matrix(f->points[1]);
    const int64_t kd = piece[0].taps, kh = piece[1].taps, kw = piece[2].taps;
    double largest = 0;
    for (int64_t t = 0; t < kw; t++) {
        double column[3][6] = {{0}};
        for (int64_t d = 0; d < kd; d++)
            for (int64_t h = 0; h < kh; h++) {
                const double v = ogp_load(plan->problem.dtype, w->data,
                                          (piece[0].tap0 + piece[0].tap_step * d) * w->axis[0] +
                                              (piece[1].tap0 + piece[1].tap_step * h) * w->axis[1] +
                                              (piece[2].tap0 + piece[2].tap_step * t) * w->axis[2]);
                largest = isfinite(v) ? fmax(largest, fabs(v)) : INFINITY;
                for (int64_t q = 0; q < f->points[1]; q++)
                    column[d][q] += height[q][h] * v;
            }
        for (int64_t p = 0; p < f->points[0]; p++)
            for (int64_t q = 0; q < f->points[1]; q++) {
                double sum = 0;
                for (int64_t d = 0; d < kd; d++)
                    sum += depth[p][d] * column[d][q];
                bins[(p * f->points[1] + q) * kw + t] = sum;
            }
    }
    return largest;
}

/* out[k] = sum over p of G[p][k] in[p], rows of OGP_WINOGRAD_COUNT numbers. */
static void transposed(double (*restrict out)[OGP_WINOGRAD_COUNT], const double *const *in, int64_t points)
{
    const double(*const g)[3] = matrix(points);
    for (int64_t k = 0; k < taps_of(points); k++) {
        for (int64_t i = 0; i < OGP_WINOGRAD_COUNT; i++)
            out[k][i] = g[0][k] * in[0][i];
        for (int64_t p = 1; p < points; p++) {
            const double factor = g[p][k];
            if (factor == 0)
                continue;
            for (int64_t i = 0; i < OGP_WINOGRAD_COUNT; i++)
                out[k][i] += factor * in[p][i];
        }
    }
}

void ogp_winograd_to_taps(const struct winograd *f, double *taps, const double *bins, int64_t step, int64_t count)
{
    const int64_t nd = f->points[0], nh = f->points[1], kd = taps_of(nd), kh = taps_of(nh);
    double copy[6][OGP_WINOGRAD_COUNT] = {{0}}, row[3][6][OGP_WINOGRAD_COUNT], out[3][OGP_WINOGRAD_COUNT];
    const double *in[6];
    for (int64_t q = 0; q < nh; q++) {
        double part[3][OGP_WINOGRAD_COUNT];
        for (int64_t p = 0; p < nd; p++) {
            memcpy(copy[p], bins + (p * nh + q) * step, (size_t)count * sizeof(double));
            in[p] = copy[p];
        }
        transposed(part, in, nd);
        for (int64_t d = 0; d < kd; d++)
            memcpy(row[d][q], part[d], sizeof part[d]);
    }
    for (int64_t d = 0; d < kd; d++) {
        for (int64_t q = 0; q < nh; q++)
            in[q] = row[d][q];
        transposed(out, in, nh);
        for (int64_t h = 0; h < kh; h++)
            memcpy(taps + (d * kh + h) * count, out[h], (size_t)count * sizeof(double));
    }
}
