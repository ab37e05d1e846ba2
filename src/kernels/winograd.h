/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of the exact small transforms of Winograd, and `loudness`. F(2,3) evaluates at 0, 1, -1 and infinity, F(4,3)
 * at 0, a, -a, b, -b and infinity with a = 3/4, b = 3/2: half the rounding error of the customary 1 and 2, and all
 * constants are exact. Weights are transformed in double, where both are (winograd_weights.c). */
#define WINOGRAD_A (T)0.75
#define WINOGRAD_B (T)1.5

/* v = B' v. Row p: the coefficients of the product of x - q over the other finite points q. */
INLINE void winograd_b(V *v, const int P)
{
    const V a2 = v_set1(WINOGRAD_A * WINOGRAD_A), b2 = v_set1(WINOGRAD_B * WINOGRAD_B), sum = a2 + b2, all = a2 * b2;
    if (P == 4) {
        const V x0 = v[0], x1 = v[1], x2 = v[2], x3 = v[3];
        v[0] = x0 - x2;
        v[1] = x2 + x1;
        v[2] = x2 - x1;
        v[3] = x3 - x1;
    } else if (P == 6) {
        const V x0 = v[0], x1 = v[1], x2 = v[2], x3 = v[3], x4 = v[4], x5 = v[5];
        const V even_a = x4 - b2 * x2, odd_a = x3 - b2 * x1, even_b = x4 - a2 * x2, odd_b = x3 - a2 * x1;
        v[0] = all * x0 + (x4 - sum * x2);
        v[1] = even_a + v_set1(WINOGRAD_A) * odd_a;
        v[2] = even_a - v_set1(WINOGRAD_A) * odd_a;
        v[3] = even_b + v_set1(WINOGRAD_B) * odd_b;
        v[4] = even_b - v_set1(WINOGRAD_B) * odd_b;
        v[5] = all * x1 + (x5 - sum * x3);
    }
}

/* v = A v, outputs to points: the polynomial with these coefficients at the points. */
INLINE void winograd_a(V *v, const int P)
{
    const V a2 = v_set1(WINOGRAD_A * WINOGRAD_A), b2 = v_set1(WINOGRAD_B * WINOGRAD_B);
    if (P == 4) {
        const V x0 = v[0], x1 = v[1];
        v[1] = x0 + x1;
        v[2] = x0 - x1;
        v[3] = x1;
    } else if (P == 6) {
        const V x0 = v[0], x1 = v[1], x2 = v[2], x3 = v[3];
        const V even_a = x0 + a2 * x2, odd_a = x1 + a2 * x3, even_b = x0 + b2 * x2, odd_b = x1 + b2 * x3;
        v[1] = even_a + v_set1(WINOGRAD_A) * odd_a;
        v[2] = even_a - v_set1(WINOGRAD_A) * odd_a;
        v[3] = even_b + v_set1(WINOGRAD_B) * odd_b;
        v[4] = even_b - v_set1(WINOGRAD_B) * odd_b;
        v[5] = x3;
    }
}

/* v = A' v, points to outputs. */
INLINE void winograd_a_transposed(V *v, const int P)
{
    const T a = WINOGRAD_A, b = WINOGRAD_B;
    if (P == 4) {
        const V sum = v[1] + v[2], difference = v[1] - v[2];
        v[0] = v[0] + sum;
        v[1] = difference + v[3];
    } else if (P == 6) {
        const V sum_a = v[1] + v[2], difference_a = v[1] - v[2], sum_b = v[3] + v[4], difference_b = v[3] - v[4];
        v[0] = (v[0] + sum_a) + sum_b;
        v[1] = v_set1(a) * difference_a + v_set1(b) * difference_b;
        v[2] = v_set1(a * a) * sum_a + v_set1(b * b) * sum_b;
        v[3] = v_set1(a * a * a) * difference_a + (v_set1(b * b * b) * difference_b + v[5]);
    }
}

#define WINOGRAD_OUTPUTS(P) ((P) == 1 ? 1 : (P) - 2)

/* One vector of columns. The height plane by plane, then the depth; whole: no column is outside. */
INLINE void winograd_forward_columns(const struct ogp_winograd *m, int64_t i, const int D, const int H,
                                     const int spread, const int whole)
{
    const int ND = spread ? WINOGRAD_OUTPUTS(D) : D, NH = spread ? WINOGRAD_OUTPUTS(H) : H;
    V between[6 * 6];
    UNROLL
    for (int pair = 0; pair < ND; pair += 2) {
        V loud[3] = {v_zero(), v_zero(), v_zero()};
        UNROLL
        for (int k = 0; k < 2; k++) {
            const int d = pair + k;
            V v[6];
            if (d >= ND)
                break;
            UNROLL
            for (int h = 0; h < NH; h++) {
                const T *const row = (const T *)m->rows[d * NH + h] + i;
                v[h] = v_keep(whole ? v_load(row) : v_load_between(row, m->lo - i, m->hi - i));
                loud[h / 2] += v_magnitude(v[h]);
            }
            if (spread)
                winograd_a(v, H);
            else
                winograd_b(v, H);
            UNROLL
            for (int h = 0; h < H; h++)
                between[d * H + h] = v[h];
        }
        UNROLL
        for (int s = 0; s < (NH + 1) / 2; s++) {
            T *const to = (T *)m->loud + (pair / 2 * ((NH + 1) / 2) + s) * m->loud_step + i;
            v_store(to, v_load(to) + loud[s]);
        }
    }
    UNROLL
    for (int h = 0; h < H; h++) {
        V v[6];
        UNROLL
        for (int d = 0; d < ND; d++)
            v[d] = between[d * H + h];
        if (spread)
            winograd_a(v, D);
        else
            winograd_b(v, D);
        UNROLL
        for (int d = 0; d < D; d++)
            v_store((T *)m->bins + (d * H + h) * m->bin + i, v[d]);
    }
}

