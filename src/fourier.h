/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles between Fourier transforms over depth and height, the width direct. A unit is two tiles: one is the real part
 * of the numbers that are transformed, the other the imaginary part; a convolution by a real kernel keeps them apart.
 * The width passes in chunks of `columns`; what the taps of the next chunk still reach of one is its history. */
#ifndef OGP_FOURIER_H
#define OGP_FOURIER_H

#include <math.h>

#include "arena.h"
#include "pack.h"
#include "transform.h"

/* Sizes that both passes share. Pitches and counts in elements. */
struct fourier {
    const struct ogp_fft_row *fft[2];
    int64_t points[2];        /* of depth and height */
    int64_t columns, vectors; /* of a chunk */
    int64_t step;             /* of the tensor that is read, between columns */
    int64_t tap, window;      /* columns between two taps of the width, and of all */
    int64_t history;          /* columns, whole vectors, >= window - 1 */
    int64_t skip;             /* columns of padding before the first chunk, whose history is zero */
    int64_t chunks;           /* that cover the other columns which some tap reaches */
    int64_t vectors_all;      /* of all chunks */
    int64_t bin, plane;       /* spectra of a chunk: [depth][height][real, imaginary][column] */
    int64_t slab;             /* one height bin: [depth][real, imaginary][history, column] */
    int64_t part;             /* from real to imaginary in a slab */
    int64_t bytes;            /* of an element */
};

struct fourier ogp_fourier(const struct ogp_plan *plan, const struct tiling *t);

/* The one piece of lowered axis a of forward or grad input: every class has the same taps (ogp_fourier_applies). For
 * grad weight, that of forward. */
struct piece ogp_fourier_piece(const struct ogp_plan *plan, int a);

/* The first column of chunk `at` that is read: column c reads in0 + step*c, in0 that of the width's piece. */
static inline int64_t ogp_fourier_column(const struct fourier *f, int64_t chunk)
{
    return f->skip + chunk * f->columns;
}

/* Outputs [first, first + extent) of an axis that tiles cover. Where a padding mode folds outputs these are the padded
 * ones, and every tile holds those that fold into it. */
static inline int64_t ogp_fourier_first(const struct lattice *lat)
{
    return lat->fold ? -lat->axis.p : 0;
}
static inline int64_t ogp_fourier_extent(const struct lattice *lat)
{
    return lat->out_extent + (lat->fold ? lat->axis.p + lat->axis.q : 0);
}
static inline bool ogp_fourier_folds(const struct ogp_plan *plan)
{
    return plan->lattice[0].fold || plan->lattice[1].fold || plan->lattice[2].fold;
}

/* Whether a transform can serve this problem at all: every axis one piece of at most OGP_POINTS_MOST/2 taps, a window of
 * less than 64 columns, no folding onto the other end, and rounding errors that the caller allows to follow the norm of
 * a window. */
bool ogp_fourier_applies(const struct ogp_plan *plan);

/* Takes the tiling whose fft, out and columns are the cheapest, and sets plan->cost; false where nothing fits the limit
 * or is cheaper than plan->cost. bytes: of one worker. */
bool ogp_fourier_choose(struct ogp_plan *plan, struct tiling t, int64_t limit,
                        size_t (*bytes)(const struct ogp_plan *, const struct tiling *),
                        double (*cost)(const struct ogp_plan *, const struct tiling *));

/* Twiddle factors of both axes, in shared memory. */
struct twiddles {
    void *axis[2];
    double *exact[2]; /* those of doubles */
};
struct twiddles ogp_fourier_carve_twiddles(struct arena *a, const struct fourier *f);
void ogp_fourier_fill_twiddles(const struct fourier *f, const struct twiddles *t);

/* ---- units ---- */

/* Tiles 2u and 2u + 1 of a sample and channel block; absent ones have count 0. */
struct unit {
    struct span span[2][2]; /* [tile][axis] */
};
int64_t ogp_fourier_units(const struct ogp_plan *plan, const struct tiling *t);
struct unit ogp_fourier_unit(const struct ogp_plan *plan, int64_t u);

/* ---- reading ---- */

