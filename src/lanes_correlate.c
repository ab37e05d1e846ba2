/* SPDX-License-Identifier: Apache-2.0 */
/* Weights are packed in passes over as many bundles of lanes as the shared limit holds; in each, a task is a tile of
 * one sample and one bundle, which owns its outputs. */
#include "lanes_correlate.h"

#include <string.h>

#include "util.h"

/* ---- one class of one tile ---- */

struct tile {
    const struct job *job;
    const struct lanes *g;
    struct lanes_scratch s;
    const char *w; /* the first unit */
    int64_t n, group, unit, units;
    bool packed; /* x holds what all classes read */
};

static void compute_class(struct tile *t, const struct lanes_class *c)
{
    const struct lanes *const g = t->g;
    const struct ogp_plan *const plan = g->plan;
    const bool adjoint = plan->pass == OGP_GRAD_INPUT;
    const int64_t bytes = ogp_dtype_bytes(plan->problem.dtype), y_step = g->bundle * g->unit;
    const int64_t taps = c->taps[0] * c->taps[1] * c->taps[2], block = plan->tiling.in_channels;
    const bool shared = block >= g->in_channels && ogp_reach_shared(&g->reach[0]) && ogp_reach_shared(&g->reach[1]) &&
                        ogp_reach_shared(&g->reach[2]);
    const struct volume *const from = adjoint ? &t->job->y : &t->job->x;
    const int64_t first = ogp_lanes_first_term(g, c->taps, c->packed);
    for (int64_t in = 0; in == 0 || (in < g->in_channels && taps > 0); in += block) {
        const int64_t channels = taps > 0 ? ogp_min(block, g->in_channels - in) : 0;
        struct volume v = *from;
        v.data += (t->n * v.n + (t->group * g->in_channels + in) * v.c) * bytes;
        if (channels > 0 && !(shared && t->packed))
            ogp_lanes_pack(g, t->s.x, &v, c, channels);
        t->packed |= channels > 0;
        ogp_lanes_offsets(g, t->s.offset, c, channels);
        for (int64_t u = 0; u < t->units; u++)
            ogp_lanes_multiply(g, c, t->s.y + u * g->unit * bytes, y_step, t->s.x,
                               t->w + (u * g->terms + first + in * taps) * g->unit * bytes, t->s.offset,
                               channels * taps, in > 0);
    }
}

/* Writes one lane: rows of its positions, joined where they follow one another in the tensor. */
static void put_lane(const struct tile *t, const struct lanes_class *c, int64_t lane, const char *rows)
{
    const struct lanes *const g = t->g;
    const struct job *const job = t->job;
    const enum ogp_dtype dtype = g->plan->problem.dtype;
    const int64_t bytes = ogp_dtype_bytes(dtype), pitch[3] = {g->y_plane, g->y_row, 1};
    const struct volume *const out = g->plan->pass == OGP_GRAD_INPUT ? &job->x : &job->y;
    int64_t residue[3], step[3], count[3];
    const int64_t channel = t->group * (g->lanes_all / g->residues) + ogp_lanes_channel(g, lane, residue);
    char *to = out->data + (t->n * out->n + channel * out->c) * bytes;
    for (int a = 0; a < 3; a++) {
        struct span span = c->span[a];
        if (g->reach[a].merged > 1)
            rows += ogp_reach_outputs(&g->reach[a], c->at[a], residue[a], &span) * pitch[a] * bytes;
        if (span.count <= 0)
            return;
        to += span.start * out->axis[a] * bytes;
        count[a] = span.count;
        step[a] = span.count > 1 ? span.step * out->axis[a] : 0;
    }
    const double bias = job->b.data ? ogp_load(dtype, job->b.data, channel * job->b.step) : 0;
    for (int a = 1; a >= 0 && pitch[a] == count[2] && (count[a] == 1 || step[a] == count[2] * step[2]); a--) {
        count[2] *= count[a];
        step[2] = count[2] > 1 && step[2] == 0 ? step[a] : step[2];
        count[a] = 1;
    }
    for (int64_t d = 0; d < count[0]; d++)
        for (int64_t h = 0; h < count[1]; h++)
            g->plan->kernels->scatter(to + (d * step[0] + h * step[1]) * bytes, step[2],
                                      rows + (d * pitch[0] + h * pitch[1]) * bytes, count[2], bias, job->accumulate);
}

static void put_class(const struct tile *t, const struct lanes_class *c)
{
    const struct lanes *const g = t->g;
    const int64_t bytes = ogp_dtype_bytes(g->plan->problem.dtype), lanes = g->plan->kernels->lanes;
    const int64_t y_step = g->bundle * g->unit, first = t->unit * g->unit;
    const int64_t n = (c->span[0].count - 1) * g->y_plane + (c->span[1].count - 1) * g->y_row + c->span[2].count;
    const int64_t count = ogp_min(t->units * g->unit, g->lanes_all - first);
    for (int64_t i = 0; i < count; i += lanes) {
        /* those beyond the last are sums of zeros: whole vectors take less than some lanes of each */
        g->plan->kernels->transpose(t->s.rows, ogp_lanes_row_pitch(g), t->s.y + i * bytes, y_step, n, lanes);
        for (int64_t lane = 0; lane < ogp_min(lanes, count - i); lane++)
            put_lane(t, c, first + i + lane, t->s.rows + lane * ogp_lanes_row_pitch(g) * bytes);
    }
}

