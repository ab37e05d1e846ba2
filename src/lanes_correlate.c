/* SPDX-License-Identifier: Apache-2.0 */
/* Weights are packed in passes over as many bundles of lanes as the shared limit holds; in each, a task is a tile of
 * one sample and one bundle, which owns its outputs. */
#include "lanes_correlate.h"

#include <math.h>
#include <string.h>

#include "direct.h"
#include "util.h"

/* ---- workspace ---- */

/* Bundles [first, first + count) of the pass under way. */
struct shared {
    struct pass {
        int64_t first, count;
    } *pass;
    char *w;
};

static struct shared carve_shared(struct arena *a, const struct lanes *g, int64_t bundles)
{
    struct shared s;
    s.pass = arena_take(a, sizeof *s.pass);
    s.w = arena_take(
        a, (size_t)(bundles * g->bundle * ogp_lanes_unit_elements(g) * ogp_dtype_bytes(g->plan->problem.dtype)));
    return s;
}

struct scratch {
    char *x, *y, *rows;
    int64_t *offset;
};

/* Between the rows that a vector of lanes is transposed into. */
static int64_t row_pitch(const struct lanes *g)
{
    return ogp_odd_lines(g->positions, ogp_dtype_bytes(g->plan->problem.dtype));
}

static struct scratch carve(struct arena *a, const struct lanes *g, const struct tiling *t)
{
    const int64_t bytes = ogp_dtype_bytes(g->plan->problem.dtype);
    int64_t taps = 1;
    for (int i = 0; i < 3; i++)
        taps *= g->reach[i].taps_most;
    struct scratch s;
    s.x = arena_take(a, (size_t)(t->in_channels * g->channel * bytes));
    s.y = arena_take(a, (size_t)(g->positions * g->bundle * g->unit * bytes));
    s.rows = arena_take(a, (size_t)(g->plan->kernels->lanes * row_pitch(g) * bytes));
    s.offset = arena_take(a, (size_t)(t->in_channels * taps) * sizeof(int64_t));
    return s;
}

/* ---- one class of one tile ---- */

