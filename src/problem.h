/* SPDX-License-Identifier: Apache-2.0 */
/* A checked problem: every size rule and overflow is judged once, in ogp_problem_check. */
#ifndef OGP_PROBLEM_H
#define OGP_PROBLEM_H

#include "ogp/conv3d.h"

/* One spatial axis. o is the output extent; every coordinate o*s + t*l - p fits 63 bits. */
struct axis {
    int64_t i, o, k, s, p, q, l;
};

struct problem {
    enum ogp_dtype dtype;
    enum ogp_padding padding;
    enum ogp_layout x_layout, w_layout, y_layout;
    int64_t n, g, ci, co;
    int64_t ci_g, co_g; /* channels per group */
    struct axis axis[3];
};

enum ogp_status ogp_problem_check(struct problem *out, const struct ogp_problem *in, struct ogp_error *error);

/* Bytes of one element. */
static inline int64_t ogp_dtype_bytes(enum ogp_dtype dtype)
{
    return dtype == OGP_F32 ? 4 : 8;
}

/* The coordinate in [0, i) that the padded coordinate j in [-p, i + q) reads, or -1 where it reads a zero. */
int64_t ogp_pad_source(enum ogp_padding mode, int64_t i, int64_t j);

#endif
