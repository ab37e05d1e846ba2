/* SPDX-License-Identifier: Apache-2.0 */
#include "trial.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "oracle.h"
#include "testlib.h"

/* Limits that rotate beside the default. The small ones cut these small problems into many tiles. */
static const int64_t budgets[] = {OGP_NO_WORKSPACE, 16 << 10, 50000,   1 << 10,  128 << 10,
                                  24 << 10,         1 << 20,  6 << 10, 64 << 10, 1 << 30};
enum { BUDGETS = sizeof budgets / sizeof *budgets };

static struct {
    int64_t lines, plans, runs, skipped;
    double worst; /* largest error, in units of eps/2 * mag */
    int64_t by_config[16], by_isa[16];
} counts;

/* ---- pools, shared by all trials ---- */

static void backwards(void *host, int workers, void (*body)(void *arg, int worker), void *arg)
{
    (void)host;
    for (int worker = workers - 1; worker >= 0; worker--)
        body(arg, worker);
}

static struct {
    const char *name;
    int threads;
    int callback;
    ogp_pool *pool;
} pools[] = {
    {"2 threads", 2, 0, NULL}, {"7 threads", 7, 0, NULL}, {"callback, backwards", 4, 1, NULL},
    {"3 threads", 3, 0, NULL}, {"1 thread", 1, 0, NULL},
};
enum { POOLS = sizeof pools / sizeof *pools };

static ogp_pool *pool_get(int at)
{
    struct ogp_error error = {.size = sizeof error};
    if (!pools[at].pool) {
        const enum ogp_status status =
            pools[at].callback ? ogp_pool_from_callback(&pools[at].pool, backwards, NULL, pools[at].threads, &error)
                               : ogp_pool_create(&pools[at].pool, pools[at].threads, &error);
        EXPECT(status == OGP_OK, "pool of %s: %s", pools[at].name, error.text);
    }
    return pools[at].pool;
}

void trial_end(void)
{
    for (int i = 0; i < POOLS; i++) {
        ogp_pool_destroy(pools[i].pool);
        pools[i].pool = NULL;
    }
}

/* ---- one trial: a pass of a problem on one set of data ---- */

struct trial {
    const char *text;
    const struct trial_filter *filter;
    struct ogp_problem problem;
    enum ogp_pass pass;
    enum fill fill;
    uint64_t turn; /* what rotates, rotates from here */
    struct operands ops;
    struct oracle want[2];
    int outputs;
};

/* One way to run it. */
struct way {
    const char *config, *isa;
    int64_t budget;
    const char *pool;
    int accumulate;
    int exact; /* integers must come out as they are */
    char describe[400];
};

/* The command that repeats what is being run. */
static void reproducer(const struct trial *t, const struct way *way, char *command, size_t bytes)
{
    char isa[40] = "", config[80] = "", budget[40] = "", threads[40] = "";
    if (way->isa)
        snprintf(isa, sizeof isa, " --isa %s", way->isa);
    if (way->config)
        snprintf(config, sizeof config, " --config %s", way->config);
    if (way->budget)
        snprintf(budget, sizeof budget, " --budget %" PRId64, way->budget);
    if (t->filter->threads)
        snprintf(threads, sizeof threads, " --threads %d", t->filter->threads);
    snprintf(command, bytes, "check --seed %" PRIu64 " --pass %s%s%s%s%s \"%s\"\n     %s%s%s", t->filter->seed,
             pass_name(t->pass), config, isa, budget, threads, t->text,
             t->fill == FILL_INTEGERS ? "integers" : "uniform", way->accumulate ? ", accumulate, " : ", ", way->pool);
}

TEST_PRINTF(3, 4) static void trial_fail(const struct trial *t, const struct way *way, const char *format, ...)
{
    char detail[600], command[900];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    reproducer(t, way, command, sizeof command);
    test_fail("%s: %s\n     plan: %s", command, detail, way->describe);
}

/* ---- crashes and endless loops: they too print what repeats them ---- */

static struct {
    const struct trial *trial;
    const struct way *way;
} current;

