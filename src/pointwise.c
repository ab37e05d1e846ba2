/* SPDX-License-Identifier: Apache-2.0 */
#include "pointwise.h"

#include <math.h>

#include "tiling.h"
#include "util.h"

bool ogp_pointwise_applies(const struct ogp_plan *plan)
{
    const struct problem *const p = &plan->problem;
    for (int a = 0; a < 3; a++)
        if (p->axis[a].k != 1 || p->axis[a].s != 1 || p->axis[a].p != 0 || p->axis[a].q != 0)
            return false;
    return (p->x_layout == OGP_NCDHW || p->ci == 1) && (p->y_layout == OGP_NCDHW || p->co == 1);
}

static bool follow(const struct volume *x, const struct volume *y, int a, int64_t extent, int64_t step)
{
    return extent == 1 || (x->axis[a] == step && y->axis[a] == step);
}

struct positions ogp_positions(const struct problem *p, const struct volume *x, const struct volume *y)
{
    struct positions s = {.run = p->axis[2].o, .rows = {p->axis[0].o, p->axis[1].o}};
    s.dense = follow(x, y, 2, s.run, 1);
    for (int a = 1; a >= 0 && s.dense && follow(x, y, a, s.rows[a], s.run); a--) {
        s.run *= s.rows[a];
        s.rows[a] = 1;
    }
    return s;
}

int64_t ogp_positions_count(const struct positions *p, int64_t at, int64_t most)
{
    return ogp_min(most, p->run - at % p->run);
}

int64_t ogp_position_offset(const struct positions *p, const struct volume *v, int64_t at)
{
    const int64_t row = at / p->run, plane = row / p->rows[1];
    return (plane ? plane * v->axis[0] : 0) + (row % p->rows[1] ? row % p->rows[1] * v->axis[1] : 0) +
           at % p->run * ogp_position_step(p, v);
}

struct channel_rows ogp_pack_positions(const struct ogp_plan *plan, const struct positions *p, char *out,
                                       const struct volume *v, const char *data, int64_t channels, int64_t count)
{
    const int64_t pitch = ogp_position_pitch(plan, count);
    const struct block block = {channels, {1, 1, count}, pitch, pitch, pitch};
    const struct volume row = {.data = (char *)(uintptr_t)data, .c = v->c, .axis = {0, 0, ogp_position_step(p, v)}};
    const struct sampling one = {0, 1, 1, 1, OGP_ZEROS};
    const struct sampling sampling[3] = {one, one, {0, 1, count, count, OGP_ZEROS}};
    ogp_pack(plan, out, &block, &row, sampling);
    return (struct channel_rows){out, pitch};
}

int64_t ogp_pointwise_tiles(const struct ogp_plan *plan)
{
    return ogp_ceil_div(ogp_position_total(&plan->problem), plan->tiling.out[2]);
}

void ogp_pointwise_tile(struct ogp_plan *plan, int64_t rows, double cycles)
{
    const struct problem *const p = &plan->problem;
    const int64_t cache = OGP_TILE_BYTES / 2, lanes = plan->kernels->lanes, all = ogp_position_total(p);
    const int64_t unit = 12 * lanes; /* whole register blocks of every kernel */
    const double samples = (double)(p->n * p->g), wanted = OGP_WANTED_TASKS;
    double most = (double)cache / (double)(rows * ogp_dtype_bytes(p->dtype));
    most = fmin(most, fmax((double)all * samples / wanted, OGP_CYCLES_A_TASK / cycles));
    most = fmin(fmin(most, (double)(OGP_LONGEST_SUM * lanes)), (double)ogp_round_up(all, lanes));
    const int64_t columns = (int64_t)fmax(most, (double)lanes);
    plan->tiling.out[0] = plan->tiling.out[1] = 1;
    plan->tiling.out[2] = columns < unit ? columns / lanes * lanes : columns / unit * unit;
}
