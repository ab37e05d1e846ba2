/* SPDX-License-Identifier: Apache-2.0 */
/* One problem line, run every way the library offers and compared with the oracle. */
#ifndef OGP_TESTS_TRIAL_H
#define OGP_TESTS_TRIAL_H

#include "ogp/conv3d.h"

/* What to narrow a trial to; zeros and NULLs mean everything. */
struct trial_filter {
    const char *config, *isa;
    int pass;       /* 1 + enum ogp_pass */
    int threads;    /* the threaded run of each plan: built-in pool of this size */
    int64_t budget; /* workspace limit of the plans */
    uint64_t seed;
    int quick;      /* one set of data and one budget of each pass, not all: for fuzzing */
    int halve;      /* half of the instruction sets of each configuration, others for each set of data */
};

/* Runs all passes x configurations x instruction sets of the problem; thread counts, pools, budgets and memory layouts
 * rotate. Every failure counts (test_fail) and prints the command that repeats it. */
void trial_run(const char *text, const struct trial_filter *filter);

/* Prints how much was run and skipped, and fails where nothing was. */
void trial_summary(void);

/* Frees the pools that the trials share. */
void trial_end(void);

#endif
