/* SPDX-License-Identifier: Apache-2.0 */
#include "lattice.h"

#include "util.h"

void ogp_lattice_init(struct lattice *lat, const struct problem *p, enum ogp_pass pass, int at)
{
    const struct axis *a = &p->axis[at];
    const int64_t g = ogp_gcd(a->s, a->l);
    *lat = (struct lattice){
        .axis = *a,
        .padding = p->padding,
        .adjoint = pass == OGP_GRAD_INPUT,
        .s1 = a->s / g,
        .l1 = a->l / g,
        .lcm = ogp_mul_saturated(a->s / g, a->l),
    };
    lat->fold = lat->adjoint && p->padding != OGP_ZEROS && (a->p > 0 || a->q > 0);
    lat->in_extent = lat->adjoint ? a->o : a->i;
    lat->out_extent = lat->adjoint ? a->i : a->o;
    lat->classes = lat->adjoint ? lat->lcm : lat->l1;
}

int64_t ogp_lattice_source(const struct lattice *lat, int64_t j)
{
    return ogp_pad_source(lat->adjoint ? OGP_ZEROS : lat->padding, lat->in_extent, j);
}

int64_t ogp_span_place(const struct lattice *lat, struct span span, int64_t j)
{
    const int64_t out = lat->fold ? ogp_pad_source(lat->padding, lat->out_extent, j) : j;
    return (out - span.start) / span.step;
}

/* Padded outputs [lo, hi). */
struct interval {
    int64_t lo, hi;
};

/* The at-th interval of padded outputs that fold into the box; false past the last. It may be empty.
 * Circular: one per wrap. Others: those below the axis, inside it, above it. */
static bool preimage(const struct lattice *lat, struct span box, int64_t at, struct interval *found)
{
    const int64_t i = lat->axis.i, low = -lat->axis.p, high = i + lat->axis.q;
    const int64_t b0 = box.start, b1 = box.start + box.count;
    struct interval v;
    if (!lat->fold) {
        if (at > 0)
            return false;
        v = (struct interval){b0, b1};
    } else if (lat->padding == OGP_CIRCULAR) {
        const int64_t wraps_below = ogp_ceil_div(lat->axis.p, i), wraps_above = ogp_ceil_div(lat->axis.q, i);
        if (at > wraps_below + wraps_above)
            return false;
        const int64_t shift = (at - wraps_below) * i;
        v = (struct interval){ogp_max(b0 + shift, low), ogp_min(b1 + shift, high)};
    } else {
        if (at > 2)
            return false;
        const bool reflect = lat->padding == OGP_REFLECT;
        if (at == 1)
            v = (struct interval){b0, b1};
        else if (at == 0)
            v = reflect ? (struct interval){ogp_max(low, 1 - b1), ogp_min(0, 1 - b0)}
                        : (struct interval){low, b0 == 0 ? 0 : low};
        else
            v = reflect ? (struct interval){ogp_max(i, 2 * i - 1 - b1), ogp_min(high, 2 * i - 1 - b0)}
                        : (struct interval){i, b1 == i ? high : i};
    }
    *found = v;
    return true;
}

bool ogp_next_part(const struct lattice *lat, struct span span, int64_t most, struct part_cursor *at, struct part *part)
{
    if (span.step != 1 || lat->classes == 1) {
        if (!lat->fold) { /* one class already */
            if (at->segment++ > 0 || span.count == 0)
                return false;
            *part = (struct part){span.start, span.step, span.count};
            return true;
        }
    }
    struct interval v;
    while (preimage(lat, span, at->segment, &v)) {
        const int64_t lo = v.lo + at->offset;
        if (lo >= v.hi) {
            at->segment++;
            at->offset = 0;
            continue;
        }
        /* `most` members of every class lie in most*classes neighbours; classes may be astronomically many */
        const int64_t hi = v.hi - lo > ogp_mul_saturated(most, lat->classes) ? lo + most * lat->classes : v.hi;
        if (at->residue >= ogp_min(lat->classes, hi - lo)) {
            at->offset += hi - lo;
            at->residue = 0;
            continue;
        }
        const int64_t first = lo + at->residue++;
        *part = (struct part){first, lat->classes, ogp_ceil_div(hi - first, lat->classes)};
        return true;
    }
    return false;
}

static bool forward_piece(const struct lattice *lat, const struct part *part, int64_t most, struct piece_cursor *at,
                          struct piece *piece)
{
    const struct axis *a = &lat->axis;
    for (; at->phase < ogp_min(lat->s1, a->k); at->phase++, at->chunk = 0) {
        const int64_t taps = ogp_ceil_div(a->k - at->phase, lat->s1);
        const int64_t first = at->chunk;
        if (first >= taps)
            continue;
        at->chunk = ogp_min(first + most, taps);
        *piece = (struct piece){
            .in0 = part->out0 * a->s + at->phase * a->l - a->p + (first ? lat->lcm * first : 0),
            .in_step = lat->lcm,
            .tap0 = at->phase + lat->s1 * first,
            .tap_step = lat->s1,
            .taps = at->chunk - first,
        };
        return true;
    }
    return false;
}

