/* SPDX-License-Identifier: Apache-2.0 */
#include "describe.h"

#include <inttypes.h>

static void describe_tile(struct text *t, const struct ogp_plan *plan)
{
    const struct tiling *const s = &plan->tiling;
    ogp_text_add(t, " tile %" PRId64 "x%" PRId64 "x%" PRId64 " channels %" PRId64 "x%" PRId64 " axes %c%c%c", s->out[0],
                 s->out[1], s->out[2], s->out_channels, s->in_channels, "dhw"[plan->order[0]], "dhw"[plan->order[1]],
                 "dhw"[plan->order[2]]);
    if (s->fft[0])
        ogp_text_add(t, " points %dx%d columns %" PRId64, s->fft[0]->points, s->fft[1]->points, s->columns);
    else if (s->columns)
        ogp_text_add(t, " F(%" PRId64 ",%" PRId64 ")xF(%" PRId64 ",%" PRId64 ") columns %" PRId64, s->out[0],
                     plan->problem.axis[0].k, s->out[1], plan->problem.axis[1].k, s->columns);
    if (plan->pass == OGP_GRAD_WEIGHT)
        ogp_text_add(t, " splits %" PRId64, s->splits);
}

void ogp_describe(struct text *t, const struct ogp_plan *plan)
{
    const size_t room = t->length < t->bytes ? t->bytes - t->length : 0;
    t->length += ogp_problem_print(&plan->asked, plan->pass, room ? t->out + t->length : NULL, room);
    ogp_text_add(t, " | %s %s", plan->config->name, plan->kernels->name);
    if (plan->tiling.out_channels > 0)
        describe_tile(t, plan);
    ogp_text_add(t, " tasks %" PRId64 " shared %zu worker %zu bytes", plan->tasks, plan->shared_bytes,
                 plan->worker_bytes);
    ogp_text_add(t, " | %.3g multiply-adds, modelled at %.3g cycles", plan->multiplies, plan->cost);
    if (plan->direct)
        ogp_text_add(t, ", direct at %.3g", plan->direct_cost);
    if (plan->flat) {
        ogp_text_add(t, "; dense operands as ");
        ogp_describe(t, plan->flat);
    }
}
