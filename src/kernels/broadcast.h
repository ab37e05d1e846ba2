/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of `broadcast` and `transpose`. P and NV are constants where these are inlined. */

INLINE void put_sums(const struct ogp_broadcast *m, V (*acc)[OGP_LANE_VECTORS_MOST], const int P, const int NV)
{
    UNROLL
    for (int p = 0; p < P; p++)
        UNROLL
    for (int v = 0; v < NV; v++)
        v_add_to_doubles(m->sum + m->place[p] + v * LANES, v_keep(acc[p][v]));
}

INLINE void add_rows(const struct ogp_broadcast *m, V (*acc)[OGP_LANE_VECTORS_MOST], const int P, const int NV)
{
    UNROLL
    for (int p = 0; p < P; p++)
        UNROLL
    for (int v = 0; v < NV; v++) {
        T *const y = (T *)m->y + m->place[p] + v * LANES;
        v_store(y, v_load(y) + acc[p][v]);
    }
}

INLINE void add_some_lanes(const struct ogp_broadcast *m, V (*acc)[OGP_LANE_VECTORS_MOST], const int P, const int NV)
{
    UNROLL
    for (int v = 0; v < NV; v++) {
        V_int mask;
        __builtin_memcpy(&mask, (const T *)m->mask + v * LANES, sizeof mask);
        UNROLL
        for (int p = 0; p < P; p++)
            acc[p][v] = (V)((V_int)acc[p][v] & mask);
    }
    add_rows(m, acc, P, NV);
}

INLINE void put_rows(const struct ogp_broadcast *m, V (*acc)[OGP_LANE_VECTORS_MOST], const int P, const int NV)
{
    UNROLL
    for (int p = 0; p < P; p++)
        UNROLL
    for (int v = 0; v < NV; v++)
        v_store((T *)m->y + m->place[p] + v * LANES, acc[p][v]);
}

/* P*NV accumulators, NV weights, one broadcast: at most 14*2 + 2 + 1 = 31 of 32 registers, 6*2 + 2 + 1 = 15 of 16. */
INLINE void broadcast_body(const struct ogp_broadcast *m, const int P, const int NV)
{
    V acc[OGP_POSITIONS_MOST][OGP_LANE_VECTORS_MOST];
    UNROLL
    for (int p = 0; p < P; p++)
        UNROLL
    for (int v = 0; v < NV; v++)
        acc[p][v] = v_zero();
    const T *w = m->w;
    for (int64_t q = 0; q < m->terms; q++, w += m->w_step) {
        const T *const x = (const T *)m->x + m->offset[q];
        V wv[OGP_LANE_VECTORS_MOST];
        UNROLL
        for (int v = 0; v < NV; v++)
            wv[v] = v_load(w + v * LANES);
        UNROLL
        for (int p = 0; p < P; p++) {
            const V xp = NV > 1 ? v_keep(v_set1(x[p])) : v_set1(x[p]);
            UNROLL
            for (int v = 0; v < NV; v++)
                acc[p][v] = v_fma(xp, wv[v], acc[p][v]);
        }
    }
    if (m->sum)
        put_sums(m, acc, P, NV);
    else if (m->mask)
        add_some_lanes(m, acc, P, NV);
    else if (m->accumulate)
        add_rows(m, acc, P, NV);
    else
        put_rows(m, acc, P, NV);
}

INLINE V load_some(const T *p, int64_t n)
{
    T lane[LANES] = {0};
    V v;
    for (int64_t i = 0; i < n; i++)
        lane[i] = p[i];
    __builtin_memcpy(&v, lane, sizeof v);
    return v;
}

/* One step of a transposition in registers: blocks of `half` lanes change places between two rows. */
INLINE void exchange(V *a, V *b, const int half)
{
    V_int low = {LANE_NUMBERS}, high = {LANE_NUMBERS};
    const V_int lane = {LANE_NUMBERS}, lower = (lane & half) == 0;
    low = (lower & lane) | (~lower & (lane + (LANES - half)));
    high = (lower & (lane + half)) | (~lower & (lane + LANES));
    const V first = v_shuffle_two(*a, *b, low);
    *b = v_shuffle_two(*a, *b, high);
    *a = first;
}

/* Rows [0, rows) and columns [0, columns) of one block of LANES of each. */
INLINE void transpose_block(T *out, int64_t out_step, const T *in, int64_t in_step, int64_t rows, int64_t columns)
{
    V v[LANES];
    UNROLL
    for (int i = 0; i < LANES; i++)
        v[i] = i >= rows ? v_zero() : columns < LANES ? load_some(in + i * in_step, columns) : v_load(in + i * in_step);
    UNROLL
    for (int half = LANES / 2; half > 0; half /= 2)
        UNROLL
    for (int i = 0; i < LANES; i++)
        if (!(i & half))
            exchange(&v[i], &v[i + half], half);
    UNROLL
    for (int j = 0; j < LANES; j++)
        if (j < columns)
            v_store(out + j * out_step, v[j]);
}

static void transpose(void *out, int64_t out_step, const void *in, int64_t in_step, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows; i += LANES) {
        T *o = (T *)out + i;
        const T *a = (const T *)in + i * in_step;
        const int64_t high = rows - i < LANES ? rows - i : LANES;
        if (high < LANES || columns < LANES) {
            for (int64_t j = 0; j < columns; j += LANES)
                transpose_block(o + j * out_step, out_step, a + j, in_step, high,
                                columns - j < LANES ? columns - j : LANES);
            continue;
        }
        for (int64_t j = 0; j + LANES <= columns; j += LANES)
            transpose_block(o + j * out_step, out_step, a + j, in_step, LANES, LANES);
        const int64_t last = columns - LANES; /* some columns twice */
        if (columns % LANES != 0)
            transpose_block(o + last * out_step, out_step, a + last, in_step, LANES, LANES);
    }
}
