/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the caller's tensors: addresses, strides, overlap. */
#ifndef OGP_TENSOR_H
#define OGP_TENSOR_H

#include "ogp/conv3d.h"

/* A tensor argument as the checks see it. */
struct tensor {
    const char *name;
    const void *data;
    const int64_t *stride;
    int64_t extent[5];
    int axes;
};

/* Null data (of a tensor that has elements), offsets beyond 63 bits; of an output also elements that may coincide. */
enum ogp_status ogp_tensor_check(const struct tensor *t, int64_t element_bytes, int is_output,
                                 struct ogp_error *error);

/* Refuses an output and another tensor whose ranges of addresses meet. */
enum ogp_status ogp_tensor_apart(const struct tensor *output, const struct tensor *other, int64_t element_bytes,
                                 struct ogp_error *error);

#endif
