/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* madvise */
#include "pages.h"

#include <stdint.h>
#include <sys/mman.h>

void ogp_pages_advise(void *data, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    const size_t least = (size_t)8 << 20, huge = (size_t)2 << 20;
    if (bytes < least)
        return;
    const uintptr_t first = ((uintptr_t)data + huge - 1) / huge * huge, last = ((uintptr_t)data + bytes) / huge * huge;
    (void)madvise((void *)first, last - first, MADV_HUGEPAGE);
#else
    (void)data;
    (void)bytes;
#endif
}
