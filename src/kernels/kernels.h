/* SPDX-License-Identifier: Apache-2.0 */
/* The contract between the executors and the kernels: dense rows in scratch, pointers, counts and steps. Kernels never
 * allocate, know no problem and no thread, and touch nothing but what is said here. Elements are float or double, by the
 * table; steps and offsets count elements; none of the pointers needs an alignment. */
#ifndef OGP_KERNELS_H
#define OGP_KERNELS_H

#include <stdint.h>

/* The multiply stage: rows of y (+)= a sum over terms q < terms of a FIR along the width,
 *
 *   channels[C]   y[c*y_step + i] = sum over q, t < taps:         w[(q*taps + t)*C + c] * x[offset[q] + t + i]
 *   rows[R][K]    y[r*y_step + i] = sum over q, t < taps, k < K:  w[(q*taps + t)*K + k] * x[offset[q] + (r+k)*x_step + t + i]
 *
 * for c < C or r < R, 0 <= i < vectors*lanes. With accumulate the sum is added to y, without it y is not read.
 * It reads x[.. vectors*lanes + taps - 1) of each row. In `rows` one loaded vector of x serves up to K output rows.
 * Sums run in the element type: the caller keeps terms*taps(*K) <= OGP_LONGEST_SUM. */
enum { OGP_LONGEST_SUM = 1024 };

struct ogp_multiply {
    void *y;
    const void *x, *w;
    const int64_t *offset;
    int64_t y_step, x_step, terms, taps, vectors;
    int accumulate;
};
typedef void ogp_multiply_fn(const struct ogp_multiply *);

/* The multiply stage of grad weight: sums of products over planes, rows and n columns,
 *
 *   reduce_channels[C][T]  sum[t*C + c] += sum over d, h, i:  gy[c*gy_channel + d*gy_plane + h*gy_row + i] * x[d*x_plane + h*x_row + t + i]
 *   reduce_rows[K][T]      sum[t*K + k] += sum over d, h, i:  gy[d*gy_plane + h*gy_row + i] * x[d*x_plane + (h+k)*x_row + t + i]
 *
 * for t < T, c < C or k < K. Exactly the n columns count: what lies beyond them in x and gy may be anything, but is read
 * up to the next multiple of lanes (+ T - 1 in x). Lanes run in the element type and are added up in double: the
 * caller keeps planes*rows*ceil(n/lanes) <= OGP_LONGEST_SUM. */
struct ogp_reduce {
    double *sum;
    const void *gy, *x;
    int64_t gy_channel, gy_plane, gy_row, x_plane, x_row, planes, rows, n;
};
typedef void ogp_reduce_fn(const struct ogp_reduce *);

/* The multiply stage with the lanes along channels: P values of x, each broadcast, meet NV vectors of weights,
 *
 *   broadcast[NV][P]  y[place[p] + i] = sum over q < terms:  x[offset[q] + p] * w[q*w_step + i]
 *
 * for p < P, 0 <= i < NV*lanes. With accumulate the sum is added to y, without it y is not read. With sum (else NULL) it
 * is added to sum[place[p] + i] instead, in double. Sums run in the element type: terms <= OGP_LONGEST_SUM. */
struct ogp_broadcast {
    void *y;
    double *sum;
    const void *x, *w;
    const int64_t *offset, *place;
    int64_t w_step, terms;
    int accumulate;
};
typedef void ogp_broadcast_fn(const struct ogp_broadcast *);

/* Complex Fourier transforms of N points on vectors*lanes columns at once, one table row for each N:
 *
 *   forward  bins[place(k)*step + i] = sum over n < N:  exp(-2 pi i k n / N) (re[n][i] + i im[n][i])
 *   inverse  re[n][i] + i im[n][i] = bias + i bias + sum over k < N:  exp(+2 pi i k n / N) bins[place(k)*step + i]
 *
 * place(k1 + A*k2) = B*k1 + k2 where N = A*B (the row says them). Real parts of a bin are at bins, imaginary parts
 * `imaginary` elements later. re and im are N rows to read, or the first count <= N rows to write. twiddle: the N pairs
 * cos, -sin of 2 pi m / N. Forward may not, the inverse may write over its own bins. */
struct ogp_fft {
    const void *const *re, *const *im;
    void *bins;
    const void *twiddle;
    int64_t step, imaginary, vectors, count;
    double bias;
};
typedef void ogp_fft_fn(const struct ogp_fft *);

struct ogp_fft_row {
    int points, a, b;
    ogp_fft_fn *forward, *inverse;
};

/* The multiply stage between them: for each of `bins` bins, complex FIRs along the width, summed over terms,
 *
 *   spectral         y[f*y_step + i] = sum over q < terms, t < taps:  w[(f*terms + q)*taps + t] * x[q*x_term + f*x_step + t + i]
 *   spectral_reduce  sum[f*taps + t] += sum over i:                   conj(y[f*y_step + i]) * x[f*x_step + t + i]
 *
 * 0 <= i < vectors*lanes. Weights and sums are pairs real, imaginary; sums are doubles; the imaginary parts of x and y
 * lie x_imaginary and y_imaginary elements behind the real ones. The caller keeps terms*taps and vectors within
 * OGP_LONGEST_SUM. */
struct ogp_spectral {
    void *y;
    const void *x, *w;
    double *sum;
    int64_t bins, terms, taps, vectors, x_step, x_term, x_imaginary, y_step, y_imaginary;
};
typedef void ogp_spectral_fn(const struct ogp_spectral *);

/* Sums of magnitudes over segments of `group` (1, 2 or 4) successive rows and four columns of a vector; [lo, hi) count:
 * loudest and quietest are raised and lowered to the largest and smallest that is not zero; loudest becomes infinite
 * where a value is not finite, or sums are too large. zeros: set where all rows of a group are zero in some column. */
struct ogp_survey {
    const void *const *rows;
    int64_t count, group, vectors, lo, hi;
    double loudest, quietest;
    int zeros;
};

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
    void (*survey)(struct ogp_survey *);
    /* out[r*out_step + i] = in[r*in_step + i], 0 <= r < rows, 0 <= i < vectors*lanes */
    void (*copy_rows)(void *out, int64_t out_step, const void *in, int64_t in_step, int64_t rows, int64_t vectors);
    /* Bit i: whether in[i] is zero, 0 <= i < n <= 64; reads up to the next multiple of lanes. */
    uint64_t (*zeros)(const void *in, int64_t n);

    /* out[i] = in[i*step], 0 <= i < n */
    void (*gather)(void *out, const void *in, int64_t step, int64_t n);
    /* out[i*step] = in[i] + bias; with accumulate it is added to out, without it out is not read */
    void (*scatter)(void *out, int64_t step, const void *in, int64_t n, double bias, int accumulate);
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
