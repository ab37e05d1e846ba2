/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing: every configuration that fits is priced by arithmetic, the cheapest is kept. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bias.h"
#include "cpu.h"
#include "describe.h"
#include "error.h"
#include "flat.h"
#include "plan.h"
#include "arena.h"
#include "reference.h"
#include "text.h"
#include "tile.h"
#include "util.h"

/* Ties go to the earlier row; the last applies to every problem and needs no workspace. */
static const struct config *const configs[] = {
    &ogp_config_direct_rows, &ogp_config_direct_channels, &ogp_config_direct_lanes, &ogp_config_direct_pointwise,
    &ogp_config_fourier,     &ogp_config_winograd,        &ogp_config_sum,          &ogp_config_reference,
};

static enum ogp_status check_options(const struct ogp_options *opt, struct ogp_error *error)
{
    if (opt->size != sizeof *opt)
        return ogp_fail(error, OGP_BAD_ARG, "options.size: expected %zu, got %" PRIu32, sizeof *opt, opt->size);
    if ((int)opt->precision < 0 || opt->precision > OGP_ELEMENTWISE)
        return ogp_fail(error, OGP_BAD_ARG, "options.precision: expected 0 to %d, got %d", OGP_ELEMENTWISE,
                        (int)opt->precision);
    if (opt->workspace_limit < OGP_NO_WORKSPACE)
        return ogp_fail(error, OGP_BAD_ARG, "options.workspace_limit: expected -1 or more bytes, got %" PRId64,
                        opt->workspace_limit);
    return OGP_OK;
}

/* Share of the lanes that do useful work when axis a is the vector axis. */
static double lane_use(const struct lattice *lat, int lanes)
{
    const int64_t members = ogp_lattice_members(lat);
    return (double)members / (double)ogp_round_up(members, lanes);
}

/* The width is the vector axis unless it fills few lanes and another fills many more (packing it costs a gather). The
 * axis of the kernel rows comes second: kernels along the height reuse each loaded vector, those along the depth not.
 */
static void choose_order(struct ogp_plan *plan)
{
    struct lattice lat[3];
    int vector = 2;
    for (int a = 2; a >= 0; a--) {
        ogp_lattice_init(&lat[a], &plan->problem, plan->pass == OGP_GRAD_INPUT ? OGP_GRAD_INPUT : OGP_FORWARD, a);
        if (lane_use(&lat[a], plan->kernels->lanes) > 2 * lane_use(&lat[vector], plan->kernels->lanes))
            vector = a;
    }
    int first = vector == 0 ? 1 : 0, second = vector == 2 ? 1 : 2;
    if (plan->problem.axis[second].k == 1 && plan->problem.axis[first].k > 1) {
        const int swap = first;
        first = second;
        second = swap;
    }
    const int order[3] = {first, second, vector};
    const struct problem asked = plan->problem;
    for (int a = 0; a < 3; a++) {
        plan->order[a] = order[a];
        plan->problem.axis[a] = asked.axis[order[a]];
        plan->lattice[a] = lat[order[a]];
    }
}

static double count_multiplies(const struct problem *p, enum ogp_pass pass)
{
    double count = (double)p->n * (double)p->co;
    for (int a = 0; a < 3; a++)
        count *= (double)p->axis[a].o * (pass == OGP_GRAD_BIAS ? 1.0 : (double)p->axis[a].k);
    return pass == OGP_GRAD_BIAS ? count : count * (double)p->ci_g;
}

static bool choose(struct ogp_plan *plan, int64_t limit, const char *only)
{
    struct ogp_plan best = *plan;
    best.cost = INFINITY;
    for (size_t c = 0; c < OGP_COUNT(configs); c++) {
        struct ogp_plan candidate = *plan;
        candidate.config = configs[c];
        candidate.forced = only != NULL;
        if (only && strcmp(only, configs[c]->name) != 0)
            continue;
        if (configs[c]->prepare(&candidate, limit) && candidate.cost < best.cost)
            best = candidate;
    }
    *plan = best;
    return best.config != NULL;
}

