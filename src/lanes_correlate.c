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

/* Sums of a class, or what it adds to those of another: in the lanes of the mask then. */
static void add_class(struct tile *t, const struct lanes_class *c, const char *mask)
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
                               channels * taps, in > 0 || mask, mask ? mask + u * g->unit * bytes : NULL);
    }
}

static void compute_class(struct tile *t, const struct lanes_class *c)
{
    const struct reach *const width = &t->g->reach[2];
    add_class(t, c, NULL);
    if (width->partial > 0) {
        struct lanes_class rest = *c;
        rest.at[2].residue = 1;
        rest.taps[2] = ogp_reach_taps(width, 1, &rest.packed[2]);
        add_class(t, &rest, t->s.mask);
    }
}

/* The rows of one lane's positions, joined where they follow one another in the tensor: from scratch to the tensor. */
struct lane_rows {
    const char *from;
    char *to;
    int64_t count[3], step[3]; /* in the tensor */
    double bias;
};

/* False where the lane has no outputs. */
static bool aim_lane(const struct tile *t, const struct lanes_class *c, int64_t lane, const char *rows,
                     struct lane_rows *r)
{
    const struct lanes *const g = t->g;
    const struct job *const job = t->job;
    const enum ogp_dtype dtype = g->plan->problem.dtype;
    const int64_t bytes = ogp_dtype_bytes(dtype), pitch[3] = {g->y_plane, g->y_row, 1};
    const struct volume *const out = g->plan->pass == OGP_GRAD_INPUT ? &job->x : &job->y;
    int64_t residue[3];
    const int64_t channel = t->group * (g->lanes_all / g->residues) + ogp_lanes_channel(g, lane, residue);
    *r = (struct lane_rows){.from = rows, .to = out->data + (t->n * out->n + channel * out->c) * bytes};
    for (int a = 0; a < 3; a++) {
        struct span span = c->span[a];
        if (g->reach[a].merged > 1)
            r->from += ogp_reach_outputs(&g->reach[a], c->at[a], residue[a], &span) * pitch[a] * bytes;
        if (span.count <= 0)
            return false;
        r->to += span.start * out->axis[a] * bytes;
        r->count[a] = span.count;
        r->step[a] = span.count > 1 ? span.step * out->axis[a] : 0;
    }
    r->bias = job->b.data ? ogp_load(dtype, job->b.data, channel * job->b.step) : 0;
    for (int a = 1; a >= 0 && pitch[a] == r->count[2] && (r->count[a] == 1 || r->step[a] == r->count[2] * r->step[2]);
         a--) {
        r->count[2] *= r->count[a];
        r->step[2] = r->count[2] > 1 && r->step[2] == 0 ? r->step[a] : r->step[2];
        r->count[a] = 1;
    }
    return true;
}

/* Writes the rows of one lane, and between their elements those of `odd`, unless that is NULL. */
static void put_rows(const struct tile *t, const struct lane_rows *r, const struct lane_rows *odd)
{
    const struct lanes *const g = t->g;
    const struct ogp_kernels *const k = g->plan->kernels;
    const int64_t bytes = ogp_dtype_bytes(g->plan->problem.dtype);
    for (int64_t d = 0; d < r->count[0]; d++)
        for (int64_t h = 0; h < r->count[1]; h++) {
            char *const to = r->to + (d * r->step[0] + h * r->step[1]) * bytes;
            const int64_t from = (d * g->y_plane + h * g->y_row) * bytes;
            if (odd)
                k->interleave(to, r->from + from, odd->from + from, r->count[2], r->bias, t->job->accumulate);
            else
                k->scatter(to, r->step[2], r->from + from, r->count[2], r->bias, t->job->accumulate);
        }
}

/* Whether the rows of two lanes are the even and the odd elements of the same ones. */
static bool alternate(const struct lane_rows *r, const struct lane_rows *odd, int64_t bytes)
{
    for (int a = 0; a < 3; a++)
        if (r->count[a] != odd->count[a] || r->step[a] != odd->step[a])
            return false;
    return r->step[2] == 2 && odd->to == r->to + bytes;
}

/* Writes lanes whose rows are `pitch` bytes apart in scratch: every line of the tensor once, where residues of the
 * width are neighbours. */
static void put_lanes(const struct tile *t, const struct lanes_class *c, int64_t first, int64_t count, int64_t pitch)
{
    const int64_t bytes = ogp_dtype_bytes(t->g->plan->problem.dtype);
    const bool pairs = t->g->reach[2].merged == 2 && first % 2 == 0;
    for (int64_t lane = 0; lane < count; lane++) {
        struct lane_rows one, other;
        const char *const rows = t->s.rows + lane * pitch;
        if (!aim_lane(t, c, first + lane, rows, &one))
            continue;
        const bool two =
            pairs && lane % 2 == 0 && lane + 1 < count && aim_lane(t, c, first + lane + 1, rows + pitch, &other);
        if (two && alternate(&one, &other, bytes)) {
            put_rows(t, &one, &other);
            lane++;
        } else if (two && alternate(&other, &one, bytes)) { /* padding makes the first residue's outputs odd */
            put_rows(t, &other, &one);
            lane++;
        } else {
            put_rows(t, &one, NULL);
        }
    }
}

static void put_class(const struct tile *t, const struct lanes_class *c)
{
    const struct lanes *const g = t->g;
    const int64_t bytes = ogp_dtype_bytes(g->plan->problem.dtype), lanes = g->plan->kernels->lanes;
    const int64_t y_step = g->bundle * g->unit, first = t->unit * g->unit, pitch = ogp_lanes_row_pitch(g);
    const int64_t n = (c->span[0].count - 1) * g->y_plane + (c->span[1].count - 1) * g->y_row + c->span[2].count;
    const int64_t count = ogp_min(t->units * g->unit, g->lanes_all - first);
    for (int64_t i = 0; i < count; i += lanes) {
        /* those beyond the last are sums of zeros: whole vectors take less than some lanes of each */
        g->plan->kernels->transpose(t->s.rows, pitch, t->s.y + i * bytes, y_step, n, lanes);
        put_lanes(t, c, first + i, ogp_min(lanes, count - i), pitch * bytes);
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
    for (int64_t u = 0; u < t.units && g.reach[2].partial > 0; u++)
        ogp_lanes_mask(&g, t.unit + u, t.s.mask + u * g.unit * ogp_dtype_bytes(plan->problem.dtype));
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
