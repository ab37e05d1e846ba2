/* SPDX-License-Identifier: Apache-2.0 */
/* What the test programs share: expectations that count, the roles of tensors in a pass, one call for all passes. */
#ifndef OGP_TESTS_TESTLIB_H
#define OGP_TESTS_TESTLIB_H

#include <stddef.h>

#include "data.h"
#include "ogp/conv3d.h"

#if defined(__GNUC__)
#define TEST_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define TEST_PRINTF(text, first)
#endif

/* ---- expectations ---- */

/* Counts a failure and prints it, with its place, when the condition does not hold. */
#define EXPECT(condition, ...) \
    test_expect((condition) != 0, __FILE__, __LINE__, #condition, __VA_ARGS__)

TEST_PRINTF(5, 6)
int test_expect(int holds, const char *file, int line, const char *condition, const char *format, ...);
TEST_PRINTF(1, 2) void test_fail(const char *format, ...);
int64_t test_failures(void);

/* Prints the verdict; returns the exit status of the program. */
int test_end(const char *name);

void *test_alloc(size_t bytes); /* never NULL; exits when memory is out */

/* ---- problems ---- */

enum role { ROLE_X, ROLE_W, ROLE_B, ROLE_Y };

int pass_inputs(enum ogp_pass pass);
int pass_outputs(enum ogp_pass pass);
enum role pass_input_role(enum ogp_pass pass, int i);
enum role pass_output_role(enum ogp_pass pass, int i);
const char *pass_name(enum ogp_pass pass);

void problem_output(const struct ogp_problem *problem, int64_t out[3]); /* the formula, on a valid problem */
void role_extents(const struct ogp_problem *problem, enum role role, int64_t extent[5]);
int64_t extents_count(const int64_t extent[5]);
struct ogp_problem problem_of(const char *text); /* parses; exits on failure: for literals in tests */

/* ---- operands of one pass ---- */

struct operands {
    struct tensor in[3], out[2];
    int optional; /* whether b, or gb beside gw, takes part */
};

/* Makes the tensors of a pass; views[0..2] for the inputs, views[3..4] for the outputs (NULL: all dense). The inputs
 * are filled from the seed, the outputs with NaN. */
void operands_make(struct operands *ops, const struct ogp_problem *problem, enum ogp_pass pass, int optional,
                   const enum view views[5], enum fill fill, uint64_t seed);
void operands_free(struct operands *ops);
int operands_outputs(enum ogp_pass pass, const struct operands *ops);

/* What a direct sum of `terms` products may err by, in units of eps/2 * sum |product|. */
double direct_bound(enum ogp_dtype dtype, int64_t terms);

/* What a result between Fourier transforms may err by, in units of eps/2: c log2(points) for the transforms, one for each
 * of the products of a bin, times the norms of the operands, the whole of which is at least the window of any unit. */
double fourier_bound(const struct operands *ops, int64_t terms);

/* Likewise between the small transforms of Winograd. */
double winograd_bound(const struct operands *ops, int64_t terms);

/* The bound of the configuration in this description, zero where it is exact on integers. */
double transform_bound(const char *describe, const struct operands *ops, int64_t terms);

/* Whether the plan of this description adds up the products as they are. It is "problem | configuration ...". */
int is_direct(const char *describe);

/* The public function of the pass. */
enum ogp_status run_pass(const ogp_plan *plan, enum ogp_pass pass, const struct operands *ops,
                         const struct ogp_run *run, struct ogp_error *error);

/* Plan, workspace for `threads`, execution: for tests that only want the result. A failure counts. */
void compute(const struct ogp_problem *problem, enum ogp_pass pass, const struct ogp_options *options,
             const struct operands *ops, ogp_pool *pool);

/* ---- every way to run a problem ---- */

/* Names to try, NULL (the library's choice) first in both; ended by a count. The only place that lists them. */
extern const char *const config_names[];
extern const int config_count;
extern const char *const isa_names[];
extern const int isa_count;

#endif
