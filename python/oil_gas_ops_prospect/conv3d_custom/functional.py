# SPDX-License-Identifier: Apache-2.0
"""conv3d as a function."""

import warnings

import torch
import torch._C as _C
import torch.autograd.forward_ad as forward_ad
import torch.nn.functional as F
from torch._compile import _disable_dynamo
from torch.overrides import handle_torch_function, has_torch_function_variadic

from . import composite, core, device, empty, npu
from .autograd import convolve
from .problem import hashable, is_channels_last, problem_of

_no_dispatch = torch.Tensor.__torch_dispatch__


def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, *, precision=None):
    """3-D convolution (cross-correlation) with a custom forward and backward, both bounded in memory.

    Takes what torch.nn.functional.conv3d takes, and gives the same up to rounding, derivatives of any order included.

    input      (N, CI, D, H, W) or (CI, D, H, W), any strides
    weight     (CO, CI / groups, KD, KH, KW), any strides
    bias       (CO,) or None
    stride, dilation   int or three ints (depth, height, width)
    padding    int, three ints, 'valid' or 'same' (stride 1; where the total is odd, the extra one is at the end)
    groups     int
    precision  how far the C core may trade rounding error for speed: 'auto' (None) keeps every digit that quiet zones
               beside loud ones need, 'normwise' bounds the error by the norm of the whole window, 'elementwise' bounds
               it for each output. Has no effect elsewhere.

    Returns (N, CO, OD, OH, OW), or without N; channels_last_3d if input or weight is, else contiguous.

    float32 and float64 on the CPU run on the C core, with the same bits for any number of threads; every other dtype
    and device on torch operators in bounded steps. `device.conv3d_backend` and OGP_CONV3D force one.

    Where torch itself looks inside (forward-mode AD, torch.func, tracing, dispatch modes) torch's operators are what it
    sees, and differentiates: on an NPU those whose derivatives no limit of the device refuses, elsewhere its own
    convolution. torch.compile breaks its graph here.

    No input channels: the sum over them is zero, the output is the bias. An empty batch gives zero gradients.

    Errors: RuntimeError for shapes, values, dtypes and devices that do not fit; TypeError for arguments of another
    type; ValueError for an unknown precision; NotImplementedError for bool tensors.
    """
    if has_torch_function_variadic(input, weight, bias):
        return handle_torch_function(
            conv3d, (input, weight, bias), input, weight, bias, stride, padding, dilation, groups, precision=precision
        )
    if torch.compiler.is_compiling():
        return _outside_graph(input, weight, bias, stride, padding, dilation, groups, precision)
    return _eager(input, weight, bias, stride, padding, dilation, groups, precision)


def _eager(input, weight, bias, stride, padding, dilation, groups, precision):
    x, w, b = ready(input, weight, bias)
    backend = device.function_backend(x.device.type, x.dtype)
    if backend == "native" or is_observed(x, w, b):
        arguments = x, w, b, stride, padding, dilation, groups
        return native_if_safe(backend, lambda: F.conv3d(*arguments), *arguments, "zeros")
    return convolve_by(backend, x, w, b, stride, padding, dilation, groups, "zeros", precision)


_outside_graph = _disable_dynamo(_eager)


# ---- what the function and the module share ----


def ready(x, w, b):
    """The tensors, cast as autocast says, that convolve_by takes. Errors: TypeError, RuntimeError."""
    try:
        # What torch.amp.custom_fwd(cast_inputs=...) does, which has to know the device when a Function is defined: here
        # one Function serves all. The composite's operators keep the dtype, as custom_bwd would have them.
        if _C._is_any_autocast_enabled() and torch.is_autocast_enabled(x.device.type):
            x, w, b = _autocast(x, w, b)
        fits = x.dtype == w.dtype and x.is_cpu == w.is_cpu
        if fits and (b is None or (b.dtype == x.dtype and b.is_cpu == x.is_cpu)):
            return x, w, b
    except AttributeError:
        pass
    raise _misfit(x, w, b)


def _autocast(x, w, b):
    dtype = torch.get_autocast_dtype(x.device.type)
    return [
        t.to(dtype) if t is not None and t.is_floating_point() and t.dtype != torch.float64 else t for t in (x, w, b)
    ]


