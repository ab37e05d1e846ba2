/* SPDX-License-Identifier: Apache-2.0 */
/* ogp/conv3d.h - 3-D convolution for training, on CPUs.
 *
 *   y[n][co][o] = b[co] + sum over ci of the group of co, t < k:  w[co][ci][t] * X[n][ci][o*s + t*l - p]
 *   o = (i + p + q - l*(k-1) - 1) / s + 1              for each of depth, height and width
 *
 * X is x continued beyond its borders by the padding mode (zeros, reflect, replicate, circular). The gradients are the
 * exact adjoints of that map: gx of x, gw of w and gb of b, each from gy. The formula is the cross-correlation of
 * PyTorch's Conv3d; double backward is these passes again, because the map is bilinear in x and w.
 *
 * Glossary: n g ci co = batch, groups, input and output channels (totals); i o k = input, output and kernel extents;
 * s = stride, p q = low and high padding, l = dilation (1 = dense). Triples are in the order depth, height, width.
 * Counts are elements; *_bytes are bytes.
 *
 * Use: fill a problem, make one plan per pass, ask it for its workspace, execute. A problem is a value. A plan is
 * immutable: any number of threads may execute it at once, each with its own workspace. Execution never allocates.
 * The results of a plan have the same bits for any number of threads and any workspace size that it accepts.
 * They may differ in the last bits between instruction sets and between plans made with different options.
 *
 * Non-finite values stay local: a NaN or Inf poisons exactly the outputs whose window holds it. A padded zero is a
 * value like any other: zero times an infinite weight is NaN (in a gradient too, where a window leaves gy).
 *
 * Structs begin with their size, set by the caller to sizeof; a zero in any other field is its default. Functions
 * return a status; where they take an ogp_error, NULL is allowed, and on failure it holds a message that names the
 * argument, what was expected and what came. Nothing here aborts, prints (but for OGP_VERBOSE) or touches errno.
 *
 * Environment, read once: OGP_ISA caps the instruction set (baseline, avx2, avx512, neon); OGP_VERBOSE=1 prints
 * one line per execution to standard error.
 */
#ifndef OGP_CONV3D_H
#define OGP_CONV3D_H

#include <stddef.h>
#include <stdint.h>

#define OGP_VERSION_MAJOR 0
#define OGP_VERSION_MINOR 1
#define OGP_VERSION_PATCH 0

#if defined(OGP_BUILD) && defined(__GNUC__)
#define OGP_API __attribute__((visibility("default")))
#else
#define OGP_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* "major.minor.patch" of the library that was loaded. Static storage. */
OGP_API const char *ogp_version(void);

enum ogp_status {
    OGP_OK = 0,
    OGP_BAD_ARG,        /* a null pointer, an unknown enum value, a size that is too small */
    OGP_BAD_SHAPE,      /* extents, strides or padding that define no convolution */
    OGP_TOO_LARGE,      /* a size, offset or byte count beyond 63 bits */
    OGP_NO_MEMORY,      /* plan or pool creation only */
    OGP_NOT_APPLICABLE, /* options name a configuration or ISA that cannot run this problem here */
    OGP_CANCELLED       /* the poll callback asked to stop; outputs hold unspecified values */
};

/* A few words for a status, for humans. Static storage; never NULL. */
OGP_API const char *ogp_status_text(enum ogp_status status);

/* Message of a failure, owned by the caller: set size, pass it or NULL. The text always ends with a zero byte. */
struct ogp_error {
    uint32_t size; /* sizeof(struct ogp_error) */
    char text[508];
};

/* ---- the problem ---------------------------------------------------------------------------------------------- */

enum ogp_dtype { OGP_F32 = 0, OGP_F64 };
enum ogp_padding { OGP_ZEROS = 0, OGP_REFLECT, OGP_REPLICATE, OGP_CIRCULAR };
enum ogp_layout { OGP_NCDHW = 0, OGP_NDHWC }; /* a hint: tiles fit it better; strides decide what is read */
enum ogp_pass { OGP_FORWARD = 0, OGP_GRAD_INPUT, OGP_GRAD_WEIGHT, OGP_GRAD_BIAS };

