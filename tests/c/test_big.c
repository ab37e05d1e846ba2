/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors beyond 2^31 elements: reserved addresses, of which few are touched. Every configuration, every pass. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "oracle.h"
#include "testlib.h"

/* Addresses without memory behind them until they are written. NULL where the system refuses. */
static float *reserve(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        printf("  %zu bytes of addresses are not to be had here: skipped\n", bytes);
        return NULL;
    }
    return memory;
}

static int applies(const struct ogp_problem *p, enum ogp_pass pass, const char *config)
{
    const struct ogp_options options = {.size = sizeof options, .config = config};
    ogp_plan *plan = NULL;
    const enum ogp_status status = ogp_plan_create(&plan, p, pass, &options, NULL);
    ogp_plan_destroy(plan);
    return status != OGP_NOT_APPLICABLE;
}

/* ---- a dense input of more than 2^31 elements, seen through a stride ---- */

/* k1: output o is w * x[o * s]. Only those voxels are written. */
static void test_strided_window(const char *text)
{
    const struct ogp_problem p = problem_of(text);
    int64_t extent[5], out[5];
    role_extents(&p, ROLE_X, extent);
    role_extents(&p, ROLE_Y, out);
    const size_t bytes = (size_t)extents_count(extent) * sizeof(float);
    float *x = reserve(bytes);
    if (!x)
        return;
    struct operands forward, weight;
    const struct ogp_problem tiny = problem_of("i1 k1");
    operands_make(&forward, &tiny, OGP_FORWARD, 0, NULL, FILL_UNIFORM, 1); /* stand-ins for x, replaced at once */
    operands_make(&weight, &tiny, OGP_GRAD_WEIGHT, 0, NULL, FILL_UNIFORM, 1);
    struct tensor *const all[] = {&forward.in[1], &forward.out[0], &weight.in[1], &weight.out[0]};
    const enum role roles[] = {ROLE_W, ROLE_Y, ROLE_Y, ROLE_W};
    for (int i = 0; i < 4; i++) {
        int64_t e[5];
        role_extents(&p, roles[i], e);
        tensor_free(all[i]);
        *all[i] = tensor_make(OGP_F32, e, VIEW_NCDHW, GUARD_OUTPUT);
        tensor_fill(all[i], FILL_INTEGERS, (uint64_t)i);
    }
    struct tensor *const view = &forward.in[0];
    tensor_free(view);
    tensor_free(&weight.in[0]);
    *view = (struct tensor){.dtype = OGP_F32, .first = (unsigned char *)x};
    memcpy(view->extent, extent, sizeof extent);
    int64_t pitch = 1;
    for (int a = 4; a >= 0; pitch *= extent[a], a--)
        view->stride[a] = pitch;
    weight.in[0] = *view;

    const int64_t voxels = out[2] * out[3] * out[4];
    double *seen = test_alloc((size_t)(p.ci * voxels) * sizeof *seen), *gw = test_alloc((size_t)p.ci * sizeof *gw);
    for (int64_t c = 0; c < p.ci; c++) {
        gw[c] = 0;
        for (int64_t o = 0; o < voxels; o++) {
            const int64_t d = o / (out[3] * out[4]), h = o / out[4] % out[3], w = o % out[4];
            const int64_t at =
                ((c * extent[2] + d * p.stride[0]) * extent[3] + h * p.stride[1]) * extent[4] + w * p.stride[2];
            seen[c * voxels + o] = (double)(mix(9, (uint64_t)(c * voxels + o)) % 7) - 3;
            x[at] = (float)seen[c * voxels + o];
            gw[c] += seen[c * voxels + o] * tensor_get(&weight.in[1], o);
        }
    }
    for (int k = 0; k < config_count; k++) {
        const struct ogp_options options = {.size = sizeof options, .config = config_names[k]};
        if (applies(&p, OGP_FORWARD, config_names[k])) {
            tensor_set_all(&forward.out[0], NAN);
            compute(&p, OGP_FORWARD, &options, &forward, NULL);
            for (int64_t o = 0; o < voxels; o++) {
                double y = 0;
                for (int64_t c = 0; c < p.ci; c++)
                    y += tensor_get(&forward.in[1], c) * seen[c * voxels + o];
                if (!EXPECT(tensor_get(&forward.out[0], o) == y, "\"%s\" y %" PRId64 ": %g, expected %g", text, o,
                            tensor_get(&forward.out[0], o), y))
                    break;
            }
        }
        if (applies(&p, OGP_GRAD_WEIGHT, config_names[k])) {
            tensor_set_all(&weight.out[0], NAN);
            compute(&p, OGP_GRAD_WEIGHT, &options, &weight, NULL);
            for (int64_t c = 0; c < p.ci; c++)
                EXPECT(tensor_get(&weight.out[0], c) == gw[c], "\"%s\" gw %" PRId64 ": %g, expected %g", text, c,
                       tensor_get(&weight.out[0], c), gw[c]);
        }
    }
    view->memory = weight.in[0].memory = NULL;
    operands_free(&forward);
    operands_free(&weight);
    free(seen);
    free(gw);
    munmap(x, bytes);
}