struct tile {
    const struct job *job;
    const struct lanes *g;
    struct scratch s;
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
        const int64_t some = ogp_min(lanes, count - i);
        g->plan->kernels->transpose(t->s.rows, row_pitch(g), t->s.y + i * bytes, y_step, n, some);
        for (int64_t lane = 0; lane < some; lane++)
            put_lane(t, c, first + i + lane, t->s.rows + lane * row_pitch(g) * bytes);
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

static int64_t spatial_tiles(const struct lanes *g)
{
    return g->tiles[0] * g->tiles[1] * g->tiles[2];
}

/* Tiles of one bundle are neighbours, samples then. */
static void run_task(const struct job *job, int64_t at, int worker)
{
    const struct ogp_plan *const plan = job->plan;
    struct lanes g;
    ogp_lanes_init(&g, plan, &plan->tiling);
    struct arena shared_arena = {.base = job->shared}, arena = {.base = ogp_job_scratch(job, worker)};
    const struct shared shared = carve_shared(&shared_arena, &g, 0);
    struct tile t = {.job = job, .g = &g, .s = carve(&arena, &g, &plan->tiling)};
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
    const struct shared shared = carve_shared(&arena, &g, 0);
    const int64_t bundle = shared.pass->first + at / g.bundle, unit = bundle % g.bundles * g.bundle + at % g.bundle;
    if (unit < g.units)
        ogp_lanes_pack_unit(job, &g, bundle / g.bundles, unit,
                            shared.w + at * ogp_lanes_unit_elements(&g) * ogp_dtype_bytes(job->plan->problem.dtype));
}

/* Bundles that a pass holds, at most all: from the shared bytes of the plan, or of the limit. */
static int64_t bundles_a_pass(const struct lanes *g, int64_t shared_bytes)
{
    struct arena none = {0}, one = {0};
    carve_shared(&none, g, 0);
    carve_shared(&one, g, 1);
    const int64_t all = g->plan->problem.g * g->bundles;
    if (shared_bytes < (int64_t)one.bytes)
        return 0;
    return one.bytes == none.bytes
               ? all
               : ogp_min(all, (shared_bytes - (int64_t)none.bytes) / (int64_t)(one.bytes - none.bytes));
}

void ogp_lanes_correlate_run(struct job *job)
{
    struct lanes g;
    ogp_lanes_init(&g, job->plan, &job->plan->tiling);
    struct arena arena = {.base = job->shared};
    const struct shared shared = carve_shared(&arena, &g, 0);
    const int64_t each = bundles_a_pass(&g, (int64_t)job->plan->shared_bytes), all = job->plan->problem.g * g.bundles;
    for (int64_t first = 0; first < all; first += each) {
        *shared.pass = (struct pass){first, ogp_min(each, all - first)};
        ogp_job_each(job, shared.pass->count * g.bundle, pack_task);
        ogp_job_each(job, shared.pass->count * job->plan->problem.n * spatial_tiles(&g), run_task);
    }
}

/* ---- the choice of a tile ---- */

/* A tile's working set should stay within the second-level cache: 512 KiB on the smallest machines of interest. */
enum { CACHE_BYTES = 448 << 10, WANTED_TASKS = 32, CYCLES_A_TASK = 100 * 1000, POSITIONS_MOST = 1024 };

static size_t bytes_of(const struct lanes *g, const struct tiling *t)
{
    struct arena arena = {0};
    carve(&arena, g, t);
    return arena.bytes;
}

static double task_count(const struct lanes *g)
{
    return (double)g->plan->problem.n * (double)(g->plan->problem.g * g->bundles) * (double)spatial_tiles(g);
}

static double cost_of(const struct lanes *g, const struct tiling *t)
{
    const struct ogp_plan *const plan = g->plan;
    const double lanes = (double)g->lanes_all, all = (double)plan->problem.g;
    double classes = 1, taps = 1, box = 1, rows = 1, outs = 1;
    for (int a = 0; a < 3; a++) {
        const struct reach *const r = &g->reach[a];
        const double residues = r->phased && r->merged == 1 ? (double)ogp_min(r->period, r->lat->out_extent) : 1;
        classes *= residues;
        taps *= (double)r->taps_packed * (r->phased && r->merged == 1 ? (double)r->lat->l1 : 1);
        box *= (double)r->strips * (double)r->extent;
        rows *= a < 2 ? (double)r->strips * (double)r->extent : (double)r->strips;
        outs *= (double)t->out[a];
    }
    const bool dense = plan->problem.x_layout == OGP_NCDHW && plan->order[2] == 2;
    const double in = (double)g->in_channels, blocks = (double)ogp_ceil_div(ogp_max(1, g->in_channels), t->in_channels);
    const bool shared = blocks == 1 && ogp_reach_shared(&g->reach[0]) && ogp_reach_shared(&g->reach[1]) &&
                        ogp_reach_shared(&g->reach[2]);
    const double short_rows = g->row == t->out[2] ? 0.2 : 1; /* others are joined */
    const double pack = in * (20 * rows * short_rows + box * (dense && g->reach[2].strips == 1 ? 0.2 : 1.2));
    const double unpack =
        lanes / (double)g->bundles * (outs * (dense ? 1 : 2) + 20 * outs / (double)t->out[2] * short_rows);
    const double multiply = (double)g->units / (double)g->bundles * ogp_lanes_term_cycles(g, t) * in * taps;
    const double call = classes * (300 + blocks * (double)g->units / (double)g->bundles * 60 + in * 2);
    const double weights = (double)g->terms * lanes * all * 0.7;
    const double held = (double)(g->terms * g->bundle * g->unit * ogp_dtype_bytes(plan->problem.dtype));
    const double stream =
        held > CACHE_BYTES ? held / 10 : 0; /* weights of a task, from beyond the second-level cache */
    return task_count(g) * (pack * (shared ? 1 : classes) + classes * unpack + multiply + call + stream) + weights;
}

/* A tiling of about so many positions. */
static void shape(const struct ogp_plan *plan, struct tiling *t, int64_t positions)
{
    int64_t left = positions;
    for (int a = 2; a >= 0; a--) {
        t->out[a] = ogp_even_block(ogp_reach_positions(&plan->lattice[a]), ogp_max(1, left));
        left /= t->out[a];
    }
}

static int64_t channels_out(const struct ogp_plan *plan)
{
    return plan->pass == OGP_GRAD_INPUT ? plan->problem.ci_g : plan->problem.co_g;
}

/* How far positions run on: whatever is the cheapest. */
static bool choose_flat(struct lanes *g, const struct ogp_plan *plan, struct tiling *t)
{
    double best = 0;
    int chosen = -1;
    for (int flat = 0; flat < 3; flat++) {
        t->flat = flat;
        if (!ogp_lanes_init(g, plan, t))
            return false;
        const double cycles = ogp_lanes_term_cycles(g, t);
        if (chosen < 0 || cycles < best) {
            chosen = flat;
            best = cycles;
        }
    }
    t->flat = chosen;
    return ogp_lanes_init(g, plan, t);
}

/* Cuts the input channels, then the lanes of a bundle, until scratch and the weights of a bundle fit. */
static bool fit(struct lanes *g, const struct ogp_plan *plan, struct tiling *t, int64_t limit)
{
    const int64_t worker = ogp_min(ogp_worker_limit(limit), CACHE_BYTES);
    t->in_channels = ogp_max(1, plan->pass == OGP_GRAD_INPUT ? plan->problem.co_g : plan->problem.ci_g);
    t->out_channels = t->vectors * plan->kernels->lanes;
    if (!choose_flat(g, plan, t))
        return false;
    t->out_channels *= g->units;
    for (;;) {
        if (!ogp_lanes_init(g, plan, t))
            return false;
        const bool held = bundles_a_pass(g, ogp_shared_limit(limit)) > 0;
        if (held && (int64_t)bytes_of(g, t) <= worker)
            return true;
        const int64_t x_bytes = t->in_channels * g->channel, y_bytes = g->positions * g->bundle * g->unit;
        if (held && t->in_channels > 1 && (x_bytes > y_bytes || g->bundle == 1))
            t->in_channels = ogp_even_block(t->in_channels, ogp_ceil_div(t->in_channels, 2));
        else if (g->bundle > 1)
            t->out_channels = ogp_even_block(g->units, ogp_ceil_div(g->bundle, 2)) * g->unit;
        else
            return false;
    }
}

/* Keeps the tiling where it is the cheapest so far; too few tasks count as a third more. */
static void consider(struct ogp_plan *plan, const struct lanes *g, const struct tiling *t, double *least)
{
    const double cost = cost_of(g, t);
    const bool enough = task_count(g) >= WANTED_TASKS || cost < (double)WANTED_TASKS * CYCLES_A_TASK;
    const double counted = enough ? cost : 1.33 * cost;
    if (counted < *least) {
        *least = counted;
        plan->cost = cost;
        plan->tiling = *t;
    }
}

bool ogp_lanes_correlate_prepare(struct ogp_plan *plan, int64_t limit)
{
    double least = INFINITY;
    struct lanes g;
    if (channels_out(plan) == 0)
        return false;
    for (int64_t vectors = 1; vectors <= OGP_LANE_VECTORS_MOST; vectors++)
        for (int64_t positions = POSITIONS_MOST; positions >= 1; positions /= 2) {
            struct tiling t = {.vectors = vectors, .splits = 1};
            shape(plan, &t, positions);
            if (!fit(&g, plan, &t, limit))
                continue;
            consider(plan, &g, &t, &least);
            for (int cut = 0; cut < 3 && g.bundle > 1; cut++) {
                t.out_channels = ogp_even_block(g.units, ogp_ceil_div(g.bundle, 2)) * g.unit;
                ogp_lanes_init(&g, plan, &t);
                consider(plan, &g, &t, &least);
            }
        }
    if (least == INFINITY)
        return false;
    ogp_lanes_init(&g, plan, &plan->tiling);
    struct arena shared = {0};
    carve_shared(&shared, &g, bundles_a_pass(&g, ogp_shared_limit(limit)));
    plan->shared_bytes = shared.bytes;
    plan->worker_bytes = bytes_of(&g, &plan->tiling);
    plan->workers_most = (limit - OGP_ALIGN - (int64_t)plan->shared_bytes) / (int64_t)plan->worker_bytes;
    plan->tasks = (int64_t)task_count(&g);
    return plan->workers_most >= 1;
}
