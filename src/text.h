/* SPDX-License-Identifier: Apache-2.0 */
/* Appending to a bounded text, with the length that the whole needs (as snprintf counts it). */
#ifndef OGP_TEXT_H
#define OGP_TEXT_H

#include <stddef.h>

#include "ogp/conv3d.h"

struct text {
    char *out;
    size_t bytes, length;
};

__attribute__((format(printf, 2, 3))) void ogp_text_add(struct text *t, const char *format, ...);

#endif
