/* SPDX-License-Identifier: Apache-2.0 */
#include "flat.h"

#include "util.h"

static int64_t taps_of(const struct problem *p)
{
    return p->axis[0].k * p->axis[1].k * p->axis[2].k;
}

bool ogp_flat_problem(const struct problem *p, const struct ogp_problem *asked, struct ogp_problem *flat)
{
    int64_t channels = p->ci;
    for (int a = 0; a < 3; a++) {
        const struct axis *const axis = &p->axis[a];
        if (axis->p != 0 || axis->q != 0 || axis->k != axis->i || __builtin_mul_overflow(channels, axis->k, &channels))
            return false;
    }
    if (p->n < 2 || p->ci == 0 || taps_of(p) == 1)
        return false;
    *flat = (struct ogp_problem){.size = sizeof *flat,
                                 .dtype = asked->dtype,
                                 .x_layout = OGP_NDHWC,
                                 .y_layout = OGP_NDHWC,
                                 .n = 1,
                                 .g = p->g,
                                 .ci = channels,
                                 .co = p->co,
                                 .in = {1, 1, p->n},
                                 .kernel = {1, 1, 1}};
    return true;
}

/* Products of an output: an axis of the tensors x and w. */
struct side {
    int64_t count, x, w;
};

/* Whether the axes follow one another in both tensors, in whatever order; then the steps from product to product. */
static bool follow(const struct side side[4], int64_t *x, int64_t *w)
{
    bool done[4] = {false};
    for (int64_t reach = 1;;) {
        int next = -1;
        for (int k = 0; k < 4; k++)
            if (side[k].count > 1 && !done[k] && (next < 0 || side[k].x < side[next].x))
                next = k;
        if (next < 0)
            return true;
        if (reach == 1) {
            *x = side[next].x;
            *w = side[next].w;
        } else if (side[next].x != reach * *x || side[next].w != reach * *w) {
            return false;
        }
        done[next] = true;
        reach *= side[next].count;
    }
}

void ogp_flat_take(struct job *job)
{
    const struct ogp_plan *const flat = job->plan->flat;
    const struct problem *const p = &job->plan->problem;
    if (!flat)
        return;
    struct side side[4] = {{p->ci_g, job->x.c, job->w.ci}};
    for (int a = 0; a < 3; a++)
        side[1 + a] = (struct side){p->axis[a].k, job->x.axis[a], job->w.axis[a]};
    int64_t x = 0, w = 0;
    /* the channels of the next group come after all products of one */
    if (!follow(side, &x, &w) || (p->g > 1 && job->x.c != x * taps_of(p)))
        return;
    const int64_t samples[2] = {job->x.n, job->y.n};
    job->x.n = job->y.n = 0;
    job->x.c = x;
    job->w.ci = w;
    for (int a = 0; a < 3; a++) {
        const bool positions = flat->order[a] == 2;
        job->x.axis[a] = positions ? samples[0] : 0;
        job->y.axis[a] = positions ? samples[1] : 0;
        job->w.axis[a] = 0;
    }
    job->plan = flat;
}
