/* SPDX-License-Identifier: Apache-2.0 */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

#include "util.h"

enum ogp_status ogp_fail(struct ogp_error *error, enum ogp_status status, const char *format, ...)
{
    if (!error || error->size <= offsetof(struct ogp_error, text))
        return status;
    const size_t room = (size_t)ogp_min(error->size, (int64_t)sizeof *error) - offsetof(struct ogp_error, text);
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, room, format, args);
    va_end(args);
    return status;
}

const char *ogp_status_text(enum ogp_status status)
{
    static const char *const text[] = {
        [OGP_OK] = "ok",
        [OGP_BAD_ARG] = "bad argument",
        [OGP_BAD_SHAPE] = "bad shape",
        [OGP_TOO_LARGE] = "too large",
        [OGP_NO_MEMORY] = "out of memory",
        [OGP_NOT_APPLICABLE] = "not applicable",
        [OGP_CANCELLED] = "cancelled",
    };
    const size_t at = (size_t)status;
    return at < OGP_COUNT(text) ? text[at] : "unknown status";
}