enum { SECONDS_A_PLAN = 60 };

static void on_signal(int number)
{
    char command[900] = "between two plans";
    if (current.way)
        reproducer(current.trial, current.way, command, sizeof command);
    printf("FAIL signal %d: %s\n", number, command);
    fflush(stdout);
    signal(number, SIG_DFL);
    raise(number);
}

static void watch_signals(void)
{
    static const int numbers[] = {SIGFPE, SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGALRM};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        signal(numbers[i], on_signal);
}

/* ---- comparing ---- */

/* The output `out` against `want` plus `prior` (NULL: none). Reports the first difference. */
static void compare(const struct trial *t, const struct way *way, int out, const double *prior)
{
    const struct tensor *got = &t->ops.out[out];
    const struct oracle *want = &t->want[out];
    const double unit = got->dtype == OGP_F64 ? 0x1p-53 : 0x1p-24;
    const double transformed =
        way->exact || pass_inputs(t->pass) < 2 ? 0 : unit * transform_bound(way->describe, &t->ops, INT64_MAX);
    double *const values = test_alloc((size_t)want->count * sizeof(double));
    tensor_values(got, values);
    for (int64_t i = 0; i < want->count; i++) {
        const double value = values[i], before = prior ? prior[i] : 0;
        const double expected = want->value[i] + before, mag = want->mag[i] + fabs(before);
        const double error = fabs(value - expected), allowed = direct_bound(got->dtype, want->terms[i]) * unit * mag + transformed;
        const double rounded = t->fill == FILL_INTEGERS && !way->exact ? fabs(rint(value) - expected) : error;
        if (t->fill == FILL_INTEGERS ? !(rounded == 0) : !(error <= allowed)) {
            trial_fail(t, way, "output %d, element %" PRId64 " of %" PRId64 ": expected %.17g, got %.17g (bound %.3g)",
                       out, i, want->count, expected, value, t->fill == FILL_INTEGERS ? 0 : allowed);
            break;
        }
        if (mag > 0 && error / (unit * mag) > counts.worst)
            counts.worst = error / (unit * mag);
    }
    free(values);
}

/* ---- running ---- */

/* Executes with exactly `bytes` of workspace; everything around and beside the outputs must stay as it was. */
static int execute(struct trial *t, const struct way *way, const ogp_plan *plan, ogp_pool *pool, size_t bytes)
{
    struct ogp_error error = {.size = sizeof error};
    struct scratch scratch = scratch_make(bytes);
    const struct ogp_run run = {.size = sizeof run,
                                .accumulate = way->accumulate,
                                .workspace = scratch.data,
                                .workspace_bytes = bytes,
                                .pool = pool};
    uint64_t before[3] = {0};
    for (int i = 0; i < pass_inputs(t->pass); i++)
        before[i] = tensor_hash(&t->ops.in[i]);
    const enum ogp_status status =
        run_pass(plan, t->pass, &t->ops, bytes || pool || way->accumulate ? &run : NULL, &error);
    counts.runs++;
    if (status != OGP_OK)
        trial_fail(t, way, "execution: %s: %s", ogp_status_text(status), error.text);
    for (int i = 0; i < pass_inputs(t->pass); i++)
        if (tensor_hash(&t->ops.in[i]) != before[i])
            trial_fail(t, way, "input %d was changed", i);
    if (!scratch_intact(&scratch))
        trial_fail(t, way, "bytes around the workspace of %zu were changed", bytes);
    scratch_free(&scratch);
    return status == OGP_OK;
}

static void wipe(const struct trial *t)
{
    for (int i = 0; i < t->outputs; i++)
        tensor_set_all((struct tensor *)&t->ops.out[i], NAN);
}

static void check_guards(struct trial *t, const struct way *way)
{
    for (int i = 0; i < t->outputs; i++)
        if (!tensor_guards_intact(&t->ops.out[i]))
            trial_fail(t, way, "bytes around or between the elements of output %d were changed", i);
}

