/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of `spectral` and `spectral_reduce`: the multiply stages between Fourier transforms. */

/* Four sums for each vector: the products with the real and with the imaginary part of the weight, so that the chains
 * of dependent additions are short. */
enum { SPECTRAL_VECTORS = REGISTERS >= 32 ? 4 : 2 };

INLINE void spectral_columns(const struct ogp_spectral *m, T *y, const T *x, const T *w, const int NV)
{
    V rr[SPECTRAL_VECTORS], ri[SPECTRAL_VECTORS], ir[SPECTRAL_VECTORS], ii[SPECTRAL_VECTORS];
    UNROLL
    for (int v = 0; v < NV; v++)
        rr[v] = ri[v] = ir[v] = ii[v] = v_zero();
    for (int64_t q = 0; q < m->terms; q++, x += m->x_term)
        for (int64_t t = 0; t < m->taps; t++, w += 2) {
            const V wr = v_set1(w[0]), wi = v_set1(w[1]);
            UNROLL
            for (int v = 0; v < NV; v++) {
                const V xr = v_keep(v_load(x + t + v * LANES)), xi = v_keep(v_load(x + t + v * LANES + m->x_imaginary));
                rr[v] = v_fma(wr, xr, rr[v]);
                ri[v] = v_fma(wr, xi, ri[v]);
                ir[v] = v_fma(wi, xr, ir[v]);
                ii[v] = v_fma(wi, xi, ii[v]);
            }
        }
    UNROLL
    for (int v = 0; v < NV; v++) {
        v_store(y + v * LANES, rr[v] - ii[v]);
        v_store(y + v * LANES + m->y_imaginary, ri[v] + ir[v]);
    }
}

static void spectral(const struct ogp_spectral *m)
{
    const T *x = m->x, *w = m->w;
    T *y = m->y;
    for (int64_t f = 0; f < m->bins; f++, x += m->x_step, y += m->y_step, w += 2 * m->terms * m->taps) {
        int64_t i = 0;
        for (; i + SPECTRAL_VECTORS <= m->vectors; i += SPECTRAL_VECTORS)
            spectral_columns(m, y + i * LANES, x + i * LANES, w, SPECTRAL_VECTORS);
        for (; SPECTRAL_VECTORS > 3 && i + 3 <= m->vectors; i += 3)
            spectral_columns(m, y + i * LANES, x + i * LANES, w, SPECTRAL_VECTORS > 3 ? 3 : 1);
        for (; i + 2 <= m->vectors; i += 2)
            spectral_columns(m, y + i * LANES, x + i * LANES, w, 2);
        for (; i < m->vectors; i++)
            spectral_columns(m, y + i * LANES, x + i * LANES, w, 1);
    }
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

/* TT taps of a bin over all its columns: real and imaginary sums of a tap side by side, as many as a vector has lanes.
 * The four products of a tap share two sums. */
enum { SPECTRAL_TAPS = LANES / 2 };

INLINE void spectral_reduce_taps(const struct ogp_spectral *m, double *sum, const T *y, const T *x, const int TT)
{
    V part[LANES];
    UNROLL
    for (int k = 0; k < LANES; k++)
        part[k] = v_zero();
    for (int64_t i = 0; i < m->vectors * LANES; i += LANES) {
        const V yr = v_keep(v_load(y + i)), yi = v_keep(v_load(y + i + m->y_imaginary));
        UNROLL
        for (int t = 0; t < TT; t++) {
            const V xr = v_keep(v_load(x + i + t)), xi = v_keep(v_load(x + i + t + m->x_imaginary));
            part[2 * t] = v_fma(yr, xr, part[2 * t]);
            part[2 * t + 1] = v_fma(yr, xi, part[2 * t + 1]);
            part[2 * t] = v_fma(yi, xi, part[2 * t]);
            part[2 * t + 1] = part[2 * t + 1] - yi * xr;
        }
    }
    if (TT == 1 && LANES > 2) {
        v_add_one_tap(sum, part[0], part[1]);
        return;
    }
    const V sums = v_sums(part);
    if (2 * TT == LANES) {
        v_add_to_doubles(sum, sums);
        return;
    }
    UNROLL
    for (int k = 0; k < 2 * TT; k++)
        sum[k] += (double)sums[k];
}

static void spectral_reduce(const struct ogp_spectral *m)
{
    const T *x = m->x, *y = m->y;
    double *sum = m->sum;
    for (int64_t f = 0; f < m->bins; f++, x += m->x_step, y += m->y_step, sum += 2 * m->taps) {
        int64_t t = 0;
        for (; t + SPECTRAL_TAPS <= m->taps; t += SPECTRAL_TAPS)
            spectral_reduce_taps(m, sum + 2 * t, y, x + t, SPECTRAL_TAPS);
        UNROLL
        for (int rest = SPECTRAL_TAPS - 1; rest > 0; rest--)
            if (m->taps - t == rest)
                spectral_reduce_taps(m, sum + 2 * t, y, x + t, rest);
    }
}
