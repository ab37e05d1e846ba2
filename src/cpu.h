/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernel tables this CPU and its operating system can run. */
#ifndef OGP_CPU_H
#define OGP_CPU_H

#include "kernels/kernels.h"
#include "ogp/conv3d.h"

/* The table of an ISA by name, or for NULL the best one under the cap of OGP_ISA (read once). NULL where the name is
 * unknown to this build or the CPU cannot run it. */
const struct ogp_kernels *ogp_cpu_kernels(const char *isa, enum ogp_dtype dtype);

/* Bytes of a core's second-level cache: half a MiB where the system does not say. */
int64_t ogp_cpu_cache_bytes(void);

#endif
