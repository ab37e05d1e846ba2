/* SPDX-License-Identifier: Apache-2.0 */
/* One object per ISA and element type: compiled with OGP_ISA_NAME and OGP_DTYPE_F64 defined and the flags of that
 * ISA, it exports one table, ogp_kernels_<isa>_<dtype>. A row here is a kernel; one that is not here cannot be called. */
#include "kernels.h"

#define ISA_baseline 1
#define ISA_neon 2
#define ISA_avx2 3
#define ISA_avx512 4
#define ISA_wide 5 /* the shape of avx512 for a CPU without it, for tests */
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
#define ISA JOIN(ISA_, OGP_ISA_NAME)

#if ISA == ISA_avx512 || ISA == ISA_wide
#define VBYTES 64
#define REGISTERS 32
#elif ISA == ISA_avx2
#define VBYTES 32
#define REGISTERS 16
#elif ISA == ISA_neon
#define VBYTES 16
#define REGISTERS 32
#else
#define VBYTES 16
#define REGISTERS 16
#endif

#if OGP_DTYPE_F64
#define T double
#define TINT int64_t
#define LOG2_T 3
#define TABLE JOIN(JOIN(ogp_kernels_, OGP_ISA_NAME), _f64)
#else
#define T float
#define TINT int32_t
#define LOG2_T 2
#define TABLE JOIN(JOIN(ogp_kernels_, OGP_ISA_NAME), _f32)
#endif

#include "vector.h"

#include "broadcast.h"
#include "copy.h"
#include "multiply.h"
#include "fft.h"
#include "put.h"
#include "spectral.h"
#include "reduce.h"
#include "take.h"
#include "winograd.h"

#if REGISTERS >= 32
#define EACH_K(ROW) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5) ROW(6) ROW(7) ROW(8) ROW(9)
#define EACH_C(ROW) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5) ROW(6) ROW(7) ROW(8)
#else
#define EACH_K(ROW) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5)
#define EACH_C(ROW) ROW(1) ROW(2) ROW(3) ROW(4)
#endif

/* broadcast: P for each NV */
#define EACH_P4(ROW, NV) ROW(NV, 1) ROW(NV, 2) ROW(NV, 3) ROW(NV, 4)
#define EACH_P6(ROW, NV) EACH_P4(ROW, NV) ROW(NV, 5) ROW(NV, 6)
#define EACH_P9(ROW, NV) EACH_P6(ROW, NV) ROW(NV, 7) ROW(NV, 8) ROW(NV, 9)
#define EACH_P14(ROW, NV) EACH_P9(ROW, NV) ROW(NV, 10) ROW(NV, 11) ROW(NV, 12) ROW(NV, 13) ROW(NV, 14)
#if REGISTERS >= 32
#define EACH_P_1 EACH_P14
#define EACH_P_2 EACH_P14
#define EACH_P_3 EACH_P9
#define POSITIONS {0, 14, 14, 9}
#else
#define EACH_P_1 EACH_P9
#define EACH_P_2 EACH_P6
#define EACH_P_3 EACH_P4
#define POSITIONS {0, 9, 6, 4}
#endif
#define DEFINE_BROADCAST(NV, P) \
    static void broadcast_##NV##_##P(const struct ogp_broadcast *m) { broadcast_body(m, P, NV); }
EACH_P_1(DEFINE_BROADCAST, 1)
EACH_P_2(DEFINE_BROADCAST, 2)
EACH_P_3(DEFINE_BROADCAST, 3)

#define DEFINE_ROWS(R, K) \
    static void rows_##R##_##K(const struct ogp_multiply *m) { rows_body(m, R, K); }
#define DEFINE_K(K) \
    DEFINE_ROWS(1, K) DEFINE_ROWS(2, K) DEFINE_ROWS(4, K) DEFINE_ROWS(8, K) \
    static void reduce_rows_##K##_1(const struct ogp_reduce *m) { reduce_rows_body(m, K, 1); } \
    static void reduce_rows_##K##_2(const struct ogp_reduce *m) { reduce_rows_body(m, K, 2); }
#define DEFINE_C(C) \
    static void channels_##C(const struct ogp_multiply *m) { channels_body(m, C); } \
    static void reduce_channels_##C##_1(const struct ogp_reduce *m) { reduce_channels_body(m, C, 1); } \
    static void reduce_channels_##C##_2(const struct ogp_reduce *m) { reduce_channels_body(m, C, 2); } \
    static void reduce_channels_##C##_3(const struct ogp_reduce *m) { reduce_channels_body(m, C, 3); }
