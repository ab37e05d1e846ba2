/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of `rows` and `channels`. R, K, C and NV are constants where these are inlined, so that the accumulators
 * are registers. */

/* Vectors of the width that one body holds. rows, 32 registers: 8*2 accumulators + K <= 9 weights + 2 x = 27.
 * 16 registers: 8 + K <= 5 + 1 = 14. */
#define ROWS_VECTORS (REGISTERS >= 32 ? 2 : 1)
#define ROWS_K_MOST (REGISTERS >= 32 ? 9 : 5)

INLINE void rows_columns(const struct ogp_multiply *m, int64_t i, const int R, const int K, const int NV)
{
    const T *w = m->w;
    V acc[8][2];
    UNROLL
    for (int r = 0; r < R; r++)
        UNROLL
        for (int v = 0; v < NV; v++)
            acc[r][v] = v_zero();
    for (int64_t q = 0; q < m->terms; q++) {
        const T *const x = (const T *)m->x + m->offset[q] + i;
        for (int64_t t = 0; t < m->taps; t++, w += K) {
            V wk[OGP_ROWS_MOST];
            UNROLL
            for (int k = 0; k < K; k++)
                wk[k] = v_set1(w[k]);
            const T *row = x + t;
            UNROLL
            for (int j = 0; j < R + K - 1; j++, row += m->x_step)
                UNROLL
                for (int v = 0; v < NV; v++) {
                    const V xv = v_keep(v_load(row + v * LANES));
                    UNROLL
                    for (int r = 0; r < R; r++)
                        if (j - r >= 0 && j - r < K)
                            acc[r][v] = v_fma(wk[j - r], xv, acc[r][v]);
                }
        }
    }
    UNROLL
    for (int r = 0; r < R; r++)
        UNROLL
        for (int v = 0; v < NV; v++) {
            T *const y = (T *)m->y + r * m->y_step + i + v * LANES;
            v_store(y, m->accumulate ? v_load(y) + acc[r][v] : acc[r][v]);
        }
}

INLINE void rows_body(const struct ogp_multiply *m, const int R, const int K)
{
    const int64_t n = m->vectors * LANES;
    int64_t i = 0;
    for (; i + ROWS_VECTORS * LANES <= n; i += ROWS_VECTORS * LANES)
        rows_columns(m, i, R, K, ROWS_VECTORS);
    for (; i < n; i += LANES)
        rows_columns(m, i, R, K, 1);
}

/* channels: C*NV accumulators, NV x vectors and a weight, which x86 folds into the product as a broadcast. */
#define CHANNELS_C_MOST (REGISTERS >= 32 ? 8 : 4)
#define CHANNELS_VECTORS(C) \
    (REGISTERS >= 32 ? ((C) >= 7 ? 3 : (C) >= 5 ? 4 : (C) == 4 ? 6 : 8) : ((C) == 4 ? 3 : (C) == 3 ? 4 : 6))

INLINE void channels_by_weights(V (*acc)[8], const T *w, const T *x, const int C, const int NV)
{
    V xv[8];
    UNROLL
    for (int v = 0; v < NV; v++)
        xv[v] = v_load(x + v * LANES);
    UNROLL
    for (int c = 0; c < C; c++) {
        const V wc = v_set1(w[c]);
        UNROLL
        for (int v = 0; v < NV; v++)
            acc[c][v] = v_fma(wc, xv[v], acc[c][v]);
    }
}

/* C weights and one x vector, where there are registers for them. */
INLINE void channels_by_vectors(V (*acc)[8], const T *w, const T *x, const int C, const int NV)
{
    V wc[8];
    UNROLL
    for (int c = 0; c < C; c++)
        wc[c] = v_set1(w[c]);
    UNROLL
    for (int v = 0; v < NV; v++) {
        const V xv = v_keep(v_load(x + v * LANES));
        UNROLL
        for (int c = 0; c < C; c++)
            acc[c][v] = v_fma(wc[c], xv, acc[c][v]);
    }
}

INLINE void channels_columns(const struct ogp_multiply *m, int64_t i, const int C, const int NV)
{
    const T *w = m->w;
    V acc[8][8];
    UNROLL
    for (int c = 0; c < C; c++)
        UNROLL
        for (int v = 0; v < NV; v++)
            acc[c][v] = v_zero();
    for (int64_t q = 0; q < m->terms; q++) {
        const T *const x = (const T *)m->x + m->offset[q] + i;
        for (int64_t t = 0; t < m->taps; t++, w += C) {
            if (C * NV + C + 1 < REGISTERS)
                channels_by_vectors(acc, w, x + t * m->tap, C, NV);
            else
                channels_by_weights(acc, w, x + t * m->tap, C, NV);
        }
    }
    UNROLL
    for (int c = 0; c < C; c++)
        UNROLL
        for (int v = 0; v < NV; v++) {
            T *const y = (T *)m->y + c * m->y_step + i + v * LANES;
            v_store(y, m->accumulate ? v_load(y) + acc[c][v] : acc[c][v]);
        }
}

INLINE void channels_body(const struct ogp_multiply *m, const int C)
{
    const int64_t n = m->vectors * LANES;
    const int most = CHANNELS_VECTORS(C);
    int64_t i = 0;
    /* four left of blocks of three are two and two: one alone is bound by its loads */
    for (; i + most * LANES <= n && (most != 3 || n - i != 4 * LANES); i += most * LANES)
        channels_columns(m, i, C, CHANNELS_VECTORS(C));
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        channels_columns(m, i, C, 2);
    for (; i < n; i += LANES)
        channels_columns(m, i, C, 1);
}
