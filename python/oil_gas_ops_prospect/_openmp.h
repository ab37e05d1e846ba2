/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of an execution: those of the OpenMP runtime that torch has loaded, so that no two pools spin on the same
 * cores; the library's own where there is no such runtime, and in the child of a fork, where OpenMP may hang.
 * The caller holds the GIL, which guards the table of pools. */
#ifndef OGP_PYTHON_OPENMP_H
#define OGP_PYTHON_OPENMP_H

#include "ogp/conv3d.h"

/* The pool for executions of this many threads, made once and kept. NULL, the caller alone, for one thread and inside
 * a parallel region. Errors: those of ogp_pool_create. */
enum ogp_status threads_pool(ogp_pool **pool, int64_t threads, struct ogp_error *error);

/* File name of the OpenMP runtime in use, or "built-in". Valid until the next call. */
const char *threads_runtime(void);

/* For the child of a fork, before anything else here. */
void threads_after_fork(void);

#endif
