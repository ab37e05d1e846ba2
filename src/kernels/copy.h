/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of what moves rows between a tensor and scratch. */

/* Every other element, whole vectors of them: two loads that end with the last one. Returns how many. */
INLINE int64_t gather_pairs(T *out, const T *in, int64_t n)
{
    const V_int lane = {LANE_NUMBERS}, from = lane * 2 + ((lane >= LANES / 2) & 1);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        v_store(out + i, v_shuffle_two(v_load(in + 2 * i), v_load(in + 2 * i + LANES - 1), from));
    return i;
}

static void gather(void *out, const void *in, int64_t step, int64_t n)
{
    T *const o = out;
    const T *const a = in;
    if (step == 1)
        for (int64_t i = 0; i < n; i++)
            o[i] = a[i];
    else if (step == 2)
        for (int64_t i = gather_pairs(o, a, n); i < n; i++)
            o[i] = a[2 * i];
    else
        for (int64_t i = 0; i < n; i++)
            o[i] = a[i * step];
}

static void copy_rows(void *out, int64_t out_step, const void *in, int64_t in_step, int64_t rows, int64_t vectors)
{
    T *o = out;
    const T *a = in;
    for (; rows > 0; rows--, o += out_step, a += in_step)
        for (int64_t i = 0; i < vectors * LANES; i += LANES)
            v_store(o + i, v_load(a + i));
}

static void pad_rows(void *out, int64_t out_step, const void *in, int64_t in_step, int64_t rows, int64_t before,
                     int64_t n, int64_t vectors)
{
    T *o = out;
    const T *a = in;
    for (; rows > 0; rows--, o += out_step, a += in_step)
        for (int64_t i = 0; i < vectors * LANES; i += LANES) {
            const int whole = i >= before && i + LANES <= before + n;
            const T *const from = a + (i - before);
            v_store(o + i, whole ? v_load(from) : v_load_between(from, before - i, before + n - i));
        }
}

INLINE void unpack_row(T *out, const T *in, int64_t n, V bias, int accumulate)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        v_store(out + i, accumulate ? v_load(out + i) + (v_load(in + i) + bias) : v_load(in + i) + bias);
    if (i < n && n > LANES && !accumulate) /* some elements twice */
        v_store(out + n - LANES, v_load(in + n - LANES) + bias);
    else
        for (; i < n; i++)
            out[i] = accumulate ? out[i] + (in[i] + bias[0]) : in[i] + bias[0];
}

static void unpack_rows(void *out, int64_t out_step, const void *in, int64_t in_step, int64_t rows, int64_t n,
                        double bias, int accumulate)
{
    T *o = out;
    const T *a = in;
    const V b = v_set1((T)bias);
    for (; rows > 0; rows--, o += out_step, a += in_step)
        if (accumulate)
            unpack_row(o, a, n, b, 1);
        else
            unpack_row(o, a, n, b, 0);
}

INLINE void scatter_steps(T *out, int64_t step, const T *in, int64_t n, T bias, int accumulate)
{
    if (accumulate)
        for (int64_t i = 0; i < n; i++)
            out[i * step] += in[i] + bias;
    else
        for (int64_t i = 0; i < n; i++)
            out[i * step] = in[i] + bias;
}

static void scatter(void *out, int64_t step, const void *in, int64_t n, double bias, int accumulate)
{
    if (step == 1)
        scatter_steps(out, 1, in, n, (T)bias, accumulate);
    else
        scatter_steps(out, step, in, n, (T)bias, accumulate);
}

INLINE void interleave_columns(T *out, const T *even, const T *odd, V bias, int accumulate)
{
    const V_int lane = {LANE_NUMBERS}, low = lane / 2 + (lane & 1) * LANES;
    const V e = v_load(even), o = v_load(odd);
    const V first = v_shuffle_two(e, o, low) + bias, second = v_shuffle_two(e, o, low + LANES / 2) + bias;
    v_store(out, accumulate ? v_load(out) + first : first);
    v_store(out + LANES, accumulate ? v_load(out + LANES) + second : second);
}

static void interleave(void *out, const void *even, const void *odd, int64_t n, double bias, int accumulate)
{
    const V b = v_set1((T)bias);
    T *const o = out;
    const T *const a = even, *const c = odd;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        interleave_columns(o + 2 * i, a + i, c + i, b, accumulate);
    if (i < n && n > LANES && !accumulate) { /* some elements twice */
        interleave_columns(o + 2 * (n - LANES), a + n - LANES, c + n - LANES, b, 0);
        return;
    }
    scatter_steps(o + 2 * i, 2, a + i, n - i, b[0], accumulate);
    scatter_steps(o + 2 * i + 1, 2, c + i, n - i, b[0], accumulate);
}

static void scatter_f64(void *out, int64_t step, const double *in, int64_t n, int accumulate)
{
    T *const o = out;
    for (int64_t i = 0; i < n; i++)
        o[i * step] = (T)(accumulate ? (double)o[i * step] + in[i] : in[i]);
}

static void add_at(void *out, const int64_t *place, const void *in, int64_t n)
{
    T *const o = out;
    const T *const a = in;
    for (int64_t i = 0; i < n; i++)
        o[place[i]] += a[i];
}

INLINE double sum_steps(const T *in, int64_t step, int64_t n)
{
    double part[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int v = 0; v < 8; v++)
            part[v] += (double)in[(i + v) * step];
    for (int v = 0; i < n; i++, v++)
        part[v] += (double)in[i * step];
    return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

static double sum(const void *in, int64_t step, int64_t n)
{
    return step == 1 ? sum_steps(in, 1, n) : sum_steps(in, step, n);
}
