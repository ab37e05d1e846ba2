/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of `reduce_rows` and `reduce_channels`. */

/* reduce_rows: R rows of gy in registers meet R + K - 1 rows of x: K*T sums + R gy + 1 x, at most 9*2 + 4 + 1 = 23 of 32
 * registers, or 5*2 + 4 + 1 = 15 of 16. */
enum { REDUCE_ROWS_R = 4, REDUCE_ROWS_T = 2 };

INLINE void reduce_rows_block(const struct ogp_reduce *m, V (*acc)[OGP_TAPS_MOST], const T *gy, const T *x,
                              int64_t lanes, const int R, const int K, const int TT)
{
    V g[REDUCE_ROWS_R];
    UNROLL
    for (int r = 0; r < R; r++)
        g[r] = v_keep(v_load(gy + r * m->gy_row));
    if (lanes < LANES)
        UNROLL
        for (int r = 0; r < R; r++)
            g[r] = v_first(g[r], lanes);
    UNROLL
    for (int j = 0; j < R + K - 1; j++, x += m->x_row)
        UNROLL
        for (int t = 0; t < TT; t++) {
            /* zero times what lies beyond the columns would be NaN where that is not finite */
            const V xv = v_keep(lanes < LANES ? v_first(v_load(x + t), lanes) : v_load(x + t));
            UNROLL
            for (int r = 0; r < R; r++)
                if (j - r >= 0 && j - r < K)
                    acc[j - r][t] = v_fma(g[r], xv, acc[j - r][t]);
        }
}

INLINE void reduce_rows_strip(const struct ogp_reduce *m, V (*acc)[OGP_TAPS_MOST], const T *gy, const T *x,
                              const int R, const int K, const int TT)
{
    int64_t i = 0;
    for (; i + LANES <= m->n; i += LANES)
        reduce_rows_block(m, acc, gy + i, x + i, LANES, R, K, TT);
    if (i < m->n)
        reduce_rows_block(m, acc, gy + i, x + i, m->n - i, R, K, TT);
}

INLINE void reduce_rows_body(const struct ogp_reduce *m, const int K, const int TT)
{
    V acc[OGP_ROWS_MOST][OGP_TAPS_MOST];
    UNROLL
    for (int k = 0; k < K; k++)
        UNROLL
        for (int t = 0; t < TT; t++)
            acc[k][t] = v_zero();
    for (int64_t d = 0; d < m->planes; d++) {
        const T *gy = (const T *)m->gy + d * m->gy_plane, *x = (const T *)m->x + d * m->x_plane;
        int64_t h = 0;
        for (; h + REDUCE_ROWS_R <= m->rows; h += REDUCE_ROWS_R)
            reduce_rows_strip(m, acc, gy + h * m->gy_row, x + h * m->x_row, REDUCE_ROWS_R, K, TT);
        for (; h < m->rows; h++)
            reduce_rows_strip(m, acc, gy + h * m->gy_row, x + h * m->x_row, 1, K, TT);
    }
    for (int t = 0; t < TT; t++)
        for (int k = 0; k < K; k++)
            m->sum[t * K + k] += v_sum(acc[k][t]);
}

/* reduce_channels: C*T sums, T vectors of x, one of gy: at most 8*3 + 3 + 1 = 28 of 32, or 4*3 + 3 + 1 = 16 of 16. */
enum { REDUCE_CHANNELS_T = 3 };

INLINE void reduce_channels_block(const struct ogp_reduce *m, V (*acc)[OGP_TAPS_MOST], const T *gy, const T *x,
                                  int64_t lanes, const int C, const int TT)
{
    V xv[OGP_TAPS_MOST];
    UNROLL
    for (int t = 0; t < TT; t++)
        xv[t] = v_keep(lanes < LANES ? v_first(v_load(x + t * m->tap), lanes) : v_load(x + t * m->tap));
    UNROLL
    for (int c = 0; c < C; c++) {
        const T *const g = gy + c * m->gy_channel;
        const V gv = v_keep(lanes < LANES ? v_first(v_load(g), lanes) : v_load(g));
        UNROLL
        for (int t = 0; t < TT; t++)
            acc[c][t] = v_fma(gv, xv[t], acc[c][t]);
    }
}

INLINE void reduce_channels_body(const struct ogp_reduce *m, const int C, const int TT)
{
    V acc[OGP_CHANNELS_MOST][OGP_TAPS_MOST];
    UNROLL
    for (int c = 0; c < C; c++)
        UNROLL
        for (int t = 0; t < TT; t++)
            acc[c][t] = v_zero();
    for (int64_t d = 0; d < m->planes; d++)
        for (int64_t h = 0; h < m->rows; h++) {
            const T *const gy = (const T *)m->gy + d * m->gy_plane + h * m->gy_row;
            const T *const x = (const T *)m->x + d * m->x_plane + h * m->x_row;
            int64_t i = 0;
            for (; i + LANES <= m->n; i += LANES)
                reduce_channels_block(m, acc, gy + i, x + i, LANES, C, TT);
            if (i < m->n)
                reduce_channels_block(m, acc, gy + i, x + i, m->n - i, C, TT);
        }
    if (SHUFFLES_ARE_LOOPS) {
        for (int k = 0; k < C * TT; k++)
            m->sum[k] += v_sum(acc[k % C][k / C]);
        return;
    }
    /* as many as a vector has lanes at once: one by one would take as long as 16 columns of products */
    UNROLL
    for (int from = 0; from < C * TT; from += LANES) {
        V part[LANES];
        UNROLL
        for (int k = 0; k < LANES; k++)
            part[k] = from + k < C * TT ? acc[(from + k) % C][(from + k) / C] : v_zero();
        const V sums = v_sums(part);
        if (from + LANES <= C * TT) {
            v_add_to_doubles(m->sum + from, sums);
            continue;
        }
        UNROLL
        for (int k = 0; from + k < C * TT; k++)
            m->sum[from + k] += (double)sums[k];
    }
}