struct reader {
    const struct ogp_plan *plan;
    const struct fourier *fourier;
    struct volume volume;           /* at the sample and channel */
    struct sampling sampling[2][2]; /* [tile][axis]: what of depth and height is transformed */
    struct sampling width;          /* of the chunk */
    int64_t vectors;                /* that its columns fill */
    bool begins;                    /* the first chunk of a unit */
    struct run rows[2];             /* [tile] of the height: those that are not padding */
    /* scratch of ogp_fourier_carve_reader */
    char *packed[2];    /* [tile]: a plane of the chunk, [height][column] */
    char *sums[2];      /* [tile]: of the segments of the plane before */
    int64_t *offset[2]; /* [tile][height]: elements from the plane of the tensor */
    int64_t *place;     /* [height]: elements from a packed plane */
    int64_t *across;    /* [column]: elements from a row of the tensor */
};
void ogp_fourier_carve_reader(struct arena *a, const struct fourier *f, struct reader *r);

/* After the unit, and with it sampling or the strides of the volume, has changed. */
void ogp_fourier_aim(struct reader *r);

/* Whether the columns that a padding mode puts beside the tensor are not looked at: every window that holds one of them
 * holds the column that it repeats too. */
bool ogp_fourier_repeats(const struct reader *r);

/* Whether such columns of the chunk may be zero though no other of it is. zeros: those before it hold some. */
bool ogp_fourier_repeats_zeros(const struct reader *r, bool zeros);

/* Rows and planes over which magnitudes are added up: 1, 2 or 4, and 1 or 2. */
struct segment {
    int64_t rows, planes;
};

/* What a chunk was found to hold. */
struct finding {
    double loudest, quietest;
    bool zeros;
};
static const struct finding ogp_nothing_found = {.quietest = INFINITY};
void ogp_fourier_add_finding(struct finding *all, const struct finding *one);

/* The same of the chunks before one. */
enum { OGP_CHUNKS_REACHED_MOST = 32 }; /* by a window of 64 columns from one of a vector of doubles */
struct findings {
    struct finding of[OGP_CHUNKS_REACHED_MOST];
    int64_t count;
};
void ogp_fourier_note(struct findings *, const struct finding *now);

/* What those were found to hold that a window which ends in the next chunk reaches. */
struct finding ogp_fourier_reached(const struct fourier *f, const struct findings *);

/* Transforms the height of every plane of both tiles into spectra, whose other planes become zero with the first chunk
 * of a unit, and adds to what was found over segments. The sum of all elements is added to *sum, if that is not NULL.
 */
void ogp_fourier_read(struct reader *r, char *spectra, const void *twiddle, struct finding *found,
                      struct segment segment, double *sum);

/* Adds the zeros of the chunk to the highest `columns` bits of bits[(tile*points[0] + d)*points[1] + h]. */
void ogp_fourier_zeros(const struct reader *r, uint64_t *bits);

/* The same bits of any row of a chunk where only padding is zero. */
uint64_t ogp_fourier_padding_zeros(const struct reader *r);

/* Transforms the depth of height bin h into the columns of a slab behind its history. */
void ogp_fourier_slab(const struct reader *r, char *slab, char *spectra, int64_t h, const void *twiddle);

/* Takes the history of a bin to its slab (NULL: zeros), and from it what the next chunk will need. */
void ogp_fourier_recall(const struct ogp_plan *plan, const struct fourier *f, char *slab, const char *history);
void ogp_fourier_keep(const struct ogp_plan *plan, const struct fourier *f, char *history, const char *slab);

/* Whether the largest magnitude of an operand can neither overflow in a transform nor vanish in it. */
bool ogp_fourier_in_range(enum ogp_dtype dtype, double magnitude);

/* Whether transforms do justice to a chunk: its values and those of its history are finite, in a range that cannot
 * overflow, and, unless the precision says otherwise, no quiet segment lies beside one 2^12 times as loud. */
bool ogp_fourier_fits(const struct ogp_plan *plan, const struct finding *chunk, const struct finding *history);

/* ---- the model: cycles of a vector of columns of a chunk, fitted to an Ice Lake server with AVX-512 ---- */

double ogp_fourier_read_cycles(const struct fourier *f, double planes); /* height transforms of planes of both tiles */
double ogp_fourier_depth_cycles(const struct fourier *f);               /* depth transforms of all height bins */
double ogp_fourier_history_cycles(const struct fourier *f);
/* The spectrum of one kernel, from its taps or back (spectrum.h). */
double ogp_fourier_spectrum_cycles(const struct ogp_plan *plan, const struct fourier *f);
double ogp_fourier_write_cycles(const struct fourier *f, double planes, double rows);
/* Rows of a tensor read, or written (twice: they are read before). A misaligned chunk shares lines with the next one.
 */
double ogp_fourier_memory_cycles(const struct ogp_plan *plan, const struct fourier *f, double rows);
/* How much slower all of it is where a worker's scratch outgrows the second-level cache. */
double ogp_fourier_spill(size_t bytes);

#endif