INLINE void winograd_forward_body(const struct ogp_winograd *m, const int D, const int H, const int spread)
{
    for (int64_t i = 0; i < m->vectors * LANES; i += LANES)
        if (i >= m->lo && i + LANES <= m->hi)
            winograd_forward_columns(m, i, D, H, spread, 1);
        else
            winograd_forward_columns(m, i, D, H, spread, 0);
}

INLINE void winograd_inverse_body(const struct ogp_winograd *m, const int D, const int H)
{
    const int TD = WINOGRAD_OUTPUTS(D), TH = WINOGRAD_OUTPUTS(H);
    const V bias = v_set1((T)m->bias);
    for (int64_t i = 0; i < m->vectors * LANES; i += LANES) {
        V between[4 * 6];
        UNROLL
        for (int h = 0; h < H; h++) {
            V v[6];
            UNROLL
            for (int d = 0; d < D; d++)
                v[d] = v_load((const T *)m->bins + (d * H + h) * m->bin + i);
            winograd_a_transposed(v, D);
            UNROLL
            for (int d = 0; d < TD; d++)
                between[d * H + h] = v[d];
        }
        UNROLL
        for (int d = 0; d < TD; d++) {
            V v[6];
            UNROLL
            for (int h = 0; h < H; h++)
                v[h] = between[d * H + h];
            winograd_a_transposed(v, H);
            UNROLL
            for (int h = 0; h < TH; h++)
                v_store((T *)(uintptr_t)m->rows[d * TH + h] + i, v[h] + bias);
        }
    }
}

/* What lies between two rows of one vector of columns: the loudest and the quietest of all segments. */
INLINE void loudness_columns(const struct ogp_loudness *m, int64_t i, V *total, V_int *zeros)
{
    const V_int lane = {LANE_NUMBERS}, from = {LANES_OF((TINT)(m->lo - i))}, until = {LANES_OF((TINT)(m->hi - i))};
    const V_int inside = (lane >= from) & (lane < until);
    const V infinite = v_set1((T)__builtin_inf());
    T *const loud = (T *)m->loud + i;
    V most = v_zero(), least = infinite;
    for (int64_t s = 0; s < m->segments; s++) {
        const V v = v_load(loud + s * m->step);
        const V_int zero = v == v_zero();
        const TINT expected = -(TINT)(m->expected >> s & 1);
        *total += v;
        most = v_larger(v, most);
        least = v_smaller(v_where(zero, infinite, v), least);
        *zeros |= zero & inside & (V_int){LANES_OF(expected)};
    }
    v_store(loud, most);
    v_store(loud + m->step, least);
}

static void loudness(struct ogp_loudness *m)
{
    const int64_t columns = m->vectors * LANES;
    const V infinite = v_set1((T)__builtin_inf()), contrast = v_set1((T)m->contrast);
    T *const loud = m->loud, *const quiet = loud + m->step;
    V total = v_zero(), loudest = v_zero(), quietest = infinite;
    V_int zeros = {0}, stark = {0};
    for (int64_t i = 0; i < columns; i += LANES)
        loudness_columns(m, i, &total, &zeros);
    v_store(loud + columns, v_zero());
    v_store(quiet + columns, infinite);
    for (int64_t i = 0; i < columns; i += LANES) {
        V most = v_load(loud + i), least = v_load(quiet + i);
        loudest = v_larger(most, loudest);
        quietest = v_smaller(least, quietest);
        for (int64_t t = 1; t < m->window && t <= LANES; t++) {
            most = v_larger(v_load(loud + i + t), most);
            least = v_smaller(v_load(quiet + i + t), least);
        }
        stark |= most > contrast * least;
    }
    const T check = v_total(total);
    T most = loudest[0], least = quietest[0];
    for (int k = 1; k < LANES; k++) {
        most = loudest[k] > most ? loudest[k] : most;
        least = quietest[k] < least ? quietest[k] : least;
    }
    m->loudest = check - check == 0 ? (double)most : __builtin_inf();
    m->quietest = (double)least;
    m->stark = v_bits(stark) != 0;
    m->zeros = v_bits(zeros) != 0;
}
