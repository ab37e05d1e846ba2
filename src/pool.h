/* SPDX-License-Identifier: Apache-2.0 */
/* Threads: a pool of our own, or a host's parallel-for. */
#ifndef OGP_POOL_H
#define OGP_POOL_H

#include "ogp/conv3d.h"

/* Calls body(arg, worker) for worker 0 on the caller and for others in [1, workers) at once on the pool's threads,
 * returning when all have. It may call fewer of them (NULL or a busy pool: worker 0 alone), so that bodies must pull
 * their work from a shared counter. workers >= 1. */
void ogp_pool_run(ogp_pool *pool, int workers, void (*body)(void *arg, int worker), void *arg);

#endif