static size_t output_bytes(const struct trial *t)
{
    size_t bytes = 0;
    for (int i = 0; i < t->outputs; i++)
        bytes += (size_t)tensor_count(&t->ops.out[i]) * tensor_item(&t->ops.out[i]);
    return bytes;
}

static unsigned char *output_bits(const struct trial *t)
{
    unsigned char *bits = test_alloc(output_bytes(t));
    size_t at = 0;
    for (int i = 0; i < t->outputs; i++) {
        tensor_bits(&t->ops.out[i], bits + at);
        at += (size_t)tensor_count(&t->ops.out[i]) * tensor_item(&t->ops.out[i]);
    }
    return bits;
}

/* The serial run, against the oracle. Returns the bits of its outputs. */
static unsigned char *run_serial(struct trial *t, struct way *way, const ogp_plan *plan)
{
    way->pool = "serial";
    wipe(t);
    if (execute(t, way, plan, NULL, ogp_plan_workspace_bytes(plan, 1)))
        for (int i = 0; i < t->outputs; i++)
            compare(t, way, i, NULL);
    unsigned char *bits = output_bits(t);
    check_guards(t, way);
    return bits;
}

/* A run on a pool: the same bits. */
static void run_pooled(struct trial *t, struct way *way, const ogp_plan *plan, int at, size_t bytes,
                       const unsigned char *expected)
{
    way->pool = pools[at].name;
    wipe(t);
    if (execute(t, way, plan, pool_get(at), bytes)) {
        unsigned char *bits = output_bits(t);
        if (memcmp(bits, expected, output_bytes(t)) != 0)
            trial_fail(t, way, "other bits than the serial run's, with %zu bytes of workspace", bytes);
        free(bits);
    }
    check_guards(t, way);
}

/* A run that adds to what is there. */
static void run_accumulating(struct trial *t, struct way *way, const ogp_plan *plan, int at)
{
    double *prior[2] = {0};
    way->pool = pools[at].name;
    way->accumulate = 1;
    for (int i = 0; i < t->outputs; i++) {
        const int64_t count = tensor_count(&t->ops.out[i]);
        tensor_fill(&t->ops.out[i], t->fill, mix(t->turn, 77));
        prior[i] = test_alloc((size_t)count * sizeof(double));
        tensor_values(&t->ops.out[i], prior[i]);
    }
    if (execute(t, way, plan, pool_get(at), ogp_plan_workspace_bytes(plan, pools[at].threads)))
        for (int i = 0; i < t->outputs; i++)
            compare(t, way, i, prior[i]);
    check_guards(t, way);
    way->accumulate = 0;
    free(prior[0]);
    free(prior[1]);
}

static void check_workspace(const struct trial *t, const struct way *way, const ogp_plan *plan)
{
    static const int threads[] = {1, 2, 3, 7, 64, 4096};
    const int64_t limit = way->budget == 0 ? OGP_DEFAULT_WORKSPACE : way->budget < 0 ? 0 : way->budget;
    size_t last = 0;
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        const size_t bytes = ogp_plan_workspace_bytes(plan, threads[i]);
        if (bytes > (size_t)limit || bytes < last)
            trial_fail(t, way, "workspace for %d threads: %zu bytes, limit %" PRId64 ", for fewer threads %zu",
                       threads[i], bytes, limit, last);
        last = bytes;
    }
}

static int pool_for(const struct trial *t, uint64_t turn)
{
    for (int i = 0; i < POOLS; i++)
        if (t->filter->threads && !pools[i].callback && pools[i].threads == t->filter->threads)
            return i;
    return (int)(turn % POOLS);
}

