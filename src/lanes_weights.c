/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of a unit as [class][input channel][tap][lane], zero in lanes beyond the last. */
#include <string.h>

#include "lanes.h"
#include "util.h"

enum { LANES_MOST = 16 * OGP_LANE_VECTORS_MOST };

struct source {
    const struct lanes *g;
    const char *w;                     /* the group */
    int64_t axis[3], in, bytes, count; /* steps of the tensor; lanes that exist */
    int64_t lane[LANES_MOST];          /* where the lanes begin */
    bool last[LANES_MOST];             /* whether they have the last tap, where some have not */
};

static struct source source_of(const struct job *job, const struct lanes *g, int64_t group, int64_t unit)
{
    const struct problem *const p = &job->plan->problem;
    const bool adjoint = job->plan->pass == OGP_GRAD_INPUT;
    struct source s = {.g = g, .bytes = ogp_dtype_bytes(p->dtype)};
    s.w = job->w.data + group * p->co_g * job->w.co * s.bytes;
    s.in = adjoint ? job->w.co : job->w.ci;
    s.count = ogp_min(g->unit, g->lanes_all - unit * g->unit);
    memcpy(s.axis, job->w.axis, sizeof s.axis);
    for (int64_t i = 0; i < s.count; i++) {
        int64_t residue[3];
        s.lane[i] = ogp_lanes_channel(g, unit * g->unit + i, residue) * (adjoint ? job->w.ci : job->w.co);
        for (int a = 0; a < 3; a++)
            s.lane[i] += residue[a] * s.axis[a];
        s.last[i] = residue[2] < g->reach[2].partial;
    }
    return s;
}

/* The step between lanes, or 0 where they lie otherwise. */
static int64_t even_step(const struct source *s)
{
    const int64_t step = s->count > 1 ? s->lane[1] - s->lane[0] : 1;
    for (int64_t i = 1; i < s->count; i++)
        if (s->lane[i] - s->lane[i - 1] != step)
            return 0;
    return step;
}

static void copy_lanes(const struct source *s, char *out, const char *in, int64_t step)
{
    if (step != 0) {
        s->g->plan->kernels->gather(out, in + s->lane[0] * s->bytes, step, s->count);
    } else if (s->bytes == 4) {
        for (int64_t i = 0; i < s->count; i++)
            ((uint32_t *)(void *)out)[i] = ((const uint32_t *)(const void *)in)[s->lane[i]];
    } else {
        for (int64_t i = 0; i < s->count; i++)
            ((uint64_t *)(void *)out)[i] = ((const uint64_t *)(const void *)in)[s->lane[i]];
    }
    memset(out + s->count * s->bytes, 0, (size_t)((s->g->unit - s->count) * s->bytes));
}

static void copy_last(const struct source *s, char *out, const char *in)
{
    memset(out, 0, (size_t)(s->g->unit * s->bytes));
    for (int64_t i = 0; i < s->count; i++)
        if (s->last[i])
            memcpy(out + i * s->bytes, in + s->lane[i] * s->bytes, (size_t)s->bytes);
}

/* Taps that follow one another in the tensor, in the order of the terms: 0 where they do not. */
static int64_t dense_taps(const struct source *s)
{
    const struct reach *const r = s->g->reach;
    int64_t taps = 1;
    for (int a = 2; a >= 0; a--) {
        if (r[a].phased || (r[a].taps_packed > 1 && s->axis[a] != taps))
            return 0;
        taps *= r[a].taps_packed;
    }
    return taps;
}

/* Terms that are rows in the tensor: transposed. */
static void pack_dense(const struct source *s, char *out, int64_t taps, int64_t step)
{
    const struct lanes *const g = s->g;
    const bool all = s->in == taps;
    const int64_t run = all ? g->terms : taps;
    for (int64_t q = 0; q < g->terms; q += run)
        g->plan->kernels->transpose(out + q * g->unit * s->bytes, g->unit, s->w + q / taps * s->in * s->bytes, step,
                                    s->count, run);
    const int64_t filled = ogp_round_up(s->count, g->plan->kernels->lanes);
    for (int64_t q = 0; q < g->terms && filled < g->unit; q++)
        memset(out + (q * g->unit + filled) * s->bytes, 0, (size_t)((g->unit - filled) * s->bytes));
}

/* One class: a residue of each axis (as for ogp_reach_taps). */
static void pack_class(const struct source *s, char *out, const int64_t residue[3], int64_t step)
{
    const struct lanes *const g = s->g;
    const bool last = g->reach[2].partial > 0 && residue[2] > 0;
    int64_t taps[3], packed[3];
    for (int a = 0; a < 3; a++)
        taps[a] = ogp_reach_taps(&g->reach[a], residue[a], &packed[a]);
    out += ogp_lanes_first_term(g, taps, packed) * g->unit * s->bytes;
    for (int64_t in = 0; in < g->in_channels; in++)
        for (int64_t d = 0; d < taps[0]; d++)
            for (int64_t h = 0; h < taps[1]; h++)
                for (int64_t w = 0; w < taps[2]; w++, out += g->unit * s->bytes) {
                    const int64_t at = in * s->in + ogp_reach_tap(&g->reach[0], residue[0], d, 0).kernel * s->axis[0] +
                                       ogp_reach_tap(&g->reach[1], residue[1], h, 0).kernel * s->axis[1] +
                                       ogp_reach_tap(&g->reach[2], residue[2], w, 0).kernel * s->axis[2];
                    if (last)
                        copy_last(s, out, s->w + at * s->bytes);
                    else
                        copy_lanes(s, out, s->w + at * s->bytes, step);
                }
}

void ogp_lanes_pack_unit(const struct job *job, const struct lanes *g, int64_t group, int64_t unit, char *out)
{
    struct source s = source_of(job, g, group, unit);
    const int64_t step = even_step(&s), taps = dense_taps(&s);
    if (step > 1 && taps > 0 && (taps > 1 || s.in == 1)) {
        s.w += s.lane[0] * s.bytes;
        pack_dense(&s, out, taps, step);
        return;
    }
    if (step == 1 && g->terms == g->in_channels && s.count == g->unit) {
        job->plan->kernels->copy_rows(out, g->unit, s.w + s.lane[0] * s.bytes, s.in, g->terms,
                                      g->unit / job->plan->kernels->lanes);
        return;
    }
    int64_t classes[3], at[3], residue[3];
    for (int a = 0; a < 3; a++) {
        const struct reach *const r = &g->reach[a];
        classes[a] = r->partial > 0 ? 2 : r->phased && r->merged == 1 ? ogp_min(r->lat->s1, r->lat->axis.k) : 1;
    }
    for (at[0] = 0; at[0] < classes[0]; at[0]++)
        for (at[1] = 0; at[1] < classes[1]; at[1]++)
            for (at[2] = 0; at[2] < classes[2]; at[2]++) {
                for (int a = 0; a < 3; a++) /* the least residue that tap at[a] reaches; l is 1 where merged */
                    residue[a] = classes[a] > 1 ? at[a] * g->reach[a].lat->axis.l % g->reach[a].lat->axis.s : 0;
                pack_class(&s, out, residue, step);
            }
}