/* ---- one tile ---- */

/* A class's stretch of one axis; false where it has no outputs. */
static bool init_class(const struct lanes *g, struct lanes_class *c, int a, struct stretch at)
{
    const struct reach *const r = &g->reach[a];
    c->at[a] = at;
    c->taps[a] = ogp_reach_taps(r, at.residue, &c->packed[a]);
    c->skip[a] = 0;
    if (r->merged > 1)
        c->span[a] = (struct span){.count = at.count}; /* of the sums; each lane has outputs of its own */
    else
        c->skip[a] = ogp_reach_outputs(r, at, at.residue, &c->span[a]);
    return c->span[a].count > 0;
}

static void run_tile(struct tile *t, const struct stretch at[3])
{
    const struct lanes *const g = t->g;
    int64_t lo[3], hi[3];
    struct stretch now[3] = {at[0], at[1], at[2]};
    struct lanes_class c;
    for (int a = 0; a < 3; a++)
        ogp_reach_residues(&g->reach[a], at[a].m0, at[a].count, &lo[a], &hi[a]);
    for (now[0].residue = lo[0]; now[0].residue < hi[0]; now[0].residue++)
        for (now[1].residue = lo[1]; init_class(g, &c, 0, now[0]) && now[1].residue < hi[1]; now[1].residue++)
            for (now[2].residue = lo[2]; init_class(g, &c, 1, now[1]) && now[2].residue < hi[2]; now[2].residue++)
                if (init_class(g, &c, 2, now[2])) {
                    compute_class(t, &c);
                    put_class(t, &c);
                }
}

/* Tiles of one bundle are neighbours, samples then. */
static void run_task(const struct job *job, int64_t at, int worker)
{
    const struct ogp_plan *const plan = job->plan;
    struct lanes g;
    ogp_lanes_init(&g, plan, &plan->tiling);
    struct arena shared_arena = {.base = job->shared}, arena = {.base = ogp_job_scratch(job, worker)};
    const struct lanes_shared shared = ogp_lanes_carve_shared(&shared_arena, &g, 0);
    struct tile t = {.job = job, .g = &g, .s = ogp_lanes_carve(&arena, &g, &plan->tiling)};
    struct stretch stretch[3];
    for (int a = 2; a >= 0; a--) {
        const int64_t m0 = g.reach[a].first + at % g.tiles[a] * plan->tiling.out[a];
        stretch[a] = (struct stretch){.m0 = m0, .count = ogp_min(plan->tiling.out[a], g.reach[a].end - m0)};
        at /= g.tiles[a];
    }
    t.n = at % plan->problem.n;
    at /= plan->problem.n;
    t.w = shared.w + at * g.bundle * ogp_lanes_unit_elements(&g) * ogp_dtype_bytes(plan->problem.dtype);
    const int64_t bundle = shared.pass->first + at;
    t.group = bundle / g.bundles;
    t.unit = bundle % g.bundles * g.bundle;
    t.units = ogp_min(g.bundle, g.units - t.unit);
    run_tile(&t, stretch);
}

static void pack_task(const struct job *job, int64_t at, int worker)
{
    (void)worker;
    struct lanes g;
    ogp_lanes_init(&g, job->plan, &job->plan->tiling);
    struct arena arena = {.base = job->shared};
    const struct lanes_shared shared = ogp_lanes_carve_shared(&arena, &g, 0);
    const int64_t bundle = shared.pass->first + at / g.bundle, unit = bundle % g.bundles * g.bundle + at % g.bundle;
    if (unit < g.units)
        ogp_lanes_pack_unit(job, &g, bundle / g.bundles, unit,
                            shared.w + at * ogp_lanes_unit_elements(&g) * ogp_dtype_bytes(job->plan->problem.dtype));
}

void ogp_lanes_correlate_run(struct job *job)
{
    struct lanes g;
    ogp_lanes_init(&g, job->plan, &job->plan->tiling);
    struct arena arena = {.base = job->shared};
    const struct lanes_shared shared = ogp_lanes_carve_shared(&arena, &g, 0);
    const int64_t each = ogp_lanes_bundles_held(&g, (int64_t)job->plan->shared_bytes),
                  all = job->plan->problem.g * g.bundles;
    for (int64_t first = 0; first < all; first += each) {
        *shared.pass = (struct lanes_pass){first, ogp_min(each, all - first)};
        ogp_job_each(job, shared.pass->count * g.bundle, pack_task);
        ogp_job_each(job, shared.pass->count * job->plan->problem.n * ogp_lanes_tiles(&g), run_task);
    }
}
