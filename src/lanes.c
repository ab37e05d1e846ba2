/* SPDX-License-Identifier: Apache-2.0 */
#include "lanes.h"

#include <string.h>

#include "direct.h"
#include "util.h"

/* Terms of one sweep over the positions: their weights stay in the first-level cache. */
enum { TERMS_A_SWEEP = 256 };

static void lay_out(struct lanes *g, const struct tiling *t)
{
    const int64_t bytes = ogp_dtype_bytes(g->plan->problem.dtype);
    const struct reach *const r = g->reach;
    g->row = r[2].extent;
    g->plane = r[1].extent * g->row;
    g->strip = r[0].extent * g->plane;
    g->strips[2] = g->strip;
    g->strips[1] = g->strips[2] * r[2].strips;
    g->strips[0] = g->strips[1] * r[1].strips;
    g->channel = ogp_odd_lines(g->strips[0] * r[0].strips, bytes);
    g->y_row = t->flat > 0 ? g->row : t->out[2];
    g->y_plane = t->flat > 1 ? g->plane : t->out[1] * g->y_row;
    g->positions = (t->out[0] - 1) * g->y_plane + (t->out[1] - 1) * g->y_row + t->out[2];
}

bool ogp_lanes_init(struct lanes *g, const struct ogp_plan *plan, const struct tiling *t)
{
    *g = (struct lanes){.plan = plan, .in_channels = ogp_channels_in(plan), .residues = 1, .terms = 1};
    double box = 1;
    for (int a = 0; a < 3; a++) {
        struct reach *const r = &g->reach[a];
        if (!ogp_reach_init(r, &plan->lattice[a], t->out[a], a == 2 && t->merged))
            return false;
        g->residues *= r->merged;
        g->terms *= r->taps_packed;
        g->tiles[a] = ogp_ceil_div(r->end - r->first, t->out[a]);
        box *= (double)r->strips * (double)r->extent;
        if (box * (double)g->terms > 0x1p40)
            return false;
    }
    g->lanes_all = ogp_channels_out(plan) * g->residues;
    g->unit = t->vectors * plan->kernels->lanes;
    if (box * (double)(g->terms * g->unit) * (double)g->in_channels + box * (double)g->lanes_all > 0x1p55)
        return false; /* far beyond any scratch: products below fit */
    g->terms *= g->in_channels;
    g->units = ogp_ceil_div(g->lanes_all, g->unit);
    g->bundle = t->out_channels / g->unit;
    g->bundles = ogp_ceil_div(g->units, g->bundle);
    lay_out(g, t);
    return true;
}

int64_t ogp_lanes_channel(const struct lanes *g, int64_t lane, int64_t residue[3])
{
    residue[0] = residue[1] = residue[2] = 0;
    for (int a = 2; a >= 0 && g->residues > 1; a--) {
        residue[a] = lane % g->reach[a].merged;
        lane /= g->reach[a].merged;
    }
    return lane;
}

void ogp_lanes_mask(const struct lanes *g, int64_t unit, void *mask)
{
    const size_t bytes = (size_t)ogp_dtype_bytes(g->plan->problem.dtype);
    for (int64_t i = 0; i < g->unit; i++) {
        int64_t residue[3];
        ogp_lanes_channel(g, unit * g->unit + i, residue);
        memset((char *)mask + (size_t)i * bytes, residue[2] < g->reach[2].partial ? 0xff : 0, bytes);
    }
}

/* ---- packed input ---- */

static void pack_strip(const struct lanes *g, char *x, const struct volume *in, const struct lanes_class *c,
                       int64_t channels, const int64_t strip[3])
{
    const int64_t bytes = ogp_dtype_bytes(g->plan->problem.dtype);
    struct block b = {.channels = channels, .channel = g->channel, .plane = g->plane, .row = g->row};
    struct sampling s[3];
    for (int a = 0; a < 3; a++) {
        const struct lattice *const lat = &g->plan->lattice[a];
        s[a].extent = lat->in_extent;
        s[a].padding = lat->adjoint ? OGP_ZEROS : lat->padding;
        ogp_reach_strip(&g->reach[a], c->at[a], strip[a], &s[a].first, &s[a].step, &s[a].count);
        b.extent[a] = s[a].count;
        x += strip[a] * g->strips[a] * bytes;
    }
    ogp_pack_joined(g->plan, x, &b, in, s);
}

void ogp_lanes_pack(const struct lanes *g, char *x, const struct volume *in, const struct lanes_class *c,
                    int64_t channels)
{
    int64_t strip[3];
    for (strip[0] = 0; strip[0] < g->reach[0].strips; strip[0]++)
        for (strip[1] = 0; strip[1] < g->reach[1].strips; strip[1]++)
            for (strip[2] = 0; strip[2] < g->reach[2].strips; strip[2]++)
                pack_strip(g, x, in, c, channels, strip);
}

