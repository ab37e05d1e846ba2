/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of one axis: any stride, dilation, pass and padding mode becomes unit-stride, dense correlations
 *
 *   out[m] += sum over a < taps:  w[tap0 + tap_step*a] * in[in0 + in_step*(m + a)],        0 <= m < count
 *
 * between arithmetic progressions. With g = gcd(s, l), s' = s/g, l' = l/g and L = lcm(s, l):
 *
 * forward      outputs o = e + l'm form l' classes e; taps t = r + s'a form s' phases r; both meet at
 *              in = (e*s + r*l - p) + L(m + a).
 * grad input   (gx from gy, so `in` is gy) padded outputs j with j + p = c + Lm form L classes c; the taps that reach
 * one are t = t0 + s'a, where t0 is the first with c - t0*l divisible by s (none: the class is zero). They read gy at
 * (c - t0*l)/s + l'(m - a), ascending when the taps are taken backwards.
 *
 * Example: k = 3, s = 2, l = 1, p = 1. Forward: one class; phases {0, 2} and {1}. Grad input: class 0 has taps {2, 0},
 * class 1 has tap {1}. No zeros are inserted and none multiplied.
 *
 * A padding mode folds padded outputs of grad input onto outputs: the parts of a span are then all its preimages, in
 * ascending order of the padded coordinate, and their results are added. */
#ifndef OGP_LATTICE_H
#define OGP_LATTICE_H

#include <stdbool.h>

#include "problem.h"

/* One axis of one pass. `out` is what is computed (y, or gx), `in` what is read (x, or gy). */
struct lattice {
    struct axis axis;
    enum ogp_padding padding;
    bool adjoint;                           /* grad input */
    bool fold;                              /* grad input under a padding mode other than zeros */
    int64_t s1, l1, lcm;                    /* s', l', L (saturated: then no class has two members) */
    int64_t in_extent, out_extent, classes; /* classes: steps between members of one class in `out` */
};

/* Outputs start + step*q, 0 <= q < count. step is 1 (a box of all classes) or lattice.classes (one class). */
struct span {
    int64_t start, step, count;
};

/* Members of one class inside a span: padded outputs out0 + out_step*m, 0 <= m < count. */
struct part {
    int64_t out0, out_step, count;
};

/* One correlation, as in the formula above. */
struct piece {
    int64_t in0, in_step, tap0, tap_step, taps;
};

struct part_cursor {
    int64_t segment, offset, residue;
};
struct piece_cursor {
    int64_t phase, chunk;
};

void ogp_lattice_init(struct lattice *, const struct problem *, enum ogp_pass, int axis);

/* The next part of a span, of at most `most` members; false when there is none. Cursors start zeroed. */
bool ogp_next_part(const struct lattice *, struct span, int64_t most, struct part_cursor *, struct part *);

/* The next piece of a part, of at most `most` taps; false when there is none. */
bool ogp_next_piece(const struct lattice *, const struct part *, int64_t most, struct piece_cursor *, struct piece *);

/* The whole kernel as it meets the class of output out0; of several pieces, the first. */
struct piece ogp_whole_piece(const struct lattice *, int64_t out0);

/* The pieces of a forward lattice, of at most `most` taps each, and the at-th of them for the part that starts at
 * output 0. Phases ascend, then chunks. */
int64_t ogp_piece_count(const struct lattice *, int64_t most);
struct piece ogp_piece_at(const struct lattice *, int64_t most, int64_t at);

/* The most outputs of a class. */
int64_t ogp_lattice_members(const struct lattice *);

/* Place in the span of the padded output coordinate j. */
int64_t ogp_span_place(const struct lattice *, struct span, int64_t j);

/* The coordinate of `in` that a piece's coordinate reads, or -1 where it reads a zero. */
int64_t ogp_lattice_source(const struct lattice *, int64_t j);

/* Spans of at most `most` outputs that cover the axis: one class each if `by_class`, else boxes. The at-th of
 * ogp_span_count; a span may be empty. */
int64_t ogp_span_count(const struct lattice *, bool by_class, int64_t most);
struct span ogp_span_at(const struct lattice *, bool by_class, int64_t most, int64_t at);

/* The at-th part of a span, of at most `most` outputs; false past the last. */
bool ogp_span_cut(struct span whole, int64_t most, int64_t at, struct span *part);

#endif
