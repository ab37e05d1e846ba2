/* SPDX-License-Identifier: Apache-2.0 */
#include "transform.h"

#include <math.h>

void ogp_transform_root(int64_t points, int64_t m, double root[2])
{
    static const double quarter[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
    const double turn = 6.283185307179586476925286766559;
    m %= points;
    if (4 * m % points == 0) {
        root[0] = quarter[4 * m / points][0];
        root[1] = quarter[4 * m / points][1];
        return;
    }
    root[0] = cos(turn * (double)m / (double)points);
    root[1] = sin(turn * (double)m / (double)points);
}

void ogp_transform_twiddles(void *twiddle, int64_t points, int f64)
{
    for (int64_t m = 0; m < points; m++) {
        double root[2];
        ogp_transform_root(points, m, root);
        for (int part = 0; part < 2; part++) {
            const double value = part ? -root[1] : root[0];
            if (f64)
                ((double *)twiddle)[2 * m + part] = value;
            else
                ((float *)twiddle)[2 * m + part] = (float)value;
        }
    }
}
