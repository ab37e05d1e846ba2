/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of `take` and `zeros`: from the tensor to scratch, and what is found on the way. */

/* What has been seen. Magnitudes are compared as integers, whose order is that of the floating point numbers they are;
 * those of infinities and of anything that is not a number come last. */
struct seen {
    V_int loudest, quietest; /* quietest: minus 1, and zero as the largest */
    V_int least;             /* sums of columns */
};

/* Each lane plus those a quarter, a half and three quarters of a vector further. */
INLINE V v_quarters(V v)
{
    const V_int lane = {LANE_NUMBERS};
    v += v_shuffle(v, (lane + LANES / 2) & (LANES - 1));
    return LANES >= 4 ? v + v_shuffle(v, (lane + LANES / 4) & (LANES - 1)) : v;
}

/* One vector of `rows` rows. whole: all lanes are read; otherwise lanes [lo, hi). */
INLINE void take_vector(const struct ogp_take *t, int64_t row, int64_t i, const int rows, const int whole,
                        struct seen *seen)
{
    const V_int sign = (V_int)v_set1((T)-0.0), lane = {LANE_NUMBERS};
    const int64_t lo = t->lo - i, hi = t->hi - i;
    V sum = v_zero();
    UNROLL
    for (int n = 0; n < rows; n++) {
        const T *const in = (const T *)t->in + t->offset[row + n] + i;
        const V v = whole ? v_load(in) : v_load_lanes(in, lo, hi);
        v_store((T *)t->out + (row + n) * t->step + i, v);
        sum += (V)((V_int)v & ~sign);
    }
    if (whole) {
        seen->least = v_lesser((V_int)sum, seen->least);
    } else {
        const V_int inside = (lane >= (V_int){LANES_OF((TINT)lo)}) & (lane < (V_int){LANES_OF((TINT)hi)});
        seen->least = v_lesser(((V_int)sum & inside) | (~inside & ~sign), seen->least);
    }
    const V_int segments = (V_int)v_quarters(sum);
    seen->loudest = v_greater(segments, seen->loudest);
    seen->quietest = v_lesser((segments - 1) & ~sign, seen->quietest);
}

INLINE void take_rows(const struct ogp_take *t, const int rows, struct seen *seen)
{
    const int64_t columns = t->vectors * LANES;
    for (int64_t n = 0; n < t->count; n += rows) {
        const int64_t row = n + rows <= t->count ? n : t->count - rows;
        for (int64_t i = 0; i < columns; i += LANES) {
            if (i >= t->lo && i + LANES <= t->hi)
                take_vector(t, row, i, rows, 1, seen);
            else
                take_vector(t, row, i, rows, 0, seen);
        }
    }
}

INLINE TINT bits_of(T value)
{
    TINT bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

INLINE T value_of(TINT bits)
{
    T value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

static void take(struct ogp_take *t)
{
    const TINT infinite = bits_of((T)__builtin_inf());
    const TINT none = ~bits_of((T)-0.0); /* the largest integer */
    struct seen seen = {{LANES_OF(bits_of((T)t->loudest))}, {LANES_OF(bits_of((T)t->quietest) - 1)}, {LANES_OF(none)}};
    if (t->group == 4 && t->count >= 4)
        take_rows(t, 4, &seen);
    else if (t->group >= 2 && t->count >= 2)
        take_rows(t, 2, &seen);
    else
        take_rows(t, 1, &seen);
    TINT loudest = seen.loudest[0], quietest = seen.quietest[0], least = seen.least[0];
    for (int v = 1; v < LANES; v++) {
        loudest = seen.loudest[v] > loudest ? seen.loudest[v] : loudest;
        quietest = seen.quietest[v] < quietest ? seen.quietest[v] : quietest;
        least = seen.least[v] < least ? seen.least[v] : least;
    }
    t->loudest = loudest < infinite ? (double)value_of(loudest) : __builtin_inf();
    t->quietest = quietest < infinite ? (double)value_of(quietest + 1) : __builtin_inf();
    t->zeros |= least == 0;
}

static uint64_t zeros(const void *in, int64_t n)
{
    uint64_t bits = 0;
    for (int64_t i = 0; i < n; i += LANES)
        bits |= v_bits(v_load((const T *)in + i) == v_zero()) << i;
    return n < 64 ? bits & (((uint64_t)1 << n) - 1) : bits;
}