def _misfit(x, w, b):
    for name, t in (("input", x), ("weight", w), ("bias", b)):
        if not isinstance(t, torch.Tensor) and not (name == "bias" and t is None):
            return TypeError(f"conv3d(): argument '{name}': expected a Tensor, got {type(t).__name__}")
    name, t = ("bias", b) if w.dtype == x.dtype and w.is_cpu == x.is_cpu else ("weight", w)
    if t.dtype != x.dtype:
        return RuntimeError(f"Input type ({x.dtype}) and {name} type ({t.dtype}) should be the same")
    return RuntimeError(
        f"Expected all tensors to be on the same device, but input is on {x.device} and {name} on {t.device}"
    )


def is_observed(x, w, b):
    """Whether torch follows the operators of this call by other means than the autograd graph, so that a pass it cannot
    see would be wrong: functorch transforms, dual tensors, tracing, dispatch modes, tensors without memory of their
    own."""
    return (
        _C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
        or _C._len_torch_dispatch_stack() > 0
        or _C._get_tracing_state() is not None
        or x.__torch_dispatch__ is not _no_dispatch
        or w.__torch_dispatch__ is not _no_dispatch
        or (b is not None and b.__torch_dispatch__ is not _no_dispatch)
    )


def _passes(backend, problem, x):
    if backend == "c" and not (x.is_cpu and core.takes(x.dtype)):
        raise RuntimeError(
            f"conv3d backend 'c': expected CPU tensors of float32 or float64 and a C core that loads, got {x.dtype} on "
            f"{x.device}"
        )
    if problem.is_empty:
        return empty
    if backend == "c":
        return core
    planning = device.planning(x.device.type)
    return composite.WHOLE if planning is None else composite.planned(*planning)


def _problem(shapes, channels_last, stride, padding, dilation, groups, padding_mode, precision):
    """The Problem of a call. shapes: of x, w and b (None without); channels_last: whether x and w are laid out so."""
    return problem_of(
        hashable("stride", stride),
        hashable("padding", padding),
        hashable("dilation", dilation),
        hashable("groups", groups),
        padding_mode,
        precision,
        *shapes,
        *channels_last,
    )


def _is_transformed():
    """Whether what looks on derives something from the operators of this call, as functorch transforms, forward-mode AD
    and tracing do. Dispatch modes only see them."""
    return (
        _C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
        or _C._get_tracing_state() is not None
    )


def native_if_safe(backend, native, x, w, b, stride, padding, dilation, groups, padding_mode):
    """The result of native(), which a backend of that name or torch's looking on asks for; on a device whose limits
    refuse native's backward, or whose operators torch would differentiate into a refused one, that of the composite.
    There transforms meet sums tap by tap, which need no convolution: right, and slow for large kernels."""
    planning = device.planning(x.device.type)
    if planning is None:
        return native()
    if x.dim() == 4:
        arguments = w, b, stride, padding, dilation, groups, padding_mode
        return native_if_safe(backend, lambda: native()[None], x[None], *arguments).squeeze(0)
    shapes = [None if t is None else tuple(map(int, t.shape)) for t in (x, w, b)]  # a trace has tensors for extents
    problem = _problem(shapes, (False, False), stride, padding, dilation, groups, padding_mode, None)
    if backend == "native":
        refusal = npu.native_refusal(problem, x.dtype.itemsize, planning[0])
        if refusal is None:
            return native()
        warnings.warn(f"conv3d: the native operator would be refused on {x.device} ({refusal}); the composite runs")
    if problem.is_empty:
        return empty.forward(problem, x, w, b)
    if _is_transformed():
        return composite.TAPS.forward(problem, x, w, b)
    return convolve(composite.planned(*planning), problem, x, w, b)


def convolve_by(backend, x, w, b, stride, padding, dilation, groups, padding_mode, precision):
    """conv3d on backend 'c' or 'composite', with a padding mode."""
    if x.dim() == 4:
        y = convolve_by(backend, x[None], w, b, stride, padding, dilation, groups, padding_mode, precision)
        return y.squeeze(0)
    shapes = x.shape, w.shape, None if b is None else b.shape
    channels_last = is_channels_last(x), is_channels_last(w)
    problem = _problem(shapes, channels_last, stride, padding, dilation, groups, padding_mode, precision)
    return convolve(_passes(backend, problem, x), problem, x, w, b)
