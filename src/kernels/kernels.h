/* SPDX-License-Identifier: Apache-2.0 */
/* The contract between the executors and the kernels: dense rows in scratch, pointers, counts and steps. Kernels never
 * allocate, know no problem and no thread, and touch nothing but what is said here. Elements are float or double, by the
 * table; steps and offsets count elements; none of the pointers needs an alignment. */
#ifndef OGP_KERNELS_H
#define OGP_KERNELS_H

#include <stdint.h>

/* The multiply stage: rows of y (+)= a sum over terms q < terms of a FIR along the width,
 *
 *   channels[C]   y[c*y_step + i] = sum over q, t < taps:         w[(q*taps + t)*C + c] * x[offset[q] + t*tap + i]
 *   rows[R][K]    y[r*y_step + i] = sum over q, t < taps, k < K:  w[(q*taps + t)*K + k] * x[offset[q] + (r+k)*x_step + t + i]
 *
 * for c < C or r < R, 0 <= i < vectors*lanes. With accumulate the sum is added to y, without it y is not read.
 * It reads x[.. vectors*lanes + (taps - 1)*tap) of each row; rows has no tap, its taps are neighbours. In `rows` one
 * loaded vector of x serves up to K output rows. Sums run in the element type: the caller keeps terms*taps(*K) <= OGP_LONGEST_SUM. */
enum { OGP_LONGEST_SUM = 1024 };

struct ogp_multiply {
    void *y;
    const void *x, *w;
    const int64_t *offset;
    int64_t y_step, x_step, terms, taps, tap, vectors;
    int accumulate;
};
typedef void ogp_multiply_fn(const struct ogp_multiply *);

/* The multiply stage of grad weight: sums of products over planes, rows and n columns,
 *
 *   reduce_channels[C][T]  sum[t*C + c] += sum over d, h, i:  gy[c*gy_channel + d*gy_plane + h*gy_row + i] * x[d*x_plane + h*x_row + t*tap + i]
 *   reduce_rows[K][T]      sum[t*K + k] += sum over d, h, i:  gy[d*gy_plane + h*gy_row + i] * x[d*x_plane + (h+k)*x_row + t + i]
 *
 * for t < T, c < C or k < K. Exactly the n columns count: what lies beyond them in x and gy may be anything, but is read
 * up to the next multiple of lanes (+ (T - 1)*tap in x, + T - 1 in rows). Lanes run in the element type and are added up
 * in pairs or in double: the caller keeps planes*rows*ceil(n/lanes) <= OGP_LONGEST_SUM. */
struct ogp_reduce {
    double *sum;
    const void *gy, *x;
    int64_t gy_channel, gy_plane, gy_row, x_plane, x_row, tap, planes, rows, n;
};
typedef void ogp_reduce_fn(const struct ogp_reduce *);

/* The multiply stage with the lanes along channels: P values of x, each broadcast, meet NV vectors of weights,
 *
 *   broadcast[NV][P]  y[place[p] + i] = sum over q < terms:  x[offset[q] + p] * w[q*w_step + i]
 *
 * for p < P, 0 <= i < NV*lanes. With accumulate the sum is added to y, without it y is not read; with mask (else NULL,
 * and only where it accumulates) it is added in lanes whose mask[i], an integer of the element's size, is -1, and what
 * other lanes hold counts for nothing. With sum (else NULL) it is added to sum[place[p] + i] instead, in double. Sums
 * run in the element type: terms <= OGP_LONGEST_SUM. */
struct ogp_broadcast {
    void *y;
    double *sum;
    const void *x, *w, *mask;
    const int64_t *offset, *place;
    int64_t w_step, terms;
    int accumulate;
};
typedef void ogp_broadcast_fn(const struct ogp_broadcast *);

/* Complex Fourier transforms of N points on vectors*lanes columns at once, one table row for each N:
 *
 *   forward  bins[place(k)*step + i] = sum over n < N:  exp(-2 pi i k n / N) (re[n*re_step + i] + i im[n*im_step + i])
 *   inverse  re[n*re_step + i] + i im[n*im_step + i] = bias + i bias + sum over k < N:  exp(+2 pi i k n / N) bins[place(k)*step + i]
 *
 * place(k1 + A*k2) = B*k1 + k2 where N = A*B (the row says them). Real parts of a bin are at bins, imaginary parts
 * `imaginary` elements later. The inverse writes the first re_count and im_count <= N rows of re and im. twiddle: the N
 * pairs cos, -sin of 2 pi m / N. Forward may not, the inverse may write over its own bins. */
struct ogp_fft {
    void *re, *im, *bins;
    const void *twiddle;
    int64_t re_step, im_step, step, imaginary, vectors, re_count, im_count;
    double bias;
};
typedef void ogp_fft_fn(const struct ogp_fft *);

