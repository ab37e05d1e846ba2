# SPDX-License-Identifier: Apache-2.0
"""One call of an operation on tensors: what the functions and the modules share."""

import warnings
from collections.abc import Callable
from itertools import repeat
from typing import NamedTuple

import torch
import torch._C as _C
import torch.autograd.forward_ad as forward_ad

from . import composite, core, device, empty, npu
from .problem import hashable, is_channels_last

_no_dispatch = torch.Tensor.__torch_dispatch__


class Operation(NamedTuple):
    """name       of the function, for messages
    arguments  names of those that its calls take besides tensors and precision, in order
    problem    the Problem of (*arguments, precision, *shapes, *channels_last)
    recorded   y of (passes, problem, x, w, b), differentiable by the package's own derivatives
    plain      the same, for torch to look inside and differentiate"""

    name: str
    arguments: tuple[str, ...]
    problem: Callable
    recorded: Callable
    plain: Callable


def run(operation, rule, native, x, w, b, arguments, precision):
    """y. rule(x, w) names the backend, native(x, w, b) is torch's own operator."""
    x, w, b = _ready(operation.name, x, w, b)
    backend = rule(x, w)
    if backend == "native" or _is_observed(x, w, b):
        return _native_if_safe(operation, backend, native, x, w, b, arguments)
    return run_on(operation, backend, x, w, b, arguments, precision)


def run_on(operation, backend, x, w, b, arguments, precision):
    """y on backend 'c' or 'composite'."""
    if x.dim() == 4:
        return run_on(operation, backend, x[None], w, b, arguments, precision).squeeze(0)
    shapes = x.shape, w.shape, None if b is None else b.shape
    problem = _problem(operation, arguments, precision, shapes, (is_channels_last(x), is_channels_last(w)))
    return operation.recorded(_passes(backend, problem, x), problem, x, w, b)


def _ready(name, x, w, b):
    """The tensors, cast as autocast says, that `run_on` takes. Errors: TypeError, RuntimeError."""
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
    raise _misfit(name, x, w, b)


def _autocast(x, w, b):
    dtype = torch.get_autocast_dtype(x.device.type)
    return [
        t.to(dtype) if t is not None and t.is_floating_point() and t.dtype != torch.float64 else t for t in (x, w, b)
    ]


def _misfit(function, x, w, b):
    for name, t in (("input", x), ("weight", w), ("bias", b)):
        if not isinstance(t, torch.Tensor) and not (name == "bias" and t is None):
            return TypeError(f"{function}(): argument '{name}': expected a Tensor, got {type(t).__name__}")
    name, t = ("bias", b) if w.dtype == x.dtype and w.is_cpu == x.is_cpu else ("weight", w)
    if t.dtype != x.dtype:
        return RuntimeError(f"Input type ({x.dtype}) and {name} type ({t.dtype}) should be the same")
    return RuntimeError(
        f"Expected all tensors to be on the same device, but input is on {x.device} and {name} on {t.device}"
    )


def _is_observed(x, w, b):
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


def _is_transformed():
    """Whether what looks on derives something from the operators of this call, as functorch transforms, forward-mode AD
    and tracing do. Dispatch modes only see them."""
    return (
        _C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
        or _C._get_tracing_state() is not None
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


def _problem(operation, arguments, precision, shapes, channels_last):
    """shapes: of x, w and b (None without); channels_last: whether x and w are laid out so."""
    checked = map(hashable, operation.arguments, arguments, repeat(operation.name))
    return operation.problem(*checked, precision, *shapes, *channels_last)


def _native_if_safe(operation, backend, native, x, w, b, arguments):
    """The result of native, which a backend of that name or torch's looking on asks for; on a device whose limits
    refuse native's backward, or whose operators torch would differentiate into a refused one, that of the composite.
    There transforms meet sums tap by tap, which need no convolution: right, and slow for large kernels."""
    planning = device.planning(x.device.type)
    if planning is None:
        return native(x, w, b)
    if x.dim() == 4:
        return _native_if_safe(operation, backend, native, x[None], w, b, arguments).squeeze(0)
    shapes = [None if t is None else tuple(map(int, t.shape)) for t in (x, w, b)]  # a trace has tensors for extents
    problem = _problem(operation, arguments, None, shapes, (False, False))
    if backend == "native":
        refusal = npu.native_refusal(problem, x.dtype.itemsize, planning[0])
        if refusal is None:
            return native(x, w, b)
        name = operation.name
        warnings.warn(f"{name}: the native operator would be refused on {x.device} ({refusal}); the composite runs")
    if _is_transformed():
        return operation.plain(empty if problem.is_empty else composite.TAPS, problem, x, w, b)
    return operation.recorded(_passes("composite", problem, x), problem, x, w, b)
