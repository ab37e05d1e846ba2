/* SPDX-License-Identifier: Apache-2.0 */
/* Failure messages: one line that names the argument, what was expected and what came. */
#ifndef OGP_ERROR_H
#define OGP_ERROR_H

#include "ogp/conv3d.h"

/* Writes the message into error, which may be NULL or smaller than the struct known here, and returns status. */
__attribute__((format(printf, 3, 4))) enum ogp_status ogp_fail(struct ogp_error *error, enum ogp_status status,
                                                                const char *format, ...);

#endif