/* ---- small tensors whose elements lie more than 2^31 apart ---- */

/* Every tensor of the pass with this stride on this axis: the results of dense ones. */
static void test_far_apart(const char *text, enum ogp_pass pass, int axis, int64_t far_stride)
{
    const struct ogp_problem p = problem_of(text);
    struct operands dense, far_ops;
    operands_make(&dense, &p, pass, 0, NULL, FILL_INTEGERS, 6);
    operands_make(&far_ops, &p, pass, 0, NULL, FILL_INTEGERS, 6);
    struct tensor *const all[] = {&far_ops.in[0], &far_ops.in[1], &far_ops.out[0]};
    struct tensor before[3];
    float *memory[3] = {0};
    size_t bytes[3] = {0};
    int ready = 1;
    for (int i = 0; i < 3; i++) {
        before[i] = *all[i];
        if (!all[i]->memory || all[i]->extent[axis] < 2)
            continue;
        const int64_t item = (int64_t)tensor_item(all[i]), reach = (all[i]->extent[axis] - 1) * llabs(far_stride);
        bytes[i] = (size_t)((reach + tensor_count(all[i])) * item);
        memory[i] = reserve(bytes[i]);
        ready &= memory[i] != NULL;
        all[i]->stride[axis] = far_stride;
        all[i]->first = (unsigned char *)memory[i] + (far_stride < 0 ? (size_t)(reach * item) : 0);
    }
    for (int k = 0; ready && k < config_count; k++) {
        const struct ogp_options options = {.size = sizeof options, .config = config_names[k]};
        if (!applies(&p, pass, config_names[k]))
            continue;
        for (int i = 0; i < 2; i++)
            if (memory[i])
                for (int64_t e = 0; e < tensor_count(all[i]); e++)
                    tensor_set(all[i], e, tensor_get(&dense.in[i], e));
        tensor_set_all(&far_ops.out[0], NAN);
        compute(&p, pass, &options, &dense, NULL);
        compute(&p, pass, &options, &far_ops, NULL);
        for (int64_t e = 0; e < tensor_count(&dense.out[0]); e++)
            if (!EXPECT(tensor_get(&dense.out[0], e) == tensor_get(&far_ops.out[0], e),
                        "%s \"%s\" axis %d stride %" PRId64 " config %s, element %" PRId64, pass_name(pass), text, axis,
                        far_stride, config_names[k] ? config_names[k] : "-", e))
                break;
    }
    for (int i = 0; i < 3; i++) {
        if (memory[i])
            munmap(memory[i], bytes[i]);
        *all[i] = before[i];
    }
    operands_free(&dense);
    operands_free(&far_ops);
}

int main(void)
{
    test_strided_window("ci2 co1 i1024x1024x1100 k1 s256");
    test_strided_window("ci1 co1 i1x1x2147483647 k1 s1048576");
    test_strided_window("ci1 co1 i1x1x2147483648 k1 s1048576");
    test_strided_window("ci1 co1 i1x1x2147483649 k1 s1048576");
    test_strided_window("ci3 co1 g1 i2049x1024x1024 k1 s1024x512x512");
    for (int pass = OGP_FORWARD; pass <= OGP_GRAD_BIAS; pass++)
        for (int axis = 0; axis < 5; axis++) {
            test_far_apart("n2 g2 ci2 co2 i3x4x5 k2", (enum ogp_pass)pass, axis, ((int64_t)1 << 31) + 5);
            test_far_apart("n2 ci3 co2 i3x4x18 k3x2x2 s1x2x1 p1", (enum ogp_pass)pass, axis, -((int64_t)1 << 31) - 3);
        }
    return test_end("test_big");
}
