/* SPDX-License-Identifier: Apache-2.0 */
/* oil_gas_ops_prospect._core: libogp for Python. Tensors come as addresses, shapes and strides; the caller keeps them
 * alive and has allocated the outputs. No arithmetic here: arguments are read, the library does the work. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "_openmp.h"
#include "_plans.h"
#include "ogp/conv3d.h"

enum role { X, W, Y, B };
enum { OPERANDS_MOST = 4 };

/* Operands in the order of the arguments: inputs, then outputs. */
static const struct pass {
    const char *name;
    int operands;
    struct {
        const char *name;
        enum role role;
    } operand[OPERANDS_MOST];
} passes[] = {
    [OGP_FORWARD] = {"forward", 4, {{"x", X}, {"w", W}, {"b", B}, {"y", Y}}},
    [OGP_GRAD_INPUT] = {"grad_input", 3, {{"gy", Y}, {"w", W}, {"gx", X}}},
    [OGP_GRAD_WEIGHT] = {"grad_weight", 4, {{"x", X}, {"gy", Y}, {"gw", W}, {"gb", B}}},
    [OGP_GRAD_BIAS] = {"grad_bias", 2, {{"gy", Y}, {"gb", B}}},
};
enum { PASSES = sizeof passes / sizeof passes[0] };

struct call {
    enum ogp_pass pass;
    struct ogp_problem problem;
    enum ogp_precision precision;
    int64_t threads;
    struct ogp_output operand[OPERANDS_MOST];
};

/* ---- reading arguments: false with an exception set where one is wrong ---- */

static bool wrong_type(const char *name, const char *expected, PyObject *got)
{
    PyErr_Format(PyExc_TypeError, "%s: expected %s, got %R", name, expected, (PyObject *)Py_TYPE(got));
    return false;
}

static bool read_int(const char *name, PyObject *object, int64_t *value)
{
    *value = PyLong_AsLongLong(object);
    if (*value != -1 || !PyErr_Occurred())
        return true;
    if (!PyErr_ExceptionMatches(PyExc_OverflowError))
        return wrong_type(name, "an int", object);
    PyErr_Format(PyExc_OverflowError, "%s: expected an int of 64 bits, got %R", name, object);
    return false;
}

static bool read_tuple(const char *name, PyObject *object, Py_ssize_t count)
{
    if (!PyTuple_Check(object))
        return wrong_type(name, "a tuple", object);
    if (PyTuple_Size(object) == count)
        return true;
    PyErr_Format(PyExc_TypeError, "%s: expected a tuple of %zd, got %R", name, count, object);
    return false;
}

static bool read_ints(const char *name, PyObject *object, int count, int64_t *values)
{
    if (!read_tuple(name, object, count))
        return false;
    for (int k = 0; k < count; k++)
        if (!read_int(name, PyTuple_GetItem(object, k), &values[k]))
            return false;
    return true;
}

static bool read_address(const char *name, PyObject *object, void **address)
{
    *address = PyLong_AsVoidPtr(object);
    if (*address || !PyErr_Occurred())
        return true;
    return wrong_type(name, "an address", object);
}

static bool read_choice(const char *name, PyObject *object, int count, int *choice)
{
    int64_t value;
    if (!read_int(name, object, &value))
        return false;
    if (value < 0 || value >= count) {
        PyErr_Format(PyExc_RuntimeError, "%s: expected 0 to %d, got %lld", name, count - 1, (long long)value);
        return false;
    }
    *choice = (int)value;
    return true;
}

/* To the library a zero stands for the default; here it is a mistake. */
static bool expect_positive(const char *name, const int64_t *values, int count)
{
    for (int k = 0; k < count; k++)
        if (values[k] < 1) {
            PyErr_Format(PyExc_RuntimeError, "%s: expected at least 1, got %lld", name, (long long)values[k]);
            return false;
        }
    return true;
}

