/* SPDX-License-Identifier: Apache-2.0 */
#include "correlate.h"

#include <string.h>

#include "arena.h"
#include "tiling.h"
#include "util.h"

/* Whether a span is one part whose members are its outputs in order: then the tile is unpacked as it is. */
static bool is_simple(const struct ogp_plan *plan)
{
    for (int a = 0; a < 3; a++)
        if (plan->lattice[a].fold || (!ogp_by_class(&plan->lattice[a], a) && plan->lattice[a].classes > 1))
            return false;
    return true;
}

/* ---- scratch of one worker ---- */

struct scratch {
    char *x, *w, *y, *box;
    int64_t *offset, *place;
};

static struct scratch carve(struct arena *a, const struct ogp_plan *plan, const struct tiling *t,
                            const struct product *p)
{
    const size_t bytes = (size_t)ogp_dtype_bytes(plan->problem.dtype);
    const int64_t weights = p->in_channels * p->out_channels * p->taps[0] * p->taps[1] * p->taps[2];
    struct scratch s = {0};
    s.x = arena_take(a, (size_t)ogp_block_elements(&p->x) * bytes);
    s.y = arena_take(a, (size_t)ogp_block_elements(&p->y) * bytes);
    s.w = arena_take(a, (size_t)weights * bytes);
    s.offset = arena_take(a, (size_t)ogp_product_terms(plan, p) * sizeof(int64_t));
    if (!is_simple(plan)) {
        const struct block box = ogp_block(t->out_channels, t->box, t->box[2], (int64_t)bytes);
        s.box = arena_take(a, (size_t)ogp_block_elements(&box) * bytes);
        s.place = arena_take(a, (size_t)t->out[2] * sizeof(int64_t));
    }
    return s;
}

/* ---- one tile ---- */

struct tile {
    const struct job *job;
    const struct ogp_plan *plan;
    const struct scratch *scratch;
    int64_t n, group, channel; /* the first output channel within the group */
    int64_t channels;
    bool simple; /* as is_simple */
    struct span span[3];
    struct block y, box;
};

/* Adds one piece of one part of the tile, over a block of input channels, to the y block. */
static void add_piece(const struct tile *tile, const struct part part[3], const struct piece piece[3], int64_t first_in,
                      int64_t count_in, bool accumulate)
{
    const struct ogp_plan *const plan = tile->plan;
    const struct job *const job = tile->job;
    const bool adjoint = plan->pass == OGP_GRAD_INPUT;
    const int64_t bytes = ogp_dtype_bytes(plan->problem.dtype);
    struct sampling sampling[3];
    int64_t out[3], taps[3];
    for (int a = 0; a < 3; a++) {
        out[a] = part[a].count;
        taps[a] = piece[a].taps;
    }
    struct product p = ogp_product(plan, out, taps, count_in, tile->channels);
    p.y = tile->y; /* laid out for the largest part */
    for (int a = 0; a < 3; a++)
        sampling[a] = (struct sampling){piece[a].in0, piece[a].in_step, p.x.extent[a], plan->lattice[a].in_extent,
                                        adjoint ? OGP_ZEROS : plan->lattice[a].padding};

    struct volume source = adjoint ? job->y : job->x;
    source.data += (tile->n * source.n + (tile->group * ogp_channels_in(plan) + first_in) * source.c) * bytes;
    ogp_pack(plan, tile->scratch->x, &p.x, &source, sampling);

    struct weights w = job->w;
    w.data += tile->group * plan->problem.co_g * w.co * bytes;
    if (adjoint) { /* the roles of the channels are exchanged */
        w.co = job->w.ci;
        w.ci = job->w.co;
    }
    w.data += (tile->channel * w.co + first_in * w.ci) * bytes;
    ogp_pack_weights(plan, tile->scratch->w, &p, &w, piece);
    ogp_multiply_block(plan, &p, tile->scratch->y, tile->scratch->x, tile->scratch->w, tile->scratch->offset,
                       accumulate);
}

/* The y block of one part: the sum over its pieces and all input channels. */
static void compute_part(const struct tile *tile, const struct part part[3])
{
    const struct ogp_plan *const plan = tile->plan;
    const struct lattice *const lat = plan->lattice;
    const int64_t *const most = plan->tiling.taps;
    const int64_t all = ogp_channels_in(plan), block = plan->tiling.in_channels;
    bool accumulate = false;
    struct piece piece[3];
    for (struct piece_cursor d = {0}; ogp_next_piece(&lat[0], &part[0], most[0], &d, &piece[0]);)
        for (struct piece_cursor h = {0}; ogp_next_piece(&lat[1], &part[1], most[1], &h, &piece[1]);)
            for (struct piece_cursor w = {0}; ogp_next_piece(&lat[2], &part[2], most[2], &w, &piece[2]);)
                for (int64_t c = 0; c < all; c += block, accumulate = true)
                    add_piece(tile, part, piece, c, ogp_min(block, all - c), accumulate);
    if (!accumulate) /* no tap reaches these outputs */
        memset(tile->scratch->y, 0, (size_t)(ogp_block_elements(&tile->y) * ogp_dtype_bytes(plan->problem.dtype)));
}

