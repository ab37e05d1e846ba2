/* SPDX-License-Identifier: Apache-2.0 */
/* A cursor over a block of workspace: the same calls measure it (base NULL) and carve it, so the two cannot drift. */
#ifndef OGP_ARENA_H
#define OGP_ARENA_H

#include <stddef.h>
#include <stdint.h>

enum { OGP_ALIGN = 64 }; /* a cache line, and the widest vector */

struct arena {
    char *base;   /* NULL: only measure */
    size_t bytes; /* taken so far */
};

/* The next `bytes`, aligned to OGP_ALIGN if base is; NULL when measuring. */
static inline void *arena_take(struct arena *a, size_t bytes)
{
    void *const piece = a->base ? a->base + a->bytes : NULL;
    a->bytes += (bytes + OGP_ALIGN - 1) / OGP_ALIGN * OGP_ALIGN;
    return piece;
}

#endif