struct ogp_problem {
    uint32_t size; /* sizeof(struct ogp_problem) */
    enum ogp_dtype dtype;
    enum ogp_padding padding;
    enum ogp_layout x_layout; /* of x and gx */
    enum ogp_layout w_layout; /* of w and gw */
    enum ogp_layout y_layout; /* of y and gy */
    int64_t n;                /* batch, >= 0 (0 is an empty batch, not a default) */
    int64_t g;                /* groups, divides ci and co; default 1 */
    int64_t ci, co;           /* channels, ci >= 0, co >= 1 */
    int64_t in[3];            /* >= 1 */
    int64_t kernel[3];        /* >= 1 */
    int64_t stride[3];        /* default 1 */
    int64_t pad_lo[3];        /* >= 0; reflect: < in; others: any */
    int64_t pad_hi[3];        /* likewise; not derived from pad_lo */
    int64_t dilation[3];      /* default 1 */
};

/* Checks the problem and gives the extents o of its output. Errors: OGP_BAD_ARG, OGP_BAD_SHAPE (a kernel larger than
 * the padded input included), OGP_TOO_LARGE. */
OGP_API enum ogp_status ogp_output_extents(const struct ogp_problem *problem, int64_t out[3], struct ogp_error *error);

/* The text form of a problem, spoken by verbose lines, tests and benches: words divided by spaces, in this order,
 * defaults left out when printed; any order is read. A triple whose three numbers are equal is one number.
 *
 *   forward f32 zeros n1 g7 ci7 co7 i296x296x168 k9 s1 p4 q4 l1 xndhwc wndhwc yndhwc
 *
 * passes: forward grad_input grad_weight grad_bias; dtypes: f32 (default) f64; paddings: zeros (default) reflect
 * replicate circular; n g ci co default to 1, q to p. Parsing only reads; the numbers are checked by plan creation.
 * OGP_BAD_ARG names the word that could not be read. */
OGP_API enum ogp_status ogp_problem_parse(const char *text, struct ogp_problem *problem, enum ogp_pass *pass,
                                          struct ogp_error *error);

/* Prints the text form into text[0, bytes), cut short where it does not fit, and returns the length that the whole
 * needs without its final zero (as snprintf does). text may be NULL when bytes is 0. */
OGP_API size_t ogp_problem_print(const struct ogp_problem *problem, enum ogp_pass pass, char *text, size_t bytes);

/* ---- the plan ------------------------------------------------------------------------------------------------- */

/* AUTO: transforms where they are faster and keep every digit that quiet zones beside loud ones need; NORMWISE:
 * without that rule; ELEMENTWISE: direct everywhere, |error| <= c eps sum |w||x| for each output. */
enum ogp_precision { OGP_AUTO = 0, OGP_NORMWISE, OGP_ELEMENTWISE };

#define OGP_DEFAULT_WORKSPACE ((int64_t)64 << 20)
#define OGP_NO_WORKSPACE ((int64_t)-1)

struct ogp_options {
    uint32_t size; /* sizeof(struct ogp_options) */
    enum ogp_precision precision;
    int64_t workspace_limit; /* bytes; default 64 MiB; OGP_NO_WORKSPACE for none. Tiles depend on it: one worker uses at
                                most a sixteenth. Any limit works, a small one slowly */
    const char *config;      /* NULL: choose. Otherwise a configuration by name, as `describe` prints it */
    const char *isa;         /* NULL: the best of this CPU under OGP_ISA. Otherwise one by name */
};

typedef struct ogp_plan ogp_plan;

/* Makes a plan for one pass of a problem. options may be NULL. On success *plan is owned by the caller; on failure it
 * is NULL. Errors: those of ogp_output_extents, OGP_NO_MEMORY, OGP_NOT_APPLICABLE. */
OGP_API enum ogp_status ogp_plan_create(ogp_plan **plan, const struct ogp_problem *problem, enum ogp_pass pass,
                                        const struct ogp_options *options, struct ogp_error *error);

/* NULL is allowed. No execution of the plan may be running. */
OGP_API void ogp_plan_destroy(ogp_plan *plan);

/* Bytes of workspace with which `threads` (>= 1) threads can all work: at most the limit, and 0 where none is needed.
 * With less, down to ogp_plan_workspace_bytes(plan, 1), fewer threads work. */