static bool read_geometry(PyObject *object, struct call *call)
{
    struct ogp_problem *const p = &call->problem;
    int padding, precision;
    if (!read_tuple("geometry", object, 7))
        return false;
    if (!read_ints("stride", PyTuple_GetItem(object, 0), 3, p->stride) ||
        !read_ints("padding", PyTuple_GetItem(object, 1), 3, p->pad_lo) ||
        !read_ints("padding", PyTuple_GetItem(object, 2), 3, p->pad_hi) ||
        !read_ints("dilation", PyTuple_GetItem(object, 3), 3, p->dilation) ||
        !read_int("groups", PyTuple_GetItem(object, 4), &p->g) ||
        !read_choice("padding_mode", PyTuple_GetItem(object, 5), OGP_CIRCULAR + 1, &padding) ||
        !read_choice("precision", PyTuple_GetItem(object, 6), OGP_ELEMENTWISE + 1, &precision))
        return false;
    p->padding = (enum ogp_padding)padding;
    call->precision = (enum ogp_precision)precision;
    return expect_positive("stride", p->stride, 3) && expect_positive("dilation", p->dilation, 3) &&
           expect_positive("groups", &p->g, 1);
}

static bool read_shapes(PyObject *x_shape, PyObject *w_shape, struct ogp_problem *p)
{
    int64_t x[5], w[5];
    if (!read_ints("x_shape", x_shape, 5, x) || !read_ints("w_shape", w_shape, 5, w))
        return false;
    p->n = x[0];
    p->ci = x[1];
    p->co = w[0];
    for (int a = 0; a < 3; a++) {
        p->in[a] = x[2 + a];
        p->kernel[a] = w[2 + a];
    }
    if (p->ci % p->g == 0 && p->ci / p->g != w[1]) {
        PyErr_Format(PyExc_RuntimeError, "w_shape[1]: expected ci / groups = %lld, got %lld", (long long)(p->ci / p->g),
                     (long long)w[1]);
        return false;
    }
    return true;
}

/* geometry, dtype, x_shape, w_shape */
static bool read_problem(PyObject *const *args, struct call *call)
{
    int dtype;
    call->problem.size = sizeof call->problem;
    if (!read_geometry(args[0], call) || !read_choice("dtype", args[1], OGP_F64 + 1, &dtype))
        return false;
    call->problem.dtype = (enum ogp_dtype)dtype;
    return read_shapes(args[2], args[3], &call->problem);
}

static void hint_layout(struct ogp_problem *p, enum role role, const int64_t *stride)
{
    const int64_t channels = role == X ? p->ci : role == Y ? p->co : p->ci / p->g;
    const enum ogp_layout layout = channels > 1 && stride[1] == 1 ? OGP_NDHWC : OGP_NCDHW;
    if (role == X)
        p->x_layout = layout;
    else if (role == W)
        p->w_layout = layout;
    else
        p->y_layout = layout;
}

/* address, stride; of each operand */
static bool read_operands(PyObject *const *args, struct call *call)
{
    const struct pass *const pass = &passes[call->pass];
    for (int k = 0; k < pass->operands; k++) {
        struct ogp_output *const t = &call->operand[k];
        const char *const name = pass->operand[k].name;
        const enum role role = pass->operand[k].role;
        if (!read_address(name, args[2 * k], &t->data))
            return false;
        if (role == B ? !read_int(name, args[2 * k + 1], t->stride) : !read_ints(name, args[2 * k + 1], 5, t->stride))
            return false;
        if (role != B)
            hint_layout(&call->problem, role, t->stride);
    }
    return true;
}

static bool expect_count(const char *name, Py_ssize_t count, int expected)
{
    if (count == expected)
        return true;
    PyErr_Format(PyExc_TypeError, "%s() takes %d positional arguments, got %zd", name, expected, count);
    return false;
}

static PyObject *raise(enum ogp_status status, const struct ogp_error *error)
{
    if (status == OGP_CANCELLED && PyErr_Occurred())
        return NULL; /* what the signal handler raised */
    PyErr_SetString(status == OGP_NO_MEMORY ? PyExc_MemoryError : PyExc_RuntimeError,
                    error->text[0] ? error->text : ogp_status_text(status));
    return NULL;
}