struct ogp_fft_row {
    int points, a, b;
    ogp_fft_fn *forward, *inverse;
};

/* The multiply stage between them: for each of `bins` bins, complex FIRs along the width, summed over terms,
 *
 *   spectral         y[f*y_step + i] = sum over q < terms, t < taps:  w[(f*terms + q)*taps + t] * x[q*x_term + f*x_step + i + (t - (taps - 1))*tap]
 *   spectral_reduce  sum[f*taps + t] += sum over i:                   conj(y[f*y_step + i]) * x[f*x_step + i + (t - (taps - 1))*tap]
 *
 * 0 <= i < vectors*lanes; vectors that begin before x are read whole. Weights and sums are pairs real, imaginary; sums
 * are doubles; the imaginary parts of x and y lie x_imaginary and y_imaginary elements behind the real ones. The caller
 * keeps terms*taps and vectors within OGP_LONGEST_SUM. */
struct ogp_spectral {
    void *y;
    const void *x, *w;
    double *sum;
    int64_t bins, terms, taps, tap, vectors, x_step, x_term, x_imaginary, y_step, y_imaginary;
};
typedef void ogp_spectral_fn(const struct ogp_spectral *);

/* Takes rows of a tensor to scratch and sees what they hold: out[r*step + i] = in[offset[r] + i], 0 <= r < count, zero
 * for i outside [lo, hi), where nothing is read; 0 <= i < vectors*lanes. in may be out. Over segments of `group` (1, 2
 * or 4; the last may overlap the one before) successive rows and four columns of a vector it sums magnitudes, keeps them
 * in sums (count*vectors*lanes elements at most) and, where joins, adds those that were there, of the plane before.
 * Where judges, loudest and quietest are raised and lowered to the largest and smallest sum that is not zero; loudest
 * becomes infinite where a value is not finite, or sums are too large; zeros is set where a segment is zero in some
 * column of [lo, hi). */
struct ogp_take {
    const void *in;
    const int64_t *offset;
    void *out, *sums;
    int64_t step, count, group, vectors, lo, hi;
    double loudest, quietest;
    int joins, judges, zeros;
};

/* Puts rows of scratch into a tensor in whole cache lines: out[r*out_step + i] = in[r*in_step + i], 0 <= i < n, 0 <= r <
 * rows. A row comes in several calls, `before` elements of it in those so far. The elements behind its last whole line
 * are kept in line r of carry for the next call, or written, if it ends. in: a line of scratch lies before each row.
 * stream: past the caches. A line is 64 bytes; out is aligned to its elements. */
struct ogp_put {
    void *out, *in, *carry;
    int64_t out_step, in_step, rows, n, before;
    int ends, stream;
};

/* Exact small transforms (Winograd) of depth and height, vectors*lanes columns at once. Of an axis, by the row of the
 * table: 0 is none, one point; 1 is F(2,3), 4 points and 2 outputs; 2 is F(4,3), 6 points and 4 outputs. With P = Pd x
 * Ph points, T = Td x Th outputs, and the matrices B' and A' of docs/transforms.md on each axis:
 *
 *   forward  bins = B' rows       P rows to P bins
 *   spread   bins = A rows        T rows to P bins (the transpose of inverse)
 *   inverse  rows = A' bins + bias   P bins to T rows
 *
 * Row (d, h) is rows[d*Nh + h], that of point (d, h) lies at bins + (d*Ph + h)*bin. Forward and spread take columns
 * outside [lo, hi) for zeros and do not read them. They also add the magnitudes of segments, pairs of rows by pairs of
 * planes of what they read, to loud[segment*loud_step + i], segments in the same order. */
struct ogp_winograd {
    const void *const *rows;
    void *bins, *loud;
    int64_t bin, loud_step, vectors, lo, hi;
    double bias;
};
typedef void ogp_winograd_fn(const struct ogp_winograd *);

struct ogp_winograd_row {
    ogp_winograd_fn *forward, *spread, *inverse;
};

/* Judges the sums of magnitudes of `segments` segments, `step` apart, in vectors*lanes columns. For each of these the
 * loudest and the quietest segment that is not zero, of it and the window - 1 columns after it, are compared:
 * stark: whether one is more than `contrast` times as loud as the other; loudest, quietest: of all columns; loudest is
 * infinite where something is not finite.
 * zeros: whether a segment s in a column of [lo, hi) is zero where bit s of `expected` is set. Writes over the first
 * two segments (or one and the row after it); reads, and writes, one vector more than said. */
