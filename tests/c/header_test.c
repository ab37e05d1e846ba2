/* SPDX-License-Identifier: Apache-2.0 */
/* The public header stands alone, may come twice, and its text buffers and sizes are what it says. */
#include "ogp/conv3d.h"
#include "ogp/conv3d.h"

_Static_assert(sizeof(struct ogp_error) == 512, "size and text fill 512 bytes");
_Static_assert(offsetof(struct ogp_problem, size) == 0 && offsetof(struct ogp_options, size) == 0 &&
                   offsetof(struct ogp_run, size) == 0 && offsetof(struct ogp_error, size) == 0,
               "structs begin with their size");

int main(void)
{
    return 0;
}