/* ---- signals: Ctrl-C ends an execution on Python's main thread ---- */

static unsigned long main_thread;

struct watch {
    PyThreadState *state; /* of the caller, which has let go of the GIL */
    int64_t due;          /* when signals are looked at next, in ns; 0: not begun */
};

static int check_signals(void *arg)
{
    const int64_t interval = 50 * 1000 * 1000;
    struct watch *const w = arg;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const int64_t now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    int raised = 0;
    if (w->due != 0 && now < w->due)
        return 0;
    if (w->due != 0) {
        PyEval_RestoreThread(w->state);
        raised = PyErr_CheckSignals();
        w->state = PyEval_SaveThread();
    }
    w->due = now + interval;
    return raised;
}

/* ---- executing ---- */

static enum ogp_status take_plan(const struct call *call, struct shared_plan *plan, struct ogp_error *error)
{
    const int64_t of_threads = ((int64_t)4 << 20) * call->threads;
    struct plan_key key;
    memset(&key, 0, sizeof key);
    key.problem = call->problem;
    key.pass = call->pass;
    key.precision = call->precision;
    key.workspace_limit = of_threads > OGP_DEFAULT_WORKSPACE ? of_threads : OGP_DEFAULT_WORKSPACE;
    return plans_take(plan, &key, error);
}

static struct ogp_input input_of(const struct ogp_output *t)
{
    struct ogp_input input = {.data = t->data};
    memcpy(input.stride, t->stride, sizeof input.stride);
    return input;
}

static enum ogp_status run_pass(const struct call *call, const ogp_plan *plan, const struct ogp_run *run,
                                struct ogp_error *error)
{
    const struct ogp_output *const t = call->operand;
    const struct ogp_input first = input_of(&t[0]), second = input_of(&t[1]), third = input_of(&t[2]);
    switch (call->pass) {
    case OGP_FORWARD:
        return ogp_forward(plan, &first, &second, third.data ? &third : NULL, &t[3], run, error);
    case OGP_GRAD_INPUT:
        return ogp_grad_input(plan, &first, &second, &t[2], run, error);
    case OGP_GRAD_WEIGHT:
        return ogp_grad_weight(plan, &first, &second, &t[2], t[3].data ? &t[3] : NULL, run, error);
    default:
        return ogp_grad_bias(plan, &first, &t[1], run, error);
    }
}

/* Runs without the GIL. */
static enum ogp_status run_plan(const struct call *call, const ogp_plan *plan, struct ogp_run *run,
                                struct ogp_error *error)
{
    const size_t align = 64;
    enum ogp_status status = OGP_NO_MEMORY;
    run->workspace_bytes = ogp_plan_workspace_bytes(plan, ogp_pool_threads(run->pool));
    if (run->workspace_bytes == 0 || posix_memalign(&run->workspace, align, run->workspace_bytes) == 0)
        status = run_pass(call, plan, run, error);
    free(run->workspace);
    return status;
}

static PyObject *execute(enum ogp_pass pass, PyObject *const *args, Py_ssize_t count)
{
    struct call call = {.pass = pass};
    struct ogp_error error = {.size = sizeof error};
    struct watch watch = {0};
    struct ogp_run run = {.size = sizeof run, .poll_arg = &watch};
    const int operands = passes[pass].operands;
    if (!expect_count(passes[pass].name, count, 4 + 2 * operands + 1) || !read_problem(args, &call) ||
        !read_operands(args + 4, &call) || !read_int("threads", args[count - 1], &call.threads))
        return NULL;
    struct shared_plan plan;
    enum ogp_status status = threads_pool(&run.pool, call.threads, &error);
    if (status == OGP_OK)
        status = take_plan(&call, &plan, &error);
    if (status != OGP_OK)
        return raise(status, &error);
    if (PyThread_get_thread_ident() == main_thread)
        run.poll = check_signals;
    watch.state = PyEval_SaveThread();
    status = run_plan(&call, plan.plan, &run, &error);
    PyEval_RestoreThread(watch.state);
    plans_give_back(&plan);
    if (status != OGP_OK)
        return raise(status, &error);
    Py_RETURN_NONE;
}

