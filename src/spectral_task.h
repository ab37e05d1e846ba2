/* SPDX-License-Identifier: Apache-2.0 */
/* One chunk of one unit of forward or grad input between transforms: what its reading half (spectral_correlate.c) and
 * its writing half (spectral_output.c) share. */
#ifndef OGP_SPECTRAL_TASK_H
#define OGP_SPECTRAL_TASK_H

#include "correlate.h"
#include "fourier.h"

/* Memory of an execution. */
struct shared {
    struct twiddles twiddles;
    atomic_int *unfit;  /* the weights allow no transform */
    char *spectra;      /* [output channel][height place][depth place][input channel][width tap] pairs */
    int64_t bin, depth; /* elements of a height place and of a depth place of it */
    int64_t channel;    /* of an output channel */
};

/* Memory of a worker. */
struct spectral_scratch {
    struct reader reader;
    char *spectra;    /* of a chunk: input channels, later output channels */
    char *history;    /* [input channel][height place][depth place] */
    char *x, *y;      /* slabs: input channels, one output channel */
    char *out[2];     /* [tile][height]: rows on their way to the output, a line free before each */
    int64_t pitch;    /* elements between them */
    int64_t *onto;    /* [column]: elements from the first of an output row, where a column folds */
    char *carry;      /* [output channel][depth][tile][height]: lines that a chunk has not filled */
    uint64_t *bits;   /* zeros: [input channel][tile][depth][height] */
    uint64_t *window; /* [tile][depth][height] */
};

struct spectral_task {
    const struct job *job;
    const struct ogp_plan *plan;
    const struct fourier *f;
    const struct shared *shared;
    struct spectral_scratch *s;
    struct unit unit;
    struct place place;
    int64_t in0; /* what column 0 reads */
    char *direct; /* scratch of the direct plan */
    int64_t chunk;
    int64_t lo, hi; /* columns of the chunk that are outputs; the first column is output `first` */
    int64_t first;
    int64_t begun;      /* the first output of rows that are being put; -1: of none */
    bool muted;         /* s->window holds outputs that are exactly the bias */
    int64_t remembered; /* chunks that s->bits may still hold zeros of */
};

static inline uint64_t *ogp_spectral_bits(const struct spectral_task *task, int64_t in)
{
    return task->s->bits + in * 2 * task->f->points[0] * task->f->points[1];
}

/* Output channel `out` of the task's, counted over all groups. */
static inline int64_t ogp_spectral_channel(const struct spectral_task *task, int64_t out)
{
    return task->place.group * ogp_channels_out(task->plan) + task->place.channel + out;
}

#endif
