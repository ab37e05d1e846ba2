/* SPDX-License-Identifier: Apache-2.0 */
#include "transform.h"

static int64_t window(int64_t out, int64_t taps)
{
    return out + taps - 1;
}

const struct transform ogp_transform_identity = {"identity", window, 0};