/* ---- terms ---- */

static int64_t tap_offset(const struct lanes *g, const struct lanes_class *c, int a, int64_t tap)
{
    const int64_t pitch[3] = {g->plane, g->row, 1};
    const struct reach_tap at = ogp_reach_tap(&g->reach[a], c->at[a].residue, tap, 0);
    return at.strip * g->strips[a] + (at.at + c->skip[a]) * pitch[a];
}

void ogp_lanes_offsets(const struct lanes *g, int64_t *offset, const struct lanes_class *c, int64_t channels)
{
    const int64_t *const first = offset;
    for (int64_t d = 0; d < c->taps[0]; d++)
        for (int64_t h = 0; h < c->taps[1]; h++)
            for (int64_t w = 0; w < c->taps[2]; w++)
                *offset++ = tap_offset(g, c, 0, d) + tap_offset(g, c, 1, h) + tap_offset(g, c, 2, w);
    const int64_t taps = offset - first;
    for (int64_t i = taps; i < channels * taps; i++)
        *offset++ = first[i - taps] + g->channel;
}

/* ---- multiplying ---- */

/* n positions from one on, which are neighbours in x and y. */
static void multiply_positions(const struct lanes *g, struct ogp_broadcast *m, char *y, const char *x, int64_t n)
{
    const int64_t bytes = ogp_dtype_bytes(g->plan->problem.dtype), vectors = g->unit / g->plan->kernels->lanes;
    const int64_t block = ogp_even_block(n, g->plan->kernels->positions_most[vectors]), y_step = m->place[1];
    for (int64_t i = 0; i < n; i += block) {
        m->y = y + i * y_step * bytes;
        m->x = x + i * bytes;
        g->plan->kernels->broadcast[vectors][ogp_min(block, n - i)](m);
    }
}

/* All positions of a class, for terms within OGP_LONGEST_SUM. */
static void multiply_tile(const struct lanes *g, const struct lanes_class *c, struct ogp_broadcast *m, char *y,
                          const char *x)
{
    const int64_t bytes = ogp_dtype_bytes(g->plan->problem.dtype), y_step = m->place[1] * bytes;
    const int flat = g->plan->tiling.flat;
    const int64_t depth = c->span[0].count, height = c->span[1].count, width = c->span[2].count;
    const int64_t plane = flat > 0 ? (height - 1) * g->row + width : width;
    for (int64_t d = 0; d < (flat > 1 ? 1 : depth); d++)
        for (int64_t h = 0; h < (flat > 0 ? 1 : height); h++)
            multiply_positions(g, m, y + (d * g->y_plane + h * g->y_row) * y_step,
                               x + (d * g->plane + h * g->row) * bytes,
                               flat > 1 ? (depth - 1) * g->plane + plane : plane);
}

void ogp_lanes_multiply(const struct lanes *g, const struct lanes_class *c, char *y, int64_t y_step, const char *x,
                        const char *w, const int64_t *offset, int64_t terms, bool accumulate, const void *mask)
{
    const int64_t bytes = ogp_dtype_bytes(g->plan->problem.dtype);
    int64_t place[OGP_POSITIONS_MOST];
    for (int p = 0; p < OGP_POSITIONS_MOST; p++)
        place[p] = p * y_step;
    struct ogp_broadcast m = {.place = place, .w_step = g->unit, .accumulate = accumulate, .mask = mask};
    const int64_t block = terms ? ogp_even_block(terms, TERMS_A_SWEEP) : 1;
    for (int64_t q = 0; q == 0 || q < terms; q += block, m.accumulate = 1) {
        m.terms = ogp_min(block, terms - q);
        m.offset = offset + q;
        m.w = w + q * g->unit * bytes;
        multiply_tile(g, c, &m, y, x);
    }
}

/* ---- the model ---- */

double ogp_lanes_term_cycles(const struct lanes *g, const struct tiling *t)
{
    const int64_t vectors = t->vectors, most = g->plan->kernels->positions_most[vectors];
    const double depth = (double)t->out[0], height = (double)t->out[1];
    const int64_t plane = (t->out[1] - 1) * g->row + t->out[2], box = (t->out[0] - 1) * g->plane + plane;
    const int64_t n = t->flat == 0 ? t->out[2] : t->flat == 1 ? plane : box;
    const double runs = t->flat == 0 ? depth * height : t->flat == 1 ? depth : 1;
    const double blocks = (double)ogp_ceil_div(n, most), high = (double)n / blocks, across = (double)vectors;
    return runs * blocks * ogp_broadcast_cycles(high, across) *
           (vectors == 1 ? 1.2 : 0.85); /* measured, against the bodies along the width */
}
