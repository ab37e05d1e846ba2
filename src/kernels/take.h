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

/* A segment of `rows` rows from row on: whole vectors, and those of which lanes [lo, hi) of the row are read. */
INLINE void take_segment(const struct ogp_take *t, int64_t row, const int rows, V_int *loudest, V_int *quietest,
                         V_int *least)
{
    const int64_t columns = t->vectors * LANES, lo = t->lo, hi = t->hi, step = t->step;
    const V_int lane = {LANE_NUMBERS}, none = ~(V_int)v_set1((T)-0.0);
    const T *in[4];
    T *const out = (T *)t->out + row * step, *const sums = (T *)t->sums + (row + rows - 1) / rows * columns;
    const int joins = t->joins, judges = t->judges;
    UNROLL
    for (int n = 0; n < rows; n++)
        in[n] = (const T *)t->in + t->offset[row + n];
    for (int64_t i = 0; i < columns; i += LANES) {
        const int whole = i >= lo && i + LANES <= hi;
        V sum = v_zero();
        UNROLL
        for (int n = 0; n < rows && whole; n++) {
            const V v = v_load(in[n] + i);
            v_store(out + n * step + i, v);
            sum += v_magnitude(v);
        }
        UNROLL
        for (int n = 0; n < rows && !whole; n++) {
            const V v = v_load_between(in[n] + i, lo - i, hi - i);
            v_store(out + n * step + i, v);
            sum += v_magnitude(v);
        }
        const V plane = sum;
        if (joins)
            sum += v_load(sums + i);
        v_store(sums + i, plane);
        if (!judges)
            continue;
        const V_int inside = (lane >= (V_int){LANES_OF((TINT)(lo - i))}) & (lane < (V_int){LANES_OF((TINT)(hi - i))});
        const V_int segments = (V_int)v_quarters(sum);
        *least = v_lesser(whole ? (V_int)sum : ((V_int)sum & inside) | (none & ~inside), *least);
        *loudest = v_greater(segments, *loudest);
        *quietest = v_lesser((segments - 1) & none, *quietest);
    }
}

INLINE void take_rows(const struct ogp_take *t, const int rows, struct seen *seen)
{
    V_int loudest = seen->loudest, quietest = seen->quietest,
          least = seen->least; /* a structure would stay in memory */
    for (int64_t n = 0; n < t->count; n += rows)
        take_segment(t, n + rows <= t->count ? n : t->count - rows, rows, &loudest, &quietest, &least);
    *seen = (struct seen){loudest, quietest, least};
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

INLINE TINT largest(V_int v)
{
    const V_int lane = {LANE_NUMBERS};
    UNROLL
    for (int half = LANES / 2; half > 0; half /= 2)
        v = v_greater((V_int)v_shuffle((V)v, lane ^ half), v);
    return v[0];
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
    const TINT loudest = largest(seen.loudest), quietest = ~largest(~seen.quietest), least = ~largest(~seen.least);
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