OGP_API size_t ogp_plan_workspace_bytes(const ogp_plan *plan, int threads);

/* One line: problem | configuration, ISA, tile, bytes | why it was chosen. Lengths as in ogp_problem_print. */
OGP_API size_t ogp_plan_describe(const ogp_plan *plan, char *text, size_t bytes);

/* ---- threads -------------------------------------------------------------------------------------------------- */

typedef struct ogp_pool ogp_pool;

/* A pool of `threads` >= 1 POSIX threads, the caller of an execution being one of them. Idle threads sleep. After a
 * fork the child's first execution starts its own threads. Where fewer threads can be started, fewer work. A pool may
 * be shared: a second execution on a busy pool runs on its caller alone, with the same results. */
OGP_API enum ogp_status ogp_pool_create(ogp_pool **pool, int threads, struct ogp_error *error);

/* A host's parallel-for: calls body(arg, worker) once for each worker in [0, workers), in any order, at once or one
 * after another, on any threads, and returns when all calls have returned. */
typedef void ogp_parallel_fn(void *host, int workers, void (*body)(void *arg, int worker), void *arg);

/* A pool that runs on the host's threads. */
OGP_API enum ogp_status ogp_pool_from_callback(ogp_pool **pool, ogp_parallel_fn *parallel, void *host, int threads,
                                               struct ogp_error *error);

OGP_API int ogp_pool_threads(const ogp_pool *pool); /* 1 for NULL */
OGP_API void ogp_pool_destroy(ogp_pool *pool);      /* NULL is allowed. No execution may be running on it */

/* ---- execution ------------------------------------------------------------------------------------------------ */

/* A tensor: the address of its first element and the distance between neighbours on each axis, in elements:
 * N C D H W for x, y and their gradients; CO CI/g KD KH KW for w; the first entry alone for a bias. Strides of axes of
 * extent 1 are ignored; inputs may have any strides (0 and negative ones too). An output whose elements may share
 * memory with one another or with an input is refused (judged by its strides, and by the range of addresses). */
struct ogp_input {
    const void *data;
    int64_t stride[5];
};
struct ogp_output {
    void *data;
    int64_t stride[5];
};

struct ogp_run {
    uint32_t size;         /* sizeof(struct ogp_run) */
    int accumulate;        /* not 0: add to the outputs instead of overwriting them */
    void *workspace;       /* any alignment; used by this execution alone; no content survives it */
    size_t workspace_bytes;
    ogp_pool *pool;        /* NULL: the calling thread alone */
    int (*poll)(void *);   /* NULL, or called now and then on the calling thread: not 0 cancels the execution */
    void *poll_arg;
};

/* y = forward(x, w) + b; b may be NULL. Every element of y is written; y is read only to accumulate. run may be NULL
 * where the plan needs no workspace. Errors: OGP_BAD_ARG (another pass's plan, null data, overlap, too little
 * workspace), OGP_TOO_LARGE (strides beyond 63 bits), OGP_CANCELLED. */
OGP_API enum ogp_status ogp_forward(const ogp_plan *plan, const struct ogp_input *x, const struct ogp_input *w,
                                    const struct ogp_input *b, const struct ogp_output *y, const struct ogp_run *run,
                                    struct ogp_error *error);

/* gx from gy and w. Inputs beyond the last window get 0. Errors as above. */
OGP_API enum ogp_status ogp_grad_input(const ogp_plan *plan, const struct ogp_input *gy, const struct ogp_input *w,
                                       const struct ogp_output *gx, const struct ogp_run *run,
                                       struct ogp_error *error);

/* gw from x and gy, and in the same pass gb from gy where gb is not NULL. An empty batch gives zeros. */
OGP_API enum ogp_status ogp_grad_weight(const ogp_plan *plan, const struct ogp_input *x, const struct ogp_input *gy,
                                        const struct ogp_output *gw, const struct ogp_output *gb,
                                        const struct ogp_run *run, struct ogp_error *error);

/* gb[co] = sum of gy over batch and space, summed in double precision. */
OGP_API enum ogp_status ogp_grad_bias(const ogp_plan *plan, const struct ogp_input *gy, const struct ogp_output *gb,
                                      const struct ogp_run *run, struct ogp_error *error);

#ifdef __cplusplus
}
#endif
#endif