static bool adjoint_piece(const struct lattice *lat, const struct part *part, int64_t most, struct piece_cursor *at,
                          struct piece *piece)
{
    const struct axis *a = &lat->axis;
    const int64_t c = part->out0 + a->p, last = ogp_min(lat->s1, a->k);
    int64_t t0 = 0;
    while (t0 < last && (c - t0 * a->l) % a->s != 0)
        t0++;
    if (t0 == last)
        return false;
    const int64_t taps = ogp_ceil_div(a->k - t0, lat->s1), first = at->chunk;
    if (first >= taps)
        return false;
    at->chunk = ogp_min(first + most, taps);
    *piece = (struct piece){
        .in0 = (c - t0 * a->l) / a->s - lat->l1 * (taps - 1 - first),
        .in_step = lat->l1,
        .tap0 = t0 + lat->s1 * (taps - 1 - first),
        .tap_step = -lat->s1,
        .taps = at->chunk - first,
    };
    return true;
}

/* The first k % s' phases have one tap more than the others. */
static int64_t phase_taps(const struct lattice *lat, int64_t phase)
{
    return ogp_ceil_div(lat->axis.k - phase, lat->s1);
}

int64_t ogp_piece_count(const struct lattice *lat, int64_t most)
{
    const int64_t phases = ogp_min(lat->s1, lat->axis.k), longer = lat->s1 < lat->axis.k ? lat->axis.k % lat->s1 : 0;
    return longer * ogp_ceil_div(phase_taps(lat, 0), most) +
           (phases - longer) * ogp_ceil_div(phase_taps(lat, phases - 1), most);
}

struct piece ogp_piece_at(const struct lattice *lat, int64_t most, int64_t at)
{
    const int64_t longer = lat->s1 < lat->axis.k ? lat->axis.k % lat->s1 : 0;
    const int64_t chunks = ogp_ceil_div(phase_taps(lat, 0), most);
    int64_t phase, chunk;
    if (at < longer * chunks) {
        phase = at / chunks;
        chunk = at % chunks;
    } else {
        const int64_t rest = ogp_ceil_div(phase_taps(lat, ogp_min(lat->s1, lat->axis.k) - 1), most);
        phase = longer + (at - longer * chunks) / rest;
        chunk = (at - longer * chunks) % rest;
    }
    const struct part part = {.out0 = 0, .out_step = lat->classes, .count = 1};
    struct piece_cursor cursor = {.phase = phase, .chunk = chunk * most};
    struct piece piece = {0};
    forward_piece(lat, &part, most, &cursor, &piece);
    return piece;
}

bool ogp_next_piece(const struct lattice *lat, const struct part *part, int64_t most, struct piece_cursor *at,
                    struct piece *piece)
{
    return (lat->adjoint ? adjoint_piece : forward_piece)(lat, part, most, at, piece);
}

struct piece ogp_whole_piece(const struct lattice *lat, int64_t out0)
{
    const struct part part = {out0, lat->classes, 1};
    struct piece_cursor cursor = {0};
    struct piece piece = {0};
    ogp_next_piece(lat, &part, lat->axis.k, &cursor, &piece);
    return piece;
}

int64_t ogp_lattice_members(const struct lattice *lat)
{
    return ogp_ceil_div(lat->out_extent, ogp_min(lat->classes, lat->out_extent));
}

int64_t ogp_span_count(const struct lattice *lat, bool by_class, int64_t most)
{
    if (!by_class)
        return ogp_ceil_div(lat->out_extent, most);
    const int64_t classes = ogp_min(lat->classes, lat->out_extent);
    return classes * ogp_ceil_div(ogp_ceil_div(lat->out_extent, classes), most);
}

struct span ogp_span_at(const struct lattice *lat, bool by_class, int64_t most, int64_t at)
{
    const int64_t classes = by_class ? ogp_min(lat->classes, lat->out_extent) : 1;
    const int64_t blocks = ogp_ceil_div(ogp_ceil_div(lat->out_extent, classes), most);
    const int64_t first = at / blocks, skip = at % blocks * most;
    const int64_t members = ogp_ceil_div(lat->out_extent - first, classes);
    return (struct span){
        .start = first + classes * skip,
        .step = by_class ? lat->classes : 1,
        .count = ogp_max(0, ogp_min(most, members - skip)),
    };
}

bool ogp_span_cut(struct span whole, int64_t most, int64_t at, struct span *part)
{
    const int64_t first = at * most;
    *part =
        (struct span){whole.start + (first ? whole.step * first : 0), whole.step, ogp_min(most, whole.count - first)};
    return part->count > 0;
}