static enum ogp_status fill(struct ogp_plan *plan, const struct ogp_problem *problem, enum ogp_pass pass,
                            const struct ogp_options *opt, struct ogp_error *error)
{
    const enum ogp_status status = ogp_problem_check(&plan->problem, problem, error);
    if (status != OGP_OK)
        return status;
    plan->asked = *problem;
    plan->pass = pass;
    plan->precision = opt->precision;
    plan->kernels = ogp_cpu_kernels(opt->isa, problem->dtype);
    plan->kernels_f64 = ogp_cpu_kernels(opt->isa, OGP_F64);
    if (!plan->kernels)
        return ogp_fail(error, OGP_NOT_APPLICABLE,
                        "options.isa: expected one that this build has and this CPU runs, got "
                        "'%.40s'",
                        opt->isa);
    choose_order(plan);
    plan->multiplies = count_multiplies(&plan->problem, pass);
    const int64_t limit = opt->workspace_limit == 0                  ? OGP_DEFAULT_WORKSPACE
                          : opt->workspace_limit == OGP_NO_WORKSPACE ? 0
                                                                     : opt->workspace_limit;
    if (!choose(plan, limit, opt->config))
        return ogp_fail(error, OGP_NOT_APPLICABLE,
                        "options.config: expected one that fits the problem and the workspace "
                        "limit of %" PRId64 " bytes, got '%.40s'",
                        limit, opt->config);
    return OGP_OK;
}

/* The plan of the flat form, where there is one and it is the cheaper. */
static struct ogp_plan *plan_flat(const struct ogp_plan *plan, const struct ogp_options *opt)
{
    struct ogp_problem problem;
    ogp_plan *flat;
    if (opt->config || plan->pass == OGP_GRAD_BIAS || !ogp_flat_problem(&plan->problem, &plan->asked, &problem) ||
        ogp_plan_create(&flat, &problem, plan->pass, opt, NULL) != OGP_OK)
        return NULL;
    if (flat->cost < plan->cost)
        return flat;
    ogp_plan_destroy(flat);
    return NULL;
}

enum ogp_status ogp_plan_create(ogp_plan **out, const struct ogp_problem *problem, enum ogp_pass pass,
                                const struct ogp_options *options, struct ogp_error *error)
{
    static const struct ogp_options defaults = {.size = sizeof defaults};
    const struct ogp_options *const opt = options ? options : &defaults;
    if (!out)
        return ogp_fail(error, OGP_BAD_ARG, "plan: expected a pointer, got NULL");
    *out = NULL;
    if ((int)pass < 0 || pass > OGP_GRAD_BIAS)
        return ogp_fail(error, OGP_BAD_ARG, "pass: expected 0 to %d, got %d", OGP_GRAD_BIAS, (int)pass);
    enum ogp_status status = check_options(opt, error);
    if (status != OGP_OK)
        return status;
    struct ogp_plan plan = {0};
    status = fill(&plan, problem, pass, opt, error);
    if (status != OGP_OK)
        return status;
    struct ogp_plan *const made = malloc(sizeof *made);
    if (!made)
        return ogp_fail(error, OGP_NO_MEMORY, "plan: no memory for %zu bytes", sizeof *made);
    *made = plan;
    made->flat = plan_flat(made, opt);
    *out = made;
    return OGP_OK;
}

void ogp_plan_destroy(ogp_plan *plan)
{
    if (plan)
        ogp_plan_destroy(plan->flat);
    free(plan);
}

size_t ogp_plan_workspace_bytes(const ogp_plan *plan, int threads)
{
    if (!plan)
        return 0;
    const size_t flat = ogp_plan_workspace_bytes(plan->flat, threads);
    if (plan->shared_bytes + plan->worker_bytes == 0)
        return flat;
    const int64_t workers = ogp_min(ogp_max(threads, 1), ogp_min(plan->workers_most, ogp_max(plan->tasks, 1)));
    const size_t bytes = OGP_ALIGN + plan->shared_bytes + (size_t)workers * plan->worker_bytes;
    return bytes > flat ? bytes : flat;
}

size_t ogp_plan_describe(const ogp_plan *plan, char *text, size_t bytes)
{
    struct text t = {.out = text, .bytes = text ? bytes : 0};
    if (t.bytes)
        text[0] = '\0';
    if (plan)
        ogp_describe(&t, plan);
    return t.length;
}
