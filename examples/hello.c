/* SPDX-License-Identifier: Apache-2.0 */
/* A 3 x 3 x 3 box sum over a volume of ones: fill a problem, plan it, execute the plan. */
#include <ogp/conv3d.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    enum { N = 4, K = 3 };
    float x[N * N * N], w[K * K * K], y[N * N * N];
    for (int i = 0; i < N * N * N; i++)
        x[i] = 1;
    for (int i = 0; i < K * K * K; i++)
        w[i] = 1;

    const struct ogp_problem problem = {.size = sizeof problem, .n = 1, .ci = 1, .co = 1, .in = {N, N, N},
                                        .kernel = {K, K, K}, .pad_lo = {1, 1, 1}, .pad_hi = {1, 1, 1}};
    struct ogp_error error = {.size = sizeof error};
    ogp_plan *plan;
    enum ogp_status status = ogp_plan_create(&plan, &problem, OGP_FORWARD, NULL, &error);
    if (status == OGP_OK) {
        const size_t bytes = ogp_plan_workspace_bytes(plan, 1);
        const struct ogp_run run = {.size = sizeof run, .workspace = malloc(bytes), .workspace_bytes = bytes};
        const struct ogp_input in = {x, {N * N * N, N * N * N, N * N, N, 1}};
        const struct ogp_input weight = {w, {K * K * K, K * K * K, K * K, K, 1}};
        const struct ogp_output out = {y, {N * N * N, N * N * N, N * N, N, 1}};
        status = ogp_forward(plan, &in, &weight, NULL, &out, &run, &error);
        free(run.workspace);
        ogp_plan_destroy(plan);
    }
    if (status != OGP_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    printf("ogp %s: %g at a corner, %g inside\n", ogp_version(), y[0], y[N * N + N + 1]);
    return 0;
}
