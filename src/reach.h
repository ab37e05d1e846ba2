/* SPDX-License-Identifier: Apache-2.0 */
/* One axis of forward and grad input as the lane kernels see it: outputs and taps may lie apart, only positions are
 * neighbours. Outputs are positions m of each residue of a period,
 *
 *   out = period*m + residue - shift,  first <= m < end,
 *
 * and tap a of position m reads element  m - m0 + ogp_reach_tap(a).at  of a strip of the input that is packed for the
 * positions from m0 on. Where steps of the output are steps of the input (forward, and the gradient of an input that
 * was read with stride 1) there is one residue, and a strip for each phase of the taps by the stride; otherwise one
 * strip, and each residue has the taps that reach it. Residues whose taps read alike can be lanes, then there is one
 * class of them all: `merged`. Where the stride does not divide the kernel the last tap is one of the first `partial`
 * residues only. */
#ifndef OGP_REACH_H
#define OGP_REACH_H

#include "lattice.h"

struct reach {
    const struct lattice *lat;
    int64_t period, shift, first, end;
    int64_t merged;      /* residues that are lanes, or 1 */
    int64_t partial;     /* residues that have one tap more than the others; 0 where none has, or they are not merged */
    int64_t taps_most;   /* of one class */
    int64_t taps_packed; /* entries of the weights: of all classes */
    int64_t strips, extent;
    bool phased, apart; /* residues have taps of their own; each tap has a strip of its own */
};

/* Positions [m0, m0 + count) of one class. */
struct stretch {
    int64_t m0, count, residue;
};

/* For tiles of at most `out` positions; false where this axis has no such form. together: residues are lanes although
 * some have a tap more than others, if the axis has such. */
bool ogp_reach_init(struct reach *, const struct lattice *, int64_t out, bool together);

/* Whether `together` makes a difference. */
bool ogp_reach_partial(const struct lattice *);

/* The positions of an axis, whatever the tile. */
int64_t ogp_reach_positions(const struct lattice *);

/* Residues [lo, hi) of which a tile may have outputs; merged ones count as one, 0. */
void ogp_reach_residues(const struct reach *, int64_t m0, int64_t count, int64_t *lo, int64_t *hi);

/* The outputs of a residue (a lane's where merged): the members [skip, skip + span->count) of the stretch. */
int64_t ogp_reach_outputs(const struct reach *, struct stretch, int64_t residue, struct span *span);

/* Taps of a class and the place of its first among the packed ones. Where merged, residue 0 stands for the taps that all
 * residues have, 1 for the one that only the first `partial` have. */
int64_t ogp_reach_taps(const struct reach *, int64_t residue, int64_t *packed);

/* Where a tap of a class reads, and which tap of the kernel it is (where merged of the residue `lane`; residue as for
 * ogp_reach_taps). */
struct reach_tap {
    int64_t strip, at, kernel;
};
struct reach_tap ogp_reach_tap(const struct reach *, int64_t residue, int64_t a, int64_t lane);

/* What a strip holds: coordinates of the input from `first` on, `step` apart. */
void ogp_reach_strip(const struct reach *, struct stretch, int64_t strip, int64_t *first, int64_t *step,
                     int64_t *count);

/* Whether all classes of a tile read the same strip. */
bool ogp_reach_shared(const struct reach *);

#endif
