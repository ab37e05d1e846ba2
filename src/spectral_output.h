/* SPDX-License-Identifier: Apache-2.0 */
/* From spectra to outputs: the height transformed back, muted outputs set to the bias, rows written. */
#ifndef OGP_SPECTRAL_OUTPUT_H
#define OGP_SPECTRAL_OUTPUT_H

#include "spectral_task.h"

/* Whether the chunk has outputs whose window is zero in every input channel; which, in the task's window bits. */
bool ogp_spectral_find_muted(struct spectral_task *task);

/* Adds the planes that fold, at height bin h, to those they fold onto. Folding is linear: it may come before the height
 * is transformed back. */
void ogp_spectral_fold_depth(const struct spectral_task *task, int64_t out_channel, int64_t h);

/* Asks for plane d of an output channel before it is written, unless it goes past the caches. */
void ogp_spectral_foresee(const struct spectral_task *task, int64_t out_channel, int64_t d);

/* Writes the chunk of all output channels, but for the ends of rows that the next chunk or ogp_spectral_end_rows
 * writes. */
void ogp_spectral_write(struct spectral_task *task);
void ogp_spectral_end_rows(struct spectral_task *task);

#endif
