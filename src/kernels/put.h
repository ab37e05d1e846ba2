/* SPDX-License-Identifier: Apache-2.0 */
/* Body of `put`. A line that is written in two halves is fetched twice and written back twice; one that is written
 * whole, and past the caches, is never fetched. */

enum { LINE = 64 / sizeof(T), LINE_VECTORS = LINE / LANES };

INLINE void put_lines(T *out, const T *in, int64_t lines, const int stream)
{
    for (; lines > 0; lines--, out += LINE, in += LINE) {
        V v[LINE_VECTORS];
        UNROLL
        for (int k = 0; k < LINE_VECTORS; k++)
            v[k] = v_load(in + k * LANES);
        UNROLL
        for (int k = 0; k < LINE_VECTORS; k++)
            (stream ? v_stream : v_store)(out + k * LANES, v[k]);
    }
}

INLINE void put_row(T *out, const T *in, T *carry, const struct ogp_put *p)
{
    const int64_t into = (int64_t)((uintptr_t)out / sizeof(T) % LINE); /* elements of the line before out */
    const int64_t head = into > p->before ? LINE - into : 0;           /* of a line that begins before the row does */
    const int64_t first = head ? head : -into, lines = p->n > first ? (p->n - first) / LINE : 0;
    const int64_t last = first + lines * LINE;
    for (int64_t i = 0; i < head && i < p->n; i++)
        out[i] = in[i];
    if (p->stream)
        put_lines(out + first, in + first, lines, 1);
    else
        put_lines(out + first, in + first, lines, 0);
    for (int64_t i = last; p->ends && i < p->n; i++)
        out[i] = in[i];
    if (!p->ends)
        __builtin_memcpy(carry, in + p->n - LINE, LINE * sizeof(T));
}

static void put(const struct ogp_put *p)
{
    T *const in = p->in, *const carry = p->carry;
    for (int64_t r = 0; r < p->rows && p->before > 0; r++)
        __builtin_memcpy(in + r * p->in_step - LINE, carry + r * LINE, LINE * sizeof(T));
    for (int64_t r = 0; r < p->rows; r++)
        put_row((T *)p->out + r * p->out_step, in + r * p->in_step, carry + r * LINE, p);
    if (p->stream)
        v_stream_end();
}
