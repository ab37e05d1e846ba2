/* SPDX-License-Identifier: Apache-2.0 */
/* A plan: what will be computed, how, and in which pieces. Immutable once made; configurations fill it in. */
#ifndef OGP_PLAN_H
#define OGP_PLAN_H

#include <stdbool.h>

#include "arena.h"
#include "kernels/kernels.h"
#include "lattice.h"
#include "problem.h"

struct job;
struct ogp_plan;

/* The shape of a tile, on the lowered axes. */
struct tiling {
    int64_t out[3];                    /* most members of one class computed at once */
    int64_t box[3];                    /* most outputs of a span that is a box of all classes */
    int64_t taps[3];                   /* most taps of a piece */
    int64_t in_channels, out_channels; /* of a group, at once */
    bool all_pieces;                   /* grad weight: one task sums all pieces of the kernel, not one */
    int64_t splits;                    /* grad weight and bias: partial sums over batch and space */
    const struct ogp_fft_row *fft[2];  /* Fourier tiles: of the depth and the height */
    int64_t columns;                   /* Fourier and Winograd tiles: of the width, at once */
    int winograd[2];                   /* Winograd tiles: rows of the kernels' table, of the depth and the height */
    int64_t together, run;             /* Winograd tiles: output channels transformed back at once; tiles of a task */
    int64_t vectors;                   /* lane tiles: of output channels in registers */
    int flat;                          /* lane tiles: axes along which positions run on into the next row or plane */
    bool merged;                       /* lane tiles: residues of the width are lanes, whatever their taps */
};

/* The two bodies of the multiply stage. rows: each vector of x serves several output rows, for few output channels per
 * group; channels: it serves several output channels. */
enum body { OGP_BODY_ROWS, OGP_BODY_CHANNELS };

/* A way to execute a pass. `prepare` decides whether it fits the plan's problem within `limit` bytes of workspace, and
 * fills in tiling, bytes, tasks and cost (cycles of one core, by the model). */
struct config {
    const char *name;
    bool (*prepare)(struct ogp_plan *plan, int64_t limit);
    void (*run)(struct job *job);
    enum body body; /* direct tiles only */
};

struct ogp_plan {
    struct ogp_problem asked; /* as the caller gave it, for printing */
    enum ogp_pass pass;
    enum ogp_precision precision;
    struct problem problem; /* axes in lowered order */
    int order[3];           /* lowered axis a is the problem's axis order[a]; the last is the vector axis */
    struct lattice lattice[3];
    const struct config *config;
    const struct ogp_kernels *kernels;
    const struct ogp_kernels *kernels_f64; /* those of doubles on the same ISA */
    struct tiling tiling;
    const struct config
        *direct; /* tiles between transforms: how those are computed that a transform would not do justice to */
    struct tiling direct_tiling;
    double direct_cost;  /* modelled cycles if all tiles went that way */
    size_t direct_bytes; /* of a worker's, the last ones */
    bool forced;         /* the configuration was asked for by name */
    int64_t tasks;
    size_t shared_bytes, worker_bytes;
    int64_t workers_most; /* that the limit has scratch for */
    double multiplies;    /* of the direct algorithm */
    double cost;
    struct ogp_plan *flat; /* the same as a product of matrices (flat.h), for operands that lie so; or NULL */
};

/* The most scratch of one worker and of all workers together, from the caller's limit. They do not grow beyond the
 * default limit, so that tiles stay the same when a limit is raised to feed more workers. */
static inline int64_t ogp_worker_limit(int64_t limit)
{
    return (limit < OGP_DEFAULT_WORKSPACE ? limit : OGP_DEFAULT_WORKSPACE) / 16;
}
static inline int64_t ogp_shared_limit(int64_t limit)
{
    return (limit < OGP_DEFAULT_WORKSPACE ? limit : OGP_DEFAULT_WORKSPACE) / 2;
}

/* Takes the scratch that all workers share and that of each; whether the limit has room for one of them. */
static inline bool ogp_plan_reserve(struct ogp_plan *plan, int64_t limit, size_t shared, size_t worker)
{
    plan->shared_bytes = shared;
    plan->worker_bytes = worker;
    plan->workers_most = (limit - OGP_ALIGN - (int64_t)shared) / (int64_t)worker;
    return plan->workers_most >= 1;
}

/* Channels of a group that are read, and that are computed. */
static inline int64_t ogp_channels_in(const struct ogp_plan *plan)
{
    return plan->pass == OGP_GRAD_INPUT ? plan->problem.co_g : plan->problem.ci_g;
}
static inline int64_t ogp_channels_out(const struct ogp_plan *plan)
{
    return plan->pass == OGP_GRAD_INPUT ? plan->problem.ci_g : plan->problem.co_g;
}

#endif
