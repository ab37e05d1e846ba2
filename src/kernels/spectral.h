/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of `spectral` and `spectral_reduce`: the multiply stages between Fourier transforms. */

/* Four sums for each vector: the products with the real and with the imaginary part of the weight, so that the chains
 * of dependent additions are short. */
enum { SPECTRAL_VECTORS = REGISTERS >= 32 ? 4 : 2 };
struct c_sums {
    V rr, ri, ir, ii;
};

INLINE void c_add_tap(struct c_sums *s, const T *w, V xr, V xi)
{
    const V wr = v_set1(w[0]), wi = v_set1(w[1]);
    s->rr = v_fma(wr, xr, s->rr);
    s->ri = v_fma(wr, xi, s->ri);
    s->ir = v_fma(wi, xr, s->ir);
    s->ii = v_fma(wi, xi, s->ii);
}

INLINE void spectral_loads(const struct ogp_spectral *m, struct c_sums *sums, const T *x, const T *w, const int NV)
{
    const int64_t imaginary = m->x_imaginary;
    x -= (m->taps - 1) * m->tap;
    for (int64_t t = 0; t < m->taps; t++, x += m->tap)
        UNROLL
        for (int v = 0; v < NV; v++) {
            const T *const at = x + v * LANES;
            c_add_tap(&sums[v], w + 2 * t, v_keep(v_load(at)), v_keep(v_load(at + imaginary)));
        }
}

/* Numbers of taps that have bodies of their own, where they are neighbours. */
#define FOR_SHIFTED_TAPS(m, bins) \
    if (V_SHIFTS && (m)->tap == 1 && (m)->taps == 5) { bins(m, 5); return; } \
    if (V_SHIFTS && (m)->tap == 1 && (m)->taps == 7) { bins(m, 7); return; } \
    if (V_SHIFTS && (m)->tap == 1 && (m)->taps == 9) { bins(m, 9); return; }

/* The same with aligned loads. Where a vector is a cache line every other load takes two accesses, and what waits for
 * it is issued twice: 35 cycles for 9 taps of a vector, 29 by shifts. */
INLINE void spectral_shifts(struct c_sums *sums, const T *x, int64_t imaginary, const T *w, const int taps,
                            const int NV)
{
    V re[SPECTRAL_VECTORS + 1], im[SPECTRAL_VECTORS + 1];
    UNROLL
    for (int v = 0; v <= NV; v++) {
        re[v] = v_load(x + (v - 1) * LANES);
        im[v] = v_load(x + (v - 1) * LANES + imaginary);
    }
    UNROLL
    for (int t = 0; t < taps; t++)
        UNROLL
        for (int v = 0; v < NV; v++) {
            const int by = LANES - (taps - 1) + t;
            c_add_tap(&sums[v], w + 2 * t, V_SHIFT(re[v], re[v + 1], by), V_SHIFT(im[v], im[v + 1], by));
        }
}

/* taps: one of those, or 0 for any. */
INLINE void spectral_columns(const struct ogp_spectral *m, T *y, const T *x, const T *w, const int taps, const int NV)
{
    struct c_sums sums[SPECTRAL_VECTORS];
    UNROLL
    for (int v = 0; v < NV; v++)
        sums[v].rr = sums[v].ri = sums[v].ir = sums[v].ii = v_zero();
    for (int64_t q = 0; q < m->terms; q++, x += m->x_term, w += 2 * m->taps) {
        if (taps)
            spectral_shifts(sums, x, m->x_imaginary, w, taps, NV);
        else
            spectral_loads(m, sums, x, w, NV);
    }
    UNROLL
    for (int v = 0; v < NV; v++) {
        v_store(y + v * LANES, sums[v].rr - sums[v].ii);
        v_store(y + v * LANES + m->y_imaginary, sums[v].ri + sums[v].ir);
    }
}

INLINE void spectral_bins(const struct ogp_spectral *m, const int taps)
{
    const T *x = m->x, *w = m->w;
    T *y = m->y;
    for (int64_t f = 0; f < m->bins; f++, x += m->x_step, y += m->y_step, w += 2 * m->terms * m->taps) {
        int64_t i = 0;
        for (; i + SPECTRAL_VECTORS <= m->vectors; i += SPECTRAL_VECTORS)
            spectral_columns(m, y + i * LANES, x + i * LANES, w, taps, SPECTRAL_VECTORS);
        for (; SPECTRAL_VECTORS > 3 && i + 3 <= m->vectors; i += 3)
            spectral_columns(m, y + i * LANES, x + i * LANES, w, taps, SPECTRAL_VECTORS > 3 ? 3 : 1);
        for (; i + 2 <= m->vectors; i += 2)
            spectral_columns(m, y + i * LANES, x + i * LANES, w, taps, 2);
        for (; i < m->vectors; i++)
            spectral_columns(m, y + i * LANES, x + i * LANES, w, taps, 1);
    }
}

static void spectral(const struct ogp_spectral *m)
{
    FOR_SHIFTED_TAPS(m, spectral_bins);
    spectral_bins(m, 0);
}

/* Lanes i without bit `half`: a[i] + a[i + half]; those with it: b[i - half] + b[i]. */
INLINE V v_pair(V a, V b, const int half)
{
    const V_int lane = {LANE_NUMBERS}, of_b = (lane & half) * (LANES / half);
    return v_shuffle_two(a, b, of_b + (lane & ~half)) + v_shuffle_two(a, b, of_b + (lane | half));
}

/* Lane i: the sum of the lanes of v[i], for LANES vectors. A step halves the vectors and the lanes that each still
 * needs; the lane in which v[k] ends is k with its bits reversed. */