static PyObject *forward(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    return execute(OGP_FORWARD, args, count);
}

static PyObject *grad_input(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    return execute(OGP_GRAD_INPUT, args, count);
}

static PyObject *grad_weight(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    return execute(OGP_GRAD_WEIGHT, args, count);
}

static PyObject *grad_bias(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    return execute(OGP_GRAD_BIAS, args, count);
}

/* ---- questions ---- */

static PyObject *output_shape(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct call call = {.problem.size = sizeof call.problem};
    struct ogp_error error = {.size = sizeof error};
    int64_t o[3];
    (void)module;
    if (!expect_count("output_shape", count, 3) || !read_geometry(args[0], &call) ||
        !read_shapes(args[1], args[2], &call.problem))
        return NULL;
    const enum ogp_status status = ogp_output_extents(&call.problem, o, &error);
    if (status != OGP_OK)
        return raise(status, &error);
    return Py_BuildValue("(LLLLL)", (long long)call.problem.n, (long long)call.problem.co, (long long)o[0],
                         (long long)o[1], (long long)o[2]);
}

static PyObject *parse(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct ogp_problem p = {.size = sizeof p};
    struct ogp_error error = {.size = sizeof error};
    enum ogp_pass pass;
    (void)module;
    if (!expect_count("parse", count, 1))
        return NULL;
    if (!PyUnicode_Check(args[0])) {
        wrong_type("text", "a str", args[0]);
        return NULL;
    }
    const char *const text = PyUnicode_AsUTF8AndSize(args[0], NULL);
    if (!text)
        return NULL;
    const enum ogp_status status = ogp_problem_parse(text, &p, &pass, &error);
    if (status != OGP_OK)
        return raise(status, &error);
    typedef long long number;
    const number ci_of_group = p.g > 0 ? p.ci / p.g : p.ci;
    return Py_BuildValue("(((LLL)(LLL)(LLL)(LLL)Lii)i(LLLLL)(LLLLL)s)", (number)p.stride[0], (number)p.stride[1],
                         (number)p.stride[2], (number)p.pad_lo[0], (number)p.pad_lo[1], (number)p.pad_lo[2],
                         (number)p.pad_hi[0], (number)p.pad_hi[1], (number)p.pad_hi[2], (number)p.dilation[0],
                         (number)p.dilation[1], (number)p.dilation[2], (number)p.g, (int)p.padding, (int)OGP_AUTO,
                         (int)p.dtype, (number)p.n, (number)p.ci, (number)p.in[0], (number)p.in[1], (number)p.in[2],
                         (number)p.co, ci_of_group, (number)p.kernel[0], (number)p.kernel[1], (number)p.kernel[2],
                         passes[pass].name);
}

static bool read_pass(PyObject *object, enum ogp_pass *pass)
{
    if (!PyUnicode_Check(object))
        return wrong_type("pass", "a str", object);
    for (int k = 0; k < PASSES; k++)
        if (PyUnicode_CompareWithASCIIString(object, passes[k].name) == 0) {
            *pass = (enum ogp_pass)k;
            return true;
        }
    PyErr_Format(PyExc_RuntimeError, "pass: expected forward, grad_input, grad_weight or grad_bias, got %R", object);
    return false;
}

/* The plan of a call whose args are those of a problem and a pass. False with an exception set. */
static bool plan_of(PyObject *const *args, struct call *call, struct shared_plan *plan)
{
    struct ogp_error error = {.size = sizeof error};
    if (!read_problem(args, call) || !read_pass(args[4], &call->pass))
        return false;
    const enum ogp_status status = take_plan(call, plan, &error);
    if (status != OGP_OK)
        raise(status, &error);
    return status == OGP_OK;
}

static PyObject *describe(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct call call = {.threads = 1};
    char text[2048];
    (void)module;
    if (!expect_count("describe", count, 5))
        return NULL;
    struct shared_plan plan;
    if (!plan_of(args, &call, &plan))
        return NULL;
    ogp_plan_describe(plan.plan, text, sizeof text);
    plans_give_back(&plan);
    return PyUnicode_FromString(text);
}

