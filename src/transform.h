/* SPDX-License-Identifier: Apache-2.0 */
/* The transform stage of a tile, per axis (depth and height; the width is always direct). A row says how many points
 * a tile of `out` outputs under `taps` taps takes, and what the transform adds to the error. */
#ifndef OGP_TRANSFORM_H
#define OGP_TRANSFORM_H

#include <stdint.h>

struct transform {
    const char *name;
    int64_t (*points)(int64_t out, int64_t taps); /* packed extent of the axis */
    double error;                                 /* c in |y - exact| <= eps (c log2(points) + terms) ||w|| ||x|| */
};

/* Direct: the packed inputs are multiplied as they are. */
extern const struct transform ogp_transform_identity;

#endif
