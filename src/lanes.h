/* SPDX-License-Identifier: Apache-2.0 */
/* Forward and grad input with the vector lanes along output channels. A tile of input is packed into strips (reach.h)
 * in which the positions of a tile are neighbours; of each term (input channel, tap) the kernels broadcast one element
 * per position against vectors of weights, which are packed once per execution as [term][lanes]. Sums come out as
 * [position][lane]. */
#ifndef OGP_LANES_H
#define OGP_LANES_H

#include "arena.h"
#include "pack.h"
#include "reach.h"

/* A lane is an output channel of a group or, where residues are merged, one of its residues: channel*residues + residue
 * (depth slowest). Units of a few vectors of lanes are what the kernels hold in registers; a bundle is the units of one
 * task. */
struct lanes {
    const struct ogp_plan *plan;
    struct reach reach[3];
    int64_t in_channels, residues, lanes_all;
    int64_t unit, units;                /* lanes of a unit, units of a group */
    int64_t bundle, bundles;            /* units of a bundle, bundles of a group */
    int64_t terms;                      /* packed weights of a lane */
    int64_t row, plane, strip, channel; /* pitches of packed input, in elements */
    int64_t strips[3];                  /* steps between strips of an axis */
    int64_t y_row, y_plane, positions;  /* pitches of the sums, in positions, and all of them */
    int64_t tiles[3];
};

/* The geometry of a tiling; false where it has none. */
bool ogp_lanes_init(struct lanes *, const struct ogp_plan *plan, const struct tiling *t);

/* Packed weights of one unit, in elements. */
static inline int64_t ogp_lanes_unit_elements(const struct lanes *g)
{
    return g->terms * g->unit;
}

/* A class of outputs of a tile, and the taps it has on each axis. */
struct lanes_class {
    struct stretch at[3];
    struct span span[3]; /* its outputs: members skip + [0, count) of the stretch */
    int64_t skip[3], taps[3], packed[3];
};

/* The first of a class's packed weights, counted in terms. */
static inline int64_t ogp_lanes_first_term(const struct lanes *g, const int64_t taps[3], const int64_t packed[3])
{
    return g->in_channels * (packed[0] * g->reach[1].taps_packed * g->reach[2].taps_packed +
                             taps[0] * (packed[1] * g->reach[2].taps_packed + taps[1] * packed[2]));
}

/* Residue of a lane on each axis; returns its channel in the group. */
int64_t ogp_lanes_channel(const struct lanes *g, int64_t lane, int64_t residue[3]);

/* Packs `channels` channels of the strips that the class reads; in: the sample, at the first channel. */
void ogp_lanes_pack(const struct lanes *g, char *x, const struct volume *in, const struct lanes_class *c,
                    int64_t channels);

/* Offsets of the terms of a class in packed input. */
void ogp_lanes_offsets(const struct lanes *g, int64_t *offset, const struct lanes_class *c, int64_t channels);

/* Sums of one unit over the terms of some channels: y[position*y_step + i] (+)= ... mask: as for ogp_broadcast. */
void ogp_lanes_multiply(const struct lanes *g, const struct lanes_class *c, char *y, int64_t y_step, const char *x,
                        const char *w, const int64_t *offset, int64_t terms, bool accumulate, const void *mask);

/* Fills the mask of a unit: the lanes that have the tap which not all merged residues of the width have. */
void ogp_lanes_mask(const struct lanes *g, int64_t unit, void *mask);

/* Modelled cycles of one term of a unit over all positions of a tile. */
double ogp_lanes_term_cycles(const struct lanes *g, const struct tiling *t);

/* Packs the weights of one unit of a group (lanes_weights.c). */
void ogp_lanes_pack_unit(const struct job *job, const struct lanes *g, int64_t group, int64_t unit, char *out);

#endif