/* points = A*B */
#define EACH_FFT(ROW) \
    ROW(1, 1, 1) ROW(8, 4, 2) ROW(12, 4, 3) ROW(16, 4, 4) ROW(20, 5, 4) ROW(24, 8, 3) ROW(32, 8, 4) ROW(40, 8, 5) \
    ROW(48, 8, 6) ROW(64, 8, 8)
#define DEFINE_FFT(N, A, B) \
    static void fft_forward_##N(const struct ogp_fft *f) { fft_forward_body(f, A, B); } \
    static void fft_inverse_##N(const struct ogp_fft *f) { fft_inverse_body(f, A, B); }
/* points of depth and height */
#define EACH_WINOGRAD(ROW) ROW(1, 4) ROW(1, 6) ROW(4, 1) ROW(4, 4) ROW(4, 6) ROW(6, 1) ROW(6, 4) ROW(6, 6)
#define DEFINE_WINOGRAD(D, H) \
    static void winograd_forward_##D##_##H(const struct ogp_winograd *m) { winograd_forward_body(m, D, H, 0); } \
    static void winograd_spread_##D##_##H(const struct ogp_winograd *m) { winograd_forward_body(m, D, H, 1); } \
    static void winograd_inverse_##D##_##H(const struct ogp_winograd *m) { winograd_inverse_body(m, D, H); }
EACH_WINOGRAD(DEFINE_WINOGRAD)
EACH_FFT(DEFINE_FFT)
EACH_K(DEFINE_K)
EACH_C(DEFINE_C)

#define ROWS_1(K) [K] = rows_1_##K,
#define ROWS_2(K) [K] = rows_2_##K,
#define ROWS_4(K) [K] = rows_4_##K,
#define ROWS_8(K) [K] = rows_8_##K,
#define CHANNELS(C) [C] = channels_##C,
#define REDUCE_ROWS(K) [K] = {[1] = reduce_rows_##K##_1, [2] = reduce_rows_##K##_2},
#define BROADCAST(NV, P) [P] = broadcast_##NV##_##P,
#define FFT(N, A, B) {N, A, B, fft_forward_##N, fft_inverse_##N},
#define WINOGRAD(D, H) \
    [D / 3][H / 3] = {winograd_forward_##D##_##H, winograd_spread_##D##_##H, winograd_inverse_##D##_##H},
#define REDUCE_CHANNELS(C) \
    [C] = {[1] = reduce_channels_##C##_1, [2] = reduce_channels_##C##_2, [3] = reduce_channels_##C##_3},

extern const struct ogp_kernels TABLE;
const struct ogp_kernels TABLE = {
    .name = TEXT(OGP_ISA_NAME),
    .lanes = LANES,
    .rows_most = ROWS_K_MOST,
    .channels_most = CHANNELS_C_MOST,
    .reduce_rows_taps = REDUCE_ROWS_T,
    .reduce_channels_taps = REDUCE_CHANNELS_T,
    .rows = {{EACH_K(ROWS_1)}, {EACH_K(ROWS_2)}, {EACH_K(ROWS_4)}, {EACH_K(ROWS_8)}},
    .channels = {EACH_C(CHANNELS)},
    .reduce_rows = {EACH_K(REDUCE_ROWS)},
    .reduce_channels = {EACH_C(REDUCE_CHANNELS)},
    .broadcast = {{0}, {EACH_P_1(BROADCAST, 1)}, {EACH_P_2(BROADCAST, 2)}, {EACH_P_3(BROADCAST, 3)}},
    .positions_most = POSITIONS,
    .fft = {EACH_FFT(FFT)},
    .spectral = spectral,
    .spectral_reduce = spectral_reduce,
    .take = take,
    .put = put,
    .winograd = {EACH_WINOGRAD(WINOGRAD)},
    .loudness = loudness,
    .copy_rows = copy_rows,
    .pad_rows = pad_rows,
    .unpack_rows = unpack_rows,
    .zeros = zeros,
    .gather = gather,
    .transpose = transpose,
    .scatter = scatter,
    .interleave = interleave,
    .scatter_f64 = scatter_f64,
    .add_at = add_at,
    .sum = sum,
};