struct ogp_loudness {
    void *loud;
    int64_t step, segments, vectors, window, lo, hi;
    uint32_t expected;
    double contrast, loudest, quietest;
    int stark, zeros;
};

enum { OGP_WINOGRAD_ROWS = 3, OGP_WINOGRAD_BINS = 36, OGP_WINOGRAD_SEGMENTS = 9 };
enum { OGP_POINTS_MOST = 64, OGP_FFT_ROWS = 10 };
enum { OGP_ROWS_MOST = 9, OGP_CHANNELS_MOST = 8, OGP_ROW_BLOCKS = 4, OGP_TAPS_MOST = 3 };
enum { OGP_POSITIONS_MOST = 14, OGP_LANE_VECTORS_MOST = 3 };

struct ogp_kernels {
    const char *name;
    int lanes;         /* elements of a vector */
    int rows_most;     /* largest K in this table; every smaller one from 1 is there too */
    int channels_most; /* largest C, likewise */
    int reduce_rows_taps, reduce_channels_taps; /* largest T, likewise */

    ogp_multiply_fn *rows[OGP_ROW_BLOCKS][OGP_ROWS_MOST + 1]; /* [log2 R][K] */
    ogp_multiply_fn *channels[OGP_CHANNELS_MOST + 1];
    ogp_reduce_fn *reduce_rows[OGP_ROWS_MOST + 1][OGP_TAPS_MOST + 1];
    ogp_reduce_fn *reduce_channels[OGP_CHANNELS_MOST + 1][OGP_TAPS_MOST + 1];
    ogp_broadcast_fn *broadcast[OGP_LANE_VECTORS_MOST + 1][OGP_POSITIONS_MOST + 1]; /* [NV][P] */
    int positions_most[OGP_LANE_VECTORS_MOST + 1]; /* largest P for each NV from 1; every smaller one is there too */

    struct ogp_fft_row fft[OGP_FFT_ROWS]; /* ascending points */
    ogp_spectral_fn *spectral, *spectral_reduce;
    void (*take)(struct ogp_take *);
    void (*put)(const struct ogp_put *);
    struct ogp_winograd_row winograd[OGP_WINOGRAD_ROWS][OGP_WINOGRAD_ROWS]; /* [depth][height]; not [0][0] */
    void (*loudness)(struct ogp_loudness *);
    /* out[r*out_step + i] = in[r*in_step + i], 0 <= r < rows, 0 <= i < vectors*lanes */
    void (*copy_rows)(void *out, int64_t out_step, const void *in, int64_t in_step, int64_t rows, int64_t vectors);
    /* out[r*out_step + i] = in[r*in_step + i - before] where before <= i < before + n, zero elsewhere; 0 <= r < rows,
     * 0 <= i < vectors*lanes */
    void (*pad_rows)(void *out, int64_t out_step, const void *in, int64_t in_step, int64_t rows, int64_t before,
                     int64_t n, int64_t vectors);
    /* out[r*out_step + i] = in[r*in_step + i] + bias, 0 <= r < rows, 0 <= i < n; accumulate as for scatter */
    void (*unpack_rows)(void *out, int64_t out_step, const void *in, int64_t in_step, int64_t rows, int64_t n,
                        double bias, int accumulate);
    /* Bit i: whether in[i] is zero, 0 <= i < n <= 64; reads up to the next multiple of lanes. */
    uint64_t (*zeros)(const void *in, int64_t n);

    /* out[i] = in[i*step], 0 <= i < n */
    void (*gather)(void *out, const void *in, int64_t step, int64_t n);
    /* out[i*step] = in[i] + bias; with accumulate it is added to out, without it out is not read */
    void (*scatter)(void *out, int64_t step, const void *in, int64_t n, double bias, int accumulate);
    /* out[2*i] = even[i] + bias, out[2*i + 1] = odd[i] + bias, 0 <= i < n; accumulate likewise */
    void (*interleave)(void *out, const void *even, const void *odd, int64_t n, double bias, int accumulate);
    /* out[i*step] = in[i], rounded to the element; with accumulate added in double and rounded once */
    void (*scatter_f64)(void *out, int64_t step, const double *in, int64_t n, int accumulate);
    /* out[j*out_step + i] = in[i*in_step + j], 0 <= i < rows, 0 <= j < columns; up to the next multiple of lanes in i it
     * is zero */
    void (*transpose)(void *out, int64_t out_step, const void *in, int64_t in_step, int64_t rows, int64_t columns);
    /* out[place[i]] += in[i], in ascending order of i (places may repeat) */
    void (*add_at)(void *out, const int64_t *place, const void *in, int64_t n);
    /* sum of in[i*step], 0 <= i < n, in double */
    double (*sum)(const void *in, int64_t step, int64_t n);
};

#endif
