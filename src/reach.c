/* SPDX-License-Identifier: Apache-2.0 */
#include "reach.h"

#include "util.h"

/* The gradient of an input read with stride 1 is a forward pass with the taps turned round. */
static bool is_plain(const struct lattice *lat)
{
    return !lat->adjoint || lat->axis.s == 1;
}

static int64_t stride_of(const struct lattice *lat)
{
    return lat->adjoint ? 1 : lat->axis.s;
}

int64_t ogp_reach_positions(const struct lattice *lat)
{
    if (is_plain(lat))
        return lat->out_extent;
    return (lat->out_extent - 1 + lat->axis.p) / lat->lcm - lat->axis.p / lat->lcm + 1;
}

static void init_plain(struct reach *r, int64_t out)
{
    const struct axis *const a = &r->lat->axis;
    const int64_t s1 = r->lat->adjoint ? 1 : r->lat->s1, l1 = r->lat->adjoint ? a->l : r->lat->l1;
    const int64_t phases = ogp_min(s1, a->k), each = ogp_ceil_div(a->k, phases);
    r->period = r->merged = 1;
    r->end = r->lat->out_extent;
    r->taps_most = r->taps_packed = a->k;
    r->apart = each > 1 && l1 >= out;
    r->strips = r->apart ? a->k : phases;
    r->extent = out + (r->apart ? 0 : (each - 1) * l1);
}

bool ogp_reach_partial(const struct lattice *lat)
{
    const struct axis *const a = &lat->axis;
    return !is_plain(lat) && a->l == 1 && a->k > a->s && a->k % a->s != 0 && a->s <= lat->out_extent;
}

static void init_phased(struct reach *r, int64_t out, bool partly)
{
    const struct axis *const a = &r->lat->axis;
    const bool alike = a->l == 1 && a->k % a->s == 0 && a->s <= r->lat->out_extent;
    partly &= ogp_reach_partial(r->lat);
    r->phased = true;
    r->period = r->lat->lcm;
    r->shift = a->p;
    r->first = a->p / r->period;
    r->end = r->first + ogp_reach_positions(r->lat);
    r->merged = alike || partly ? a->s : 1;
    r->partial = partly ? a->k % a->s : 0;
    r->taps_most = ogp_ceil_div(a->k, r->lat->s1);
    r->taps_packed = r->merged > 1 ? r->taps_most : a->k;
    r->strips = 1;
    r->extent = out + r->taps_most - 1;
}

bool ogp_reach_init(struct reach *r, const struct lattice *lat, int64_t out, bool together)
{
    *r = (struct reach){.lat = lat};
    if (lat->fold || (!is_plain(lat) && lat->lcm >= lat->out_extent && out > 1))
        return false;
    if (is_plain(lat))
        init_plain(r, out);
    else
        init_phased(r, out, together);
    return true;
}

bool ogp_reach_shared(const struct reach *r)
{
    return !r->phased || r->lat->l1 == 1;
}

void ogp_reach_residues(const struct reach *r, int64_t m0, int64_t count, int64_t *lo, int64_t *hi)
{
    *lo = 0;
    *hi = 1;
    if (!r->phased || r->merged > 1)
        return;
    *lo = ogp_max(0, r->shift - r->period * (m0 + count - 1));
    *hi = ogp_min(r->period, r->lat->out_extent + r->shift - (m0 ? r->period * m0 : 0));
}

int64_t ogp_reach_outputs(const struct reach *r, struct stretch at, int64_t residue, struct span *span)
{
    const int64_t start = (at.m0 ? r->period * at.m0 : 0) + residue - r->shift;
    const int64_t skip = start < 0 ? ogp_ceil_div(-start, r->period) : 0;
    const int64_t end = start < r->lat->out_extent ? ogp_ceil_div(r->lat->out_extent - start, r->period) : 0;
    *span = (struct span){start + (skip ? r->period * skip : 0), r->period, ogp_min(end, at.count) - skip};
    return skip;
}

/* The first tap that reaches a residue, or s' where none does. */
static int64_t first_tap(const struct reach *r, int64_t residue)
{
    const struct axis *const a = &r->lat->axis;
    const int64_t last = ogp_min(r->lat->s1, a->k);
    int64_t t = 0;
    while (t < last && (residue - t * a->l) % a->s != 0)
        t++;
    return t < last ? t : r->lat->s1;
}

int64_t ogp_reach_taps(const struct reach *r, int64_t residue, int64_t *packed)
{
    *packed = 0;
    if (r->partial > 0) {
        *packed = residue ? r->taps_most - 1 : 0;
        return residue ? 1 : r->taps_most - 1;
    }
    if (!r->phased || r->merged > 1)
        return r->taps_most;
    const int64_t t = first_tap(r, residue), k = r->lat->axis.k, s1 = r->lat->s1;
    if (t >= ogp_min(s1, k))
        return 0;
    *packed = t * (k / s1) + ogp_min(t, k % s1);
    return ogp_ceil_div(k - t, s1);
}

struct reach_tap ogp_reach_tap(const struct reach *r, int64_t residue, int64_t a, int64_t lane)
{
    const struct lattice *const lat = r->lat;
    if (!r->phased) {
        const int64_t s1 = lat->adjoint ? 1 : lat->s1, l1 = lat->adjoint ? lat->axis.l : lat->l1;
        const int64_t t = lat->adjoint ? lat->axis.k - 1 - a : a; /* from the low end of the window */
        return (struct reach_tap){
            .strip = r->apart ? t : t % s1,
            .at = r->apart ? 0 : t / s1 * l1,
            .kernel = a,
        };
    }
    if (r->partial > 0 && residue)
        a += r->taps_most - 1;
    const int64_t t = r->merged > 1 ? lane : first_tap(r, residue);
    const int64_t taps = ogp_reach_shared(r) ? r->taps_most : ogp_ceil_div(lat->axis.k - t, lat->s1);
    return (struct reach_tap){.at = taps - 1 - a, .kernel = t + lat->s1 * a};
}

void ogp_reach_strip(const struct reach *r, struct stretch at, int64_t strip, int64_t *first, int64_t *step,
                     int64_t *count)
{
    const struct lattice *const lat = r->lat;
    const struct axis *const a = &lat->axis;
    *count = at.count + r->taps_most - 1;
    if (ogp_reach_shared(r) && r->phased) {
        *first = at.m0 - (r->taps_most - 1);
        *step = 1;
    } else if (r->phased) { /* (residue - t*l)/s + l'(m - (taps-1)) */
        const int64_t t = first_tap(r, at.residue), taps = ogp_ceil_div(a->k - t, lat->s1);
        *first = (at.residue - t * a->l) / a->s + (at.m0 ? lat->l1 * at.m0 : 0) - (taps > 1 ? lat->l1 * (taps - 1) : 0);
        *step = lat->l1;
        *count = at.count + taps - 1;
    } else {
        const int64_t s1 = lat->adjoint ? 1 : lat->s1, l1 = lat->adjoint ? a->l : lat->l1;
        const int64_t taps = r->apart ? 1 : ogp_ceil_div(a->k - strip, s1);
        const int64_t pad = lat->adjoint ? (a->k - 1) * a->l - a->p : a->p;
        *first = at.m0 * stride_of(lat) + strip * a->l - pad;
        *step = stride_of(lat);
        *count = at.count + (taps > 1 ? (taps - 1) * l1 : 0);
    }
}
