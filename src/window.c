/* SPDX-License-Identifier: Apache-2.0 */
#include "window.h"

#include "util.h"

bool ogp_window_init(struct window *w, const struct axis *a, int64_t out)
{
    const int64_t g = ogp_gcd(a->s, a->l), s1 = a->s / g, l1 = a->l / g;
    const double covered = (double)(out - 1) * (double)s1 + (double)(a->k - 1) * (double)l1 + 1;
    const double apart = (double)a->k * (double)out;
    *w = (struct window){.axis = a, .apart = apart < covered};
    if ((w->apart ? apart : covered) > 0x1p30)
        return false;
    w->runs = w->apart ? a->k : 1;
    w->extent = w->apart ? out : (int64_t)covered;
    w->tap_step = w->apart ? 0 : l1;
    w->out_step = w->apart ? 1 : s1;
    return true;
}

struct sampling ogp_window_run(const struct window *w, enum ogp_padding padding, int64_t first, int64_t count,
                               int64_t at)
{
    const struct axis *const a = w->axis;
    struct sampling s = {.extent = a->i, .padding = padding};
    s.first = first * a->s + at * a->l - a->p;
    if (w->apart) {
        s.step = a->s;
        s.count = count;
    } else {
        s.step = ogp_gcd(a->s, a->l);
        s.count = (count > 1 ? (count - 1) * w->out_step : 0) + (a->k > 1 ? (a->k - 1) * w->tap_step : 0) + 1;
    }
    return s;
}