INLINE V v_sums(const V *v)
{
    V part[LANES];
    UNROLL
    for (int k = 0; k < LANES; k++) {
        int reversed = 0;
        for (int bit = 1, other = LANES / 2; bit < LANES; bit *= 2, other /= 2)
            reversed |= k & bit ? other : 0;
        part[k] = v[reversed];
    }
    UNROLL
    for (int half = LANES / 2, count = LANES / 2; half > 0; half /= 2, count /= 2)
        UNROLL
        for (int k = 0; k < count; k++)
            part[k] = v_pair(part[2 * k], part[2 * k + 1], half);
    return part[0];
}

/* sum[0] += the lanes of re, sum[1] += those of im */
INLINE void v_add_one_tap(double *sum, V re, V im)
{
    const V_int lane = {LANE_NUMBERS};
    V both = v_pair(re, im, LANES / 2);
    UNROLL
    for (int half = LANES / 4; half > 0; half /= 2)
        both += v_shuffle(both, lane ^ half);
    sum[0] += (double)both[0];
    sum[1] += (double)both[LANES / 2];
}

/* sum[k] += the lanes of part[k], for the pairs of TT taps, at most SPECTRAL_TAPS. */
enum { SPECTRAL_TAPS = LANES / 2 };

INLINE void add_taps(double *sum, const V *part, const int TT)
{
    if (TT == 1 && LANES > 2) {
        v_add_one_tap(sum, part[0], part[1]);
        return;
    }
    V all[LANES];
    UNROLL
    for (int k = 0; k < LANES; k++)
        all[k] = k < 2 * TT ? part[k] : v_zero();
    const V sums = v_sums(all);
    if (2 * TT == LANES) {
        v_add_to_doubles(sum, sums);
        return;
    }
    UNROLL
    for (int k = 0; k < 2 * TT; k++)
        sum[k] += (double)sums[k];
}

/* The four products of a tap share two sums. */
INLINE void c_add_conj(V *part, V yr, V yi, V xr, V xi)
{
    part[0] = v_fma(yr, xr, part[0]);
    part[1] = v_fma(yr, xi, part[1]);
    part[0] = v_fma(yi, xi, part[0]);
    part[1] = part[1] - yi * xr;
}

/* TT taps of a bin, from x on, over all its columns. */
INLINE void spectral_reduce_taps(const struct ogp_spectral *m, double *sum, const T *y, const T *x, const int TT)
{
    V part[2 * SPECTRAL_TAPS];
    UNROLL
    for (int k = 0; k < 2 * TT; k++)
        part[k] = v_zero();
    for (int64_t i = 0; i < m->vectors * LANES; i += LANES) {
        const V yr = v_keep(v_load(y + i)), yi = v_keep(v_load(y + i + m->y_imaginary));
        UNROLL
        for (int t = 0; t < TT; t++)
            c_add_conj(part + 2 * t, yr, yi, v_keep(v_load(x + i + t * m->tap)),
                       v_keep(v_load(x + i + t * m->tap + m->x_imaginary)));
    }
    add_taps(sum, part, TT);
}

INLINE void spectral_reduce_loads(const struct ogp_spectral *m, double *sum, const T *y, const T *x)
{
    int64_t t = 0;
    x -= (m->taps - 1) * m->tap;
    for (; t + SPECTRAL_TAPS <= m->taps; t += SPECTRAL_TAPS)
        spectral_reduce_taps(m, sum + 2 * t, y, x + t * m->tap, SPECTRAL_TAPS);
    UNROLL
    for (int rest = SPECTRAL_TAPS - 1; rest > 0; rest--)
        if (m->taps - t == rest)
            spectral_reduce_taps(m, sum + 2 * t, y, x + t * m->tap, rest);
}

/* All taps at once, with aligned loads (spectral_shifts). */
INLINE void spectral_reduce_shifts(const struct ogp_spectral *m, double *sum, const T *y, const T *x, const int taps)
{
    V part[2 * LANES + 2];
    UNROLL
    for (int k = 0; k < 2 * taps; k++)
        part[k] = v_zero();
    V re = v_load(x - LANES), im = v_load(x - LANES + m->x_imaginary);
    for (int64_t i = 0; i < m->vectors * LANES; i += LANES) {
        const V yr = v_load(y + i), yi = v_load(y + i + m->y_imaginary);
        const V next_re = v_load(x + i), next_im = v_load(x + i + m->x_imaginary);
        UNROLL
        for (int t = 0; t < taps; t++) {
            const int by = LANES - (taps - 1) + t;
            c_add_conj(part + 2 * t, yr, yi, V_SHIFT(re, next_re, by), V_SHIFT(im, next_im, by));
        }
        re = next_re;
        im = next_im;
    }
    UNROLL
    for (int t = 0; t < taps; t += SPECTRAL_TAPS)
        add_taps(sum + 2 * t, part + 2 * t, taps - t < SPECTRAL_TAPS ? taps - t : SPECTRAL_TAPS);
}

INLINE void spectral_reduce_bins(const struct ogp_spectral *m, const int taps)
{
    const T *x = m->x, *y = m->y;
    double *sum = m->sum;
    for (int64_t f = 0; f < m->bins; f++, x += m->x_step, y += m->y_step, sum += 2 * m->taps) {
        if (taps)
            spectral_reduce_shifts(m, sum, y, x, taps);
        else
            spectral_reduce_loads(m, sum, y, x);
    }
}

static void spectral_reduce(const struct ogp_spectral *m)
{
    FOR_SHIFTED_TAPS(m, spectral_reduce_bins);
    spectral_reduce_bins(m, 0);
}