/* Makes the plan; NULL where it does not apply or failed. */
static ogp_plan *make_plan(const struct trial *t, struct way *way)
{
    struct ogp_error error = {.size = sizeof error};
    const struct ogp_options options = {
        .size = sizeof options, .workspace_limit = way->budget, .config = way->config, .isa = way->isa};
    ogp_plan *plan = NULL;
    const enum ogp_status status = ogp_plan_create(&plan, &t->problem, t->pass, &options, &error);
    if (status == OGP_NOT_APPLICABLE && (way->config || way->isa)) {
        counts.skipped++;
        return NULL;
    }
    if (status != OGP_OK || !plan) {
        trial_fail(t, way, "plan: %s: %s", ogp_status_text(status), error.text);
        return NULL;
    }
    counts.plans++;
    const size_t length = ogp_plan_describe(plan, way->describe, sizeof way->describe);
    if (length == 0)
        trial_fail(t, way, "the plan describes itself with nothing");
    way->exact = is_direct(way->describe);
    if (way->config && !strstr(way->describe, way->config))
        trial_fail(t, way, "the plan is not of the configuration asked for");
    return plan;
}

enum ran { DID_NOT_APPLY, RAN, RAN_WITH_WORKSPACE };

static enum ran run_plan(struct trial *t, struct way *way, uint64_t turn)
{
    ogp_plan *plan = make_plan(t, way);
    if (!plan)
        return DID_NOT_APPLY;
    check_workspace(t, way, plan);
    unsigned char *bits = run_serial(t, way, plan);
    const int pool = pool_for(t, turn);
    const size_t least = ogp_plan_workspace_bytes(plan, 1), all = ogp_plan_workspace_bytes(plan, pools[pool].threads);
    run_pooled(t, way, plan, pool, all, bits);
    if (turn % 4 == 0) /* enough for one; a cache line too little for all; more than enough */
        run_pooled(t, way, plan, pool, least, bits);
    if (turn % 4 == 2)
        run_pooled(t, way, plan, pool, all >= least + 64 ? all - 64 : all + 12345, bits);
    if (turn % 2 == 1)
        run_accumulating(t, way, plan, pool);
    const enum ran ran = least > 0 ? RAN_WITH_WORKSPACE : RAN;
    free(bits);
    ogp_plan_destroy(plan);
    return ran;
}

static enum ran run_way(struct trial *t, const char *config, const char *isa, int64_t budget, uint64_t turn)
{
    struct way way = {.config = config, .isa = isa, .budget = budget, .pool = "plan"};
    current.trial = t;
    current.way = &way;
    alarm(SECONDS_A_PLAN);
    const enum ran ran = run_plan(t, &way, turn);
    alarm(0);
    current.way = NULL;
    return ran;
}

static int wanted(const char *filter, const char *name)
{
    return !filter || (name && strcmp(filter, name) == 0);
}

/* The library's own choice is one of the named, and the reference ignores the instruction set: no need to repeat them.
 */
static int worthwhile(const struct trial *t, const char *config, const char *isa)
{
    if (!wanted(t->filter->config, config) || !wanted(t->filter->isa, isa))
        return 0;
    if (!isa || t->filter->isa)
        return 1;
    return config && (strcmp(config, "reference") != 0 || strcmp(isa, "baseline") == 0);
}

static void run_ways(struct trial *t)
{
    uint64_t turn = t->turn;
    for (int c = 0; c < config_count; c++) {
        for (int i = 0; i < isa_count; i++) {
            const int left_out = t->filter->halve && isa_names[i] && (t->turn + (uint64_t)(c + i)) % 2;
            if (left_out || !worthwhile(t, config_names[c], isa_names[i]))
                continue;
            const int64_t other = budgets[(turn >> 1) % BUDGETS];
            enum ran ran;
            if (t->filter->budget) {
                ran = run_way(t, config_names[c], isa_names[i], t->filter->budget, turn);
            } else {
                ran = run_way(t, config_names[c], isa_names[i], t->filter->quick ? other : 0, turn);
                if (ran == RAN_WITH_WORKSPACE && !t->filter->quick) /* without it, the budget changes nothing */
                    run_way(t, config_names[c], isa_names[i], other, turn + 1);
            }
            counts.by_config[c] += ran != DID_NOT_APPLY;
            counts.by_isa[i] += ran != DID_NOT_APPLY;
            turn++;
        }
    }
}

/* ---- data ---- */

