/* SPDX-License-Identifier: Apache-2.0 */
#include "winograd_weights.h"

#include <math.h>

#include "util.h"

/* G: row p is (1, p, p^2) over the product of p - q of the other finite points q (kernels/winograd.h). */
static const double one_point[1][3] = {{1, 0, 0}};
static const double four_points[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
#define A 0.75
#define B 1.5
#define NORM_A (2 * A * A * (A * A - B * B))
#define NORM_B (2 * B * B * (B * B - A * A))
static const double six_points[6][3] = {
    {1 / (A * A * B * B), 0, 0},         {1 / NORM_A, A / NORM_A, A * A / NORM_A}, {1 / NORM_A, -A / NORM_A, A * A / NORM_A},
    {1 / NORM_B, B / NORM_B, B * B / NORM_B}, {1 / NORM_B, -B / NORM_B, B * B / NORM_B}, {0, 0, 1},
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

void ogp_winograd_to_taps(const struct winograd *f, double *taps, const double *bins)
{
    const double(*const depth)[3] = matrix(f->points[0]), (*const height)[3] = matrix(f->points[1]);
    const int64_t kd = taps_of(f->points[0]), kh = taps_of(f->points[1]), kw = f->taps;
    for (int64_t t = 0; t < kw; t++)
        for (int64_t d = 0; d < kd; d++) {
            double row[6] = {0};
            for (int64_t p = 0; p < f->points[0]; p++)
                for (int64_t q = 0; q < f->points[1]; q++)
                    row[q] += depth[p][d] * bins[(p * f->points[1] + q) * kw + t];
            for (int64_t h = 0; h < kh; h++)
                for (int64_t q = 0; q < f->points[1]; q++)
                    taps[(d * kh + h) * kw + t] += height[q][h] * row[q];
        }
}
