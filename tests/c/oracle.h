/* SPDX-License-Identifier: Apache-2.0 */
/* The definition of the convolution as plain loops in extended precision, and its adjoints by scattering: every term
 * w * x of the definition is visited once and added to whatever the pass computes. Knows nothing of the library but
 * its public structs. */
#ifndef OGP_TESTS_ORACLE_H
#define OGP_TESTS_ORACLE_H

#include "ogp/conv3d.h"

/* One output tensor in dense order (N C D H W or CO CI K K K). */
struct oracle {
    int64_t count;
    double *value;  /* the exact result, rounded once */
    double *mag;    /* sum of |product| over its terms: the scale of the error of any way to add them up */
    int64_t *terms; /* how many products */
};

/* in: the inputs of the pass in the order of the public functions (b may be NULL); out[0], and for the weight gradient
 * out[1] = gb. The problem must be one that ogp_output_extents accepts. Free with oracle_free. */
void oracle_run(const struct ogp_problem *problem, enum ogp_pass pass, const struct ogp_input *const in[3],
                struct oracle out[2]);
void oracle_free(struct oracle out[2]);

/* The input that position j of a padded axis shows, j counted from the first real element; -1 for a padded zero. */
int64_t oracle_source(enum ogp_padding padding, int64_t size, int64_t j);

#endif