/* Round 0 has the layouts that the problem hints at, later ones rotate through all. */
static void choose_views(const struct trial *t, int round, enum view views[5])
{
    const struct ogp_problem *p = &t->problem;
    const enum ogp_layout hint[4] = {[ROLE_X] = p->x_layout, [ROLE_W] = p->w_layout, [ROLE_Y] = p->y_layout};
    for (int i = 0; i < 5; i++) {
        const int output = i >= 3;
        if (round == 0 && i < (output ? 3 + pass_outputs(t->pass) : pass_inputs(t->pass))) {
            const enum role role = output ? pass_output_role(t->pass, i - 3) : pass_input_role(t->pass, i);
            views[i] = hint[role] == OGP_NDHWC ? VIEW_NDHWC : VIEW_NCDHW;
        } else {
            views[i] = (enum view)(mix(t->turn, (uint64_t)i) % (output ? VIEW_EXPANDED : VIEW_COUNT));
        }
    }
}

static void run_round(struct trial *t, int round)
{
    enum view views[5];
    t->fill = round == 1 ? FILL_UNIFORM : FILL_INTEGERS;
    t->turn = mix(mix(t->filter->seed, (uint64_t)round), (uint64_t)t->pass);
    for (const char *c = t->text; *c; c++)
        t->turn = mix(t->turn, (uint64_t)*c);
    choose_views(t, round, views);
    const int optional = pass_input_role(t->pass, 2) == ROLE_B || pass_outputs(t->pass) == 2 ? round != 2 : 0;
    operands_make(&t->ops, &t->problem, t->pass, optional, views, t->fill, t->turn);
    t->outputs = operands_outputs(t->pass, &t->ops);
    struct ogp_input in[3];
    const struct ogp_input *ins[3] = {0};
    for (int i = 0; i < pass_inputs(t->pass); i++) {
        in[i] = tensor_input(&t->ops.in[i]);
        ins[i] = &in[i];
    }
    if (!optional)
        ins[2] = NULL;
    oracle_run(&t->problem, t->pass, ins, t->want);
    run_ways(t);
    oracle_free(t->want);
    operands_free(&t->ops);
}

void trial_run(const char *text, const struct trial_filter *filter)
{
    struct trial t = {.text = text, .filter = filter};
    struct ogp_error error = {.size = sizeof error};
    int64_t out[3], expected[3];
    enum ogp_pass ignored;
    watch_signals();
    counts.lines++;
    if (!EXPECT(ogp_problem_parse(text, &t.problem, &ignored, &error) == OGP_OK, "\"%s\": %s", text, error.text) ||
        !EXPECT(ogp_output_extents(&t.problem, out, &error) == OGP_OK, "\"%s\": %s", text, error.text))
        return;
    problem_output(&t.problem, expected);
    EXPECT(memcmp(out, expected, sizeof out) == 0, "\"%s\": output %" PRId64 "x%" PRId64 "x%" PRId64, text, out[0],
           out[1], out[2]);
    const int chosen = (int)(mix(filter->seed, strlen(text)) % 3);
    for (int pass = OGP_FORWARD; pass <= OGP_GRAD_BIAS; pass++) {
        t.pass = (enum ogp_pass)pass;
        for (int round = 0; round < 3; round++)
            if ((!filter->pass || filter->pass == 1 + pass) && (!filter->quick || round == chosen))
                run_round(&t, round);
    }
}

void trial_summary(void)
{
    printf("%" PRId64 " problems, %" PRId64 " plans, %" PRId64 " executions, %" PRId64
           " not applicable; worst error %.2f units of eps/2 sum|w||x|\n",
           counts.lines, counts.plans, counts.runs, counts.skipped, counts.worst);
    for (int c = 0; c < config_count; c++)
        printf("  config %-16s %" PRId64 "\n", config_names[c] ? config_names[c] : "(chosen)", counts.by_config[c]);
    for (int i = 0; i < isa_count; i++)
        printf("  isa    %-16s %" PRId64 "\n", isa_names[i] ? isa_names[i] : "(best)", counts.by_isa[i]);
    EXPECT(counts.runs > 0, "nothing was run");
}
