/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the GF/s (f32) of independent multiply-add chains held in registers: fma_peak THREADS SECONDS.
 * Compiled for one ISA by flags; LANES and CHAINS come with them. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef float vec __attribute__((vector_size(4 * LANES)));

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float factor = 0.999f, term = 0.001f;

static float chains(long turns) {
    vec acc[CHAINS], m = {0}, c = {0}, sum = {0};
    m += *(volatile float *)&factor;
    c += *(volatile float *)&term;
#pragma GCC unroll 32
    for (int i = 0; i < CHAINS; i++) {
        acc[i] = c * (float)i;
    }
    for (long turn = 0; turn < turns; turn++) {
#pragma GCC unroll 32
        for (int i = 0; i < CHAINS; i++) {
            acc[i] = acc[i] * m + c;
        }
    }
#pragma GCC unroll 32
    for (int i = 0; i < CHAINS; i++) {
        sum += acc[i];
    }
    return sum[0];
}

static pthread_barrier_t barrier;
static long turns;
static volatile float sink;

static void *work(void *unused) {
    pthread_barrier_wait(&barrier);
    sink = chains(turns);
    pthread_barrier_wait(&barrier);
    return unused;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    double seconds = argc > 2 ? atof(argv[2]) : 0.2;
    double start = now();
    long probe = 1000000;
    sink = chains(probe);
    sink = chains(probe);
    turns = (long)(seconds * 2.0 * (double)probe / (now() - start)) + 1;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, NULL)) {
            return 1;
        }
    }
    pthread_barrier_wait(&barrier);
    start = now();
    pthread_barrier_wait(&barrier);
    printf("%.3f\n", 2.0 * LANES * CHAINS * (double)turns * threads / (now() - start) / 1e9);
    return 0;
}
