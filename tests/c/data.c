/* SPDX-License-Identifier: Apache-2.0 */
#include "data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "testlib.h"

enum { BAND = 256 }; /* bytes of a guard band: wider than any vector and its unrolling */

uint64_t mix(uint64_t seed, uint64_t value)
{
    uint64_t z = seed * 0x9E3779B97F4A7C15u + value + 0x632BE59BD9B4E019u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* ---- views ---- */

struct shape {
    int order[5];       /* axes from outermost to innermost */
    int64_t storage[5]; /* extents in memory, per axis */
    int64_t step[5];    /* elements of storage from one to the next; 0 expands, negative reverses */
};

static struct shape view_shape(enum view view, const int64_t extent[5])
{
    struct shape s = {{0, 1, 2, 3, 4}, {0}, {1, 1, 1, 1, 1}};
    memcpy(s.storage, extent, sizeof s.storage);
    switch (view) {
    case VIEW_NDHWC:
        memcpy(s.order, (const int[5]){0, 2, 3, 4, 1}, sizeof s.order);
        break;
    case VIEW_PITCHED:
        s.storage[1] += 1;
        s.storage[3] += 2;
        s.storage[4] += 3;
        break;
    case VIEW_STEPPED:
        s.storage[4] *= 2;
        s.step[4] = 2;
        break;
    case VIEW_PERMUTED:
        memcpy(s.order, (const int[5]){4, 2, 0, 3, 1}, sizeof s.order);
        break;
    case VIEW_REVERSED:
        s.step[2] = s.step[4] = -1;
        break;
    case VIEW_EXPANDED:
        s.storage[0] = s.storage[3] = 1;
        s.step[0] = s.step[3] = 0;
        break;
    case VIEW_NCDHW:
    case VIEW_COUNT:
        break;
    }
    return s;
}

struct tensor tensor_make(enum ogp_dtype dtype, const int64_t extent[5], enum view view, int guard)
{
    struct tensor t = {.dtype = dtype, .guard = guard};
    const struct shape s = view_shape(view, extent);
    int64_t pitch = 1, first = 0;
    memcpy(t.extent, extent, sizeof t.extent);
    for (int i = 4; i >= 0; i--) {
        const int a = s.order[i];
        t.stride[a] = pitch * s.step[a];
        if (s.step[a] < 0 && extent[a] > 0)
            first += (extent[a] - 1) * pitch;
        if (view == VIEW_PITCHED && extent[a] == 1)
            t.stride[a] = INT64_MIN + a; /* ignored, says the contract */
        pitch *= s.storage[a];
    }
    const size_t item = tensor_item(&t), skew = view == VIEW_NCDHW ? 0 : item; /* dense ones start on a cache line */
    t.bytes = 2 * BAND + (size_t)pitch * item + skew;
    t.bytes = (t.bytes + 63) & ~(size_t)63;
    t.memory = aligned_alloc(64, t.bytes);
    if (!t.memory)
        exit(2);
    memset(t.memory, guard, t.bytes);
    t.first = t.memory + BAND + skew + (size_t)first * item;
    return t;
}

void tensor_free(struct tensor *t)
{
    free(t->memory);
    *t = (struct tensor){0};
}

size_t tensor_item(const struct tensor *t)
{
    return t->dtype == OGP_F64 ? sizeof(double) : sizeof(float);
}

int64_t tensor_count(const struct tensor *t)
{
    return extents_count(t->extent);
}

/* ---- elements ---- */

static unsigned char *element(const struct tensor *t, int64_t index)
{
    int64_t at = 0;
    for (int a = 4; a >= 0; a--) {
        if (t->extent[a] > 1)
            at += index % t->extent[a] * t->stride[a];
        index /= t->extent[a];
    }
    return t->first + at * (int64_t)tensor_item(t);
}

/* Bytes from an element to the next of its row. */
static int64_t row_step(const struct tensor *t)
{
    return t->extent[4] > 1 ? t->stride[4] * (int64_t)tensor_item(t) : 0;
}

static double value_at(const struct tensor *t, const unsigned char *at)
{
    return t->dtype == OGP_F64 ? *(const double *)(const void *)at : (double)*(const float *)(const void *)at;
}

static void put_at(const struct tensor *t, unsigned char *at, double value)
{
    if (t->dtype == OGP_F64)
        *(double *)(void *)at = value;
    else
        *(float *)(void *)at = (float)value;
}

double tensor_get(const struct tensor *t, int64_t index)
{
    return value_at(t, element(t, index));
}

void tensor_set(struct tensor *t, int64_t index, double value)
{
    put_at(t, element(t, index), value);
}

void tensor_set_all(struct tensor *t, double value)
{
    const int64_t count = tensor_count(t), step = row_step(t);
    for (int64_t i = 0; i < count; i += t->extent[4]) {
        unsigned char *const row = element(t, i);
        for (int64_t w = 0; w < t->extent[4]; w++)
            put_at(t, row + w * step, value);
    }
}

void tensor_fill(struct tensor *t, enum fill fill, uint64_t seed)
{
    static const double sparse[8] = {0, 1, 0, -1, 2, 0, -2, 1};
    const int64_t count = tensor_count(t);
    for (int64_t i = 0; i < count; i++) {
        const uint64_t h = mix(seed, (uint64_t)i);
        tensor_set(t, i, fill == FILL_INTEGERS ? sparse[h % 8] : (double)(h >> 11) * 0x1p-52 - 1);
    }
}

void tensor_values(const struct tensor *t, double *values)
{
    const int64_t count = tensor_count(t), step = row_step(t);
    for (int64_t i = 0; i < count; i += t->extent[4]) {
        const unsigned char *const row = element(t, i);
        for (int64_t w = 0; w < t->extent[4]; w++)
            values[i + w] = value_at(t, row + w * step);
    }
}

void tensor_bits(const struct tensor *t, void *bits)
{
    const int64_t count = tensor_count(t), step = row_step(t);
    const size_t item = tensor_item(t);
    unsigned char *out = bits;
    for (int64_t i = 0; i < count; i += t->extent[4]) {
        const unsigned char *const row = element(t, i);
        for (int64_t w = 0; w < t->extent[4]; w++, out += item)
            memcpy(out, row + w * step, item);
    }
}

static int all_bytes(const unsigned char *at, size_t bytes, int value)
{
    return bytes == 0 || (at[0] == value && memcmp(at, at + 1, bytes - 1) == 0);
}

int tensor_guards_intact(struct tensor *t)
{
    const int64_t count = tensor_count(t), step = row_step(t);
    for (int64_t i = 0; i < count; i += t->extent[4]) {
        unsigned char *const row = element(t, i);
        for (int64_t w = 0; w < t->extent[4]; w++)
            memset(row + w * step, t->guard, tensor_item(t));
    }
    return all_bytes(t->memory, t->bytes, t->guard);
}

uint64_t tensor_hash(const struct tensor *t)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < t->bytes; i += 8) {
        uint64_t word;
        memcpy(&word, t->memory + i, 8);
        hash = mix(hash, word);
    }
    return hash;
}

struct ogp_input tensor_input(const struct tensor *t)
{
    struct ogp_input in = {.data = t->first};
    memcpy(in.stride, t->stride, sizeof in.stride);
    return in;
}

struct ogp_output tensor_output(const struct tensor *t)
{
    struct ogp_output out = {.data = t->first};
    memcpy(out.stride, t->stride, sizeof out.stride);
    return out;
}

/* ---- workspace ---- */

struct scratch scratch_make(size_t bytes)
{
    struct scratch s = {.memory = test_alloc(bytes + 2 * BAND + 1), .bytes = bytes};
    memset(s.memory, GUARD_OUTPUT, bytes + 2 * BAND + 1);
    s.data = s.memory + BAND + 1;
    memset(s.data, 0xFF, bytes);
    return s;
}

int scratch_intact(const struct scratch *s)
{
    return all_bytes(s->memory, BAND + 1, GUARD_OUTPUT) &&
           all_bytes(s->memory + BAND + 1 + s->bytes, BAND, GUARD_OUTPUT);
}

void scratch_free(struct scratch *s)
{
    free(s->memory);
    *s = (struct scratch){0};
}