static PyObject *workspace_bytes(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct call call = {0};
    (void)module;
    if (!expect_count("workspace_bytes", count, 6) || !read_int("threads", args[5], &call.threads))
        return NULL;
    if (call.threads > INT_MAX) {
        PyErr_Format(PyExc_RuntimeError, "threads: expected at most %d, got %lld", INT_MAX, (long long)call.threads);
        return NULL;
    }
    struct shared_plan plan;
    if (!expect_positive("threads", &call.threads, 1) || !plan_of(args, &call, &plan))
        return NULL;
    const size_t bytes = ogp_plan_workspace_bytes(plan.plan, (int)call.threads);
    plans_give_back(&plan);
    return PyLong_FromSize_t(bytes);
}

static PyObject *version(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(ogp_version());
}

static PyObject *runtime(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(threads_runtime());
}

/* ---- the module ---- */

/* Python makes the thread that forked the child's main thread. */
static void after_fork(void)
{
    main_thread = PyThread_get_thread_ident();
    threads_after_fork();
}

static bool find_main_thread(void)
{
    PyObject *const threading = PyImport_ImportModule("threading");
    PyObject *const thread = threading ? PyObject_CallMethod(threading, "main_thread", NULL) : NULL;
    PyObject *const value = thread ? PyObject_GetAttrString(thread, "ident") : NULL;
    if (value)
        main_thread = PyLong_AsUnsignedLong(value);
    Py_XDECREF(value);
    Py_XDECREF(thread);
    Py_XDECREF(threading);
    return !PyErr_Occurred();
}

static int begin(PyObject *module)
{
    static bool watching;
    (void)module;
    if (!watching && pthread_atfork(NULL, NULL, after_fork) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    watching = true;
    return find_main_thread() ? 0 : -1;
}

#define FUNCTION(name, text) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, text}
#define PROBLEM "geometry, dtype, x_shape, w_shape"

static PyMethodDef methods[] = {
    FUNCTION(output_shape, "output_shape(geometry, x_shape, w_shape) -> (n, co, od, oh, ow)"),
    FUNCTION(forward, "forward(" PROBLEM ", x, x_stride, w, w_stride, b or 0, b_stride, y, y_stride, threads)"),
    FUNCTION(grad_input, "grad_input(" PROBLEM ", gy, gy_stride, w, w_stride, gx, gx_stride, threads)"),
    FUNCTION(grad_weight, "grad_weight(" PROBLEM ", x, x_stride, gy, gy_stride, gw, gw_stride, gb or 0, gb_stride, "
                          "threads)"),
    FUNCTION(grad_bias, "grad_bias(" PROBLEM ", gy, gy_stride, gb, gb_stride, threads)"),
    FUNCTION(parse, "parse(text) -> (" PROBLEM ", pass), of the text form of a problem"),
    FUNCTION(describe, "describe(" PROBLEM ", pass) -> str, the plan in one line"),
    FUNCTION(workspace_bytes, "workspace_bytes(" PROBLEM ", pass, threads) -> int"),
    {"version", version, METH_NOARGS, "version() -> str, of the library"},
    {"threads_runtime", runtime, METH_NOARGS, "threads_runtime() -> str, the OpenMP runtime in use or 'built-in'"},
    {0},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)begin},
    {0},
};

static const char doc[] =
    "libogp for Python. geometry is (stride, padding_low, padding_high, dilation, groups, padding_mode, precision), each of "
    "the first four a (depth, height, width); padding_mode 0 zeros, 1 reflect, 2 replicate, 3 circular; precision 0 auto, "
    "1 normwise, 2 elementwise; dtype 0 float32, 1 float64. Tensors are addresses, strides count elements. Errors: "
    "TypeError, OverflowError, RuntimeError with the library's message, MemoryError, KeyboardInterrupt.";

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT, .m_name = "_core", .m_doc = doc, .m_methods = methods, .m_slots = slots,
};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&module_def);
}