/* Adds the y block of a part to the places of its outputs in the box. */
static void add_part(const struct tile *tile, const struct part part[3])
{
    const struct ogp_plan *const plan = tile->plan;
    const int64_t bytes = ogp_dtype_bytes(plan->problem.dtype);
    for (int64_t w = 0; w < part[2].count; w++)
        tile->scratch->place[w] =
            ogp_span_place(&plan->lattice[2], tile->span[2], part[2].out0 + (w ? part[2].out_step * w : 0));
    for (int64_t d = 0; d < part[0].count; d++) {
        const int64_t to_d =
            ogp_span_place(&plan->lattice[0], tile->span[0], part[0].out0 + (d ? part[0].out_step * d : 0));
        for (int64_t h = 0; h < part[1].count; h++) {
            const int64_t to_h =
                ogp_span_place(&plan->lattice[1], tile->span[1], part[1].out0 + (h ? part[1].out_step * h : 0));
            for (int64_t c = 0; c < tile->channels; c++)
                plan->kernels->add_at(
                    tile->scratch->box +
                        (c * tile->box.channel + to_d * tile->box.plane + to_h * tile->box.row) * bytes,
                    tile->scratch->place,
                    tile->scratch->y + (c * tile->y.channel + d * tile->y.plane + h * tile->y.row) * bytes,
                    part[2].count);
        }
    }
}

/* All parts of a tile, gathered in the box in the order of the lattice. */
static void compute_box(const struct tile *tile)
{
    const struct ogp_plan *const plan = tile->plan;
    const struct lattice *const lat = plan->lattice;
    const int64_t *const most = plan->tiling.out;
    memset(tile->scratch->box, 0, (size_t)(ogp_block_elements(&tile->box) * ogp_dtype_bytes(plan->problem.dtype)));
    struct part part[3];
    for (struct part_cursor d = {0}; ogp_next_part(&lat[0], tile->span[0], most[0], &d, &part[0]);)
        for (struct part_cursor h = {0}; ogp_next_part(&lat[1], tile->span[1], most[1], &h, &part[1]);)
            for (struct part_cursor w = {0}; ogp_next_part(&lat[2], tile->span[2], most[2], &w, &part[2]);) {
                compute_part(tile, part);
                add_part(tile, part);
            }
}

static void compute_tile(const struct tile *tile)
{
    const struct ogp_plan *const plan = tile->plan;
    const struct job *const job = tile->job;
    const int64_t bytes = ogp_dtype_bytes(plan->problem.dtype);
    if (tile->simple) {
        struct part part[3];
        for (int a = 0; a < 3; a++)
            part[a] = (struct part){tile->span[a].start, tile->span[a].step, tile->span[a].count};
        compute_part(tile, part);
    } else {
        compute_box(tile);
    }
    const int64_t first = tile->group * ogp_channels_out(plan) + tile->channel;
    struct volume out = plan->pass == OGP_GRAD_INPUT ? job->x : job->y;
    out.data += (tile->n * out.n + first * out.c) * bytes;
    for (int a = 0; a < 3; a++)
        out.data += tile->span[a].start * out.axis[a] * bytes;
    struct line bias = job->b;
    if (bias.data)
        bias.data += first * bias.step * bytes;
    ogp_unpack(plan, &out, tile->span, tile->simple ? tile->scratch->y : tile->scratch->box,
               tile->simple ? &tile->y : &tile->box, &bias, job->accumulate);
}

/* ---- spans of outputs, a tile at a time ---- */

/* One tile: spans of at most the tiling's box. */
static void run_tile(struct tile *tile)
{
    const struct ogp_plan *const plan = tile->plan;
    const int64_t bytes = ogp_dtype_bytes(plan->problem.dtype);
    int64_t y_extent[3], box_extent[3];
    for (int a = 0; a < 3; a++) {
        box_extent[a] = tile->span[a].count;
        y_extent[a] = tile->simple ? tile->span[a].count : plan->tiling.out[a];
    }
    tile->y = ogp_block(tile->channels, y_extent, ogp_round_up(y_extent[2], plan->kernels->lanes), bytes);
    tile->box = ogp_block(tile->channels, box_extent, box_extent[2], bytes);
    compute_tile(tile);
}

