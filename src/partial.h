/* SPDX-License-Identifier: Apache-2.0 */
/* Where the tasks of grad weight leave their sums. Batch and space are cut into splits; a task sums one split of some
 * pairs of channels in double; splits are added in ascending order, so the result does not depend on who computed
 * which. */
#ifndef OGP_PARTIAL_H
#define OGP_PARTIAL_H

#include "arena.h"
#include "job.h"

/* Pairs of channels of one group: first output and input channel within it, and how many of each. */
struct pairs {
    int64_t group, co, ci, outs, ins;
};

/* Blocks of pairs of a tiling, and the at-th of them. Where a group has no input channels there is still one, so that
 * the bias gradient has a task. */
int64_t ogp_pairs_blocks(const struct ogp_plan *plan, const struct tiling *t);
struct pairs ogp_pairs_at(const struct ogp_plan *plan, const struct tiling *t, int64_t at);

enum { OGP_SPLITS_MOST = 64 };

struct partials {
    double *w; /* [split][co][ci of the group][tap]; NULL where there is one split */
    double *b; /* [split][co] */
};

/* The first of the shared memory of a plan. */
struct partials ogp_partials_carve(struct arena *a, const struct ogp_plan *plan, int64_t splits);

int64_t ogp_kernel_taps(const struct problem *p);

/* The sums of gy of a task's output channels, zeroed. */
double *ogp_partials_bias(const struct job *job, const struct pairs *pairs, int64_t split);

/* Sums of a piece of the kernel (NULL: all of it), dense in each pair, which are `each` apart: to the partials, or to
 * the output where there is one split. */
void ogp_partials_put(const struct job *job, const struct pairs *pairs, int64_t split, const struct piece *piece,
                      const double *sum, int64_t each);

/* Where the kernels of an output channel from the pair's first input channel on lie in the output, if they are one row
 * there and sums only have to be rounded to it; else NULL. */
char *ogp_partials_row(const struct job *job, const struct pairs *pairs);

/* When all tasks are done: adds the splits, and finishes the bias gradient if it is wanted. */
void ogp_partials_add(struct job *job);

/* Splits that make enough tasks where each split makes `others`: at most `most`, within the shared limit. */
int64_t ogp_partials_splits(const struct ogp_plan *plan, double others, int64_t most, int64_t shared_limit);

#endif
