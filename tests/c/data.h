/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of known content: seeded values in strided views of buffers that notice stray accesses. */
#ifndef OGP_TESTS_DATA_H
#define OGP_TESTS_DATA_H

#include <stddef.h>

#include "ogp/conv3d.h"

enum view {
    VIEW_NCDHW,
    VIEW_NDHWC,
    VIEW_PITCHED,  /* gaps after rows and planes; absurd strides on axes of extent 1 */
    VIEW_STEPPED,  /* every second element of a row */
    VIEW_PERMUTED, /* width outermost */
    VIEW_REVERSED, /* negative strides on depth and width */
    VIEW_EXPANDED, /* stride 0 on batch and height: inputs only */
    VIEW_COUNT
};

/* FILL_INTEGERS: sparse, -2..2: sums of fewer than 2^22 products are exact in f32. FILL_UNIFORM: [-1, 1). */
enum fill { FILL_INTEGERS, FILL_UNIFORM };

/* Bytes around the elements. Stray reads meet NaN, stray writes are seen afterwards; an output may not use NaN, because
 * adding to one keeps its bits. */
enum { GUARD_INPUT = 0xFF, GUARD_OUTPUT = 0x99 };

struct tensor {
    enum ogp_dtype dtype;
    int64_t extent[5], stride[5];
    unsigned char *memory; /* the whole allocation, guard bands included */
    size_t bytes;
    unsigned char *first; /* the element at 0 0 0 0 0 */
    int guard;
};

struct tensor tensor_make(enum ogp_dtype dtype, const int64_t extent[5], enum view view, int guard);
void tensor_free(struct tensor *t);

int64_t tensor_count(const struct tensor *t);
double tensor_get(const struct tensor *t, int64_t index); /* index in dense order */
void tensor_set(struct tensor *t, int64_t index, double value);
void tensor_set_all(struct tensor *t, double value);
void tensor_fill(struct tensor *t, enum fill fill, uint64_t seed);
size_t tensor_item(const struct tensor *t); /* bytes of an element */

/* Copies the elements out in dense order: their values, their bits. */
void tensor_values(const struct tensor *t, double *values);
void tensor_bits(const struct tensor *t, void *bits);

/* Whether all bytes that belong to no element still hold the guard byte. Wipes the elements. */
int tensor_guards_intact(struct tensor *t);

/* A fingerprint of all bytes, to see that an input stays as it was. */
uint64_t tensor_hash(const struct tensor *t);

struct ogp_input tensor_input(const struct tensor *t);
struct ogp_output tensor_output(const struct tensor *t);

uint64_t mix(uint64_t seed, uint64_t value); /* a hash: the source of all pseudo-random choices */

/* A workspace of exactly `bytes` bytes, odd in its address, filled with NaN, between guard bands. */
struct scratch {
    unsigned char *memory;
    void *data;
    size_t bytes;
};
struct scratch scratch_make(size_t bytes);
int scratch_intact(const struct scratch *s);
void scratch_free(struct scratch *s);

#endif