void ogp_correlate_spans(const struct job *job, const struct ogp_plan *plan, char *scratch_base, struct place at,
                         const struct span span[3])
{
    const struct tiling *const t = &plan->tiling;
    struct arena arena = {.base = scratch_base};
    const struct product largest = ogp_largest_product(plan, t);
    const struct scratch scratch = carve(&arena, plan, t, &largest);
    struct tile tile = {
        .job = job, .plan = plan, .scratch = &scratch, .n = at.n, .group = at.group, .simple = is_simple(plan)};
    for (int64_t c = 0; c < at.channels; c += t->out_channels)
        for (int64_t d = 0; ogp_span_cut(span[0], t->box[0], d, &tile.span[0]); d++)
            for (int64_t h = 0; ogp_span_cut(span[1], t->box[1], h, &tile.span[1]); h++)
                for (int64_t w = 0; ogp_span_cut(span[2], t->box[2], w, &tile.span[2]); w++) {
                    tile.channel = at.channel + c;
                    tile.channels = ogp_min(t->out_channels, at.channels - c);
                    run_tile(&tile);
                }
}

/* ---- tasks: one tile each, neighbours along the height and width last ---- */

static void run_task(const struct job *job, int64_t at, int worker)
{
    const struct ogp_plan *const plan = job->plan;
    const struct tiling *const t = &plan->tiling;
    struct span span[3];
    for (int a = 2; a >= 0; a--) {
        const bool by_class = ogp_by_class(&plan->lattice[a], a);
        const int64_t spans = ogp_span_count(&plan->lattice[a], by_class, t->box[a]);
        span[a] = ogp_span_at(&plan->lattice[a], by_class, t->box[a], at % spans);
        at /= spans;
        if (span[a].count == 0)
            return;
    }
    const int64_t blocks = ogp_ceil_div(ogp_channels_out(plan), t->out_channels);
    struct place place = {.channel = at % blocks * t->out_channels};
    place.channels = ogp_min(t->out_channels, ogp_channels_out(plan) - place.channel);
    place.group = at / blocks % plan->problem.g;
    place.n = at / blocks / plan->problem.g;
    ogp_correlate_spans(job, plan, ogp_job_scratch(job, worker), place, span);
}

void ogp_correlate_run(struct job *job)
{
    ogp_job_each(job, job->plan->tasks, run_task);
}

/* ---- the model ---- */

static double spans(const struct ogp_plan *plan, const struct tiling *t)
{
    double count = 1;
    for (int a = 0; a < 3; a++)
        count *= (double)ogp_span_count(&plan->lattice[a], ogp_by_class(&plan->lattice[a], a), t->box[a]);
    return count;
}

static double task_count(const struct ogp_plan *plan, const struct tiling *t)
{
    return spans(plan, t) * (double)(plan->problem.n * plan->problem.g) *
           (double)ogp_ceil_div(ogp_channels_out(plan), t->out_channels);
}

static double cost_of(const struct ogp_plan *plan, const struct tiling *t)
{
    const bool dense = plan->order[2] == 2 && plan->problem.x_layout == OGP_NCDHW;
    struct product p = ogp_largest_product(plan, t);
    const double pieces = ogp_model_pieces(plan, &p);
    double parts = 1;
    for (int a = 0; a < 3; a++)
        if (!ogp_by_class(&plan->lattice[a], a))
            parts *= (double)ogp_min(plan->lattice[a].classes, t->box[a]);
    const double blocks = (double)ogp_ceil_div(ogp_max(ogp_channels_in(plan), 1), t->in_channels);
    const double weights = (double)(p.in_channels * p.out_channels) * (double)(p.taps[0] * p.taps[1] * p.taps[2]);
    const bool dense_in = dense && plan->lattice[2].s1 == 1 && plan->lattice[2].l1 == 1;
    const double pack = ogp_model_rows(&p, true) * ogp_row_cycles(p.out[2] + p.taps[2] - 1, dense_in);
    const double unpack = ogp_model_rows(&p, false) * ogp_row_cycles(p.out[2], dense) * (is_simple(plan) ? 1 : 4);
    const double each = blocks * pieces * (pack + 1.5 * weights + 100 + ogp_multiply_cycles(plan, &p)) + unpack;
    return task_count(plan, t) * parts * each;
}

static size_t bytes_of(const struct ogp_plan *plan, const struct tiling *t)
{
    struct arena arena = {0};
    const struct product largest = ogp_largest_product(plan, t);
    carve(&arena, plan, t, &largest);
    return arena.bytes;
}

bool ogp_correlate_prepare(struct ogp_plan *plan, int64_t limit)
{
    static const struct tiling_model model = {bytes_of, cost_of, task_count};
    if (!ogp_tiling_choose(plan, &model, ogp_channels_in(plan), ogp_channels_out(plan), ogp_worker_limit(limit)))
        return false;
    plan->tasks = (int64_t)task_count(plan, &plan->tiling);
    return ogp_plan_reserve(plan, limit, 0, bytes_of(plan, &plan->tiling));
}
