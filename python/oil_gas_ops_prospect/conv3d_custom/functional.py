# SPDX-License-Identifier: Apache-2.0
"""conv3d whose backward runs in bounded steps: grad input, grad weight and grad bias each on their own."""

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad
from torch.nn import Parameter

from . import composite
from ._geometry import geometry as make_geometry
from .device import CORE_AVAILABLE, steps_backend

if CORE_AVAILABLE:
    from . import _steps as core

__all__ = ["conv3d"]

_grad_enabled = torch.is_grad_enabled
_autocast_enabled = torch.is_autocast_enabled
_is_compiling = torch.compiler.is_compiling
_tracing_state = torch._C._get_tracing_state
_func_level = getattr(torch._C._functorch, "peek_interpreter_stack", lambda: None)
_will_execute = getattr(torch._C, "_will_engine_execute_node", None)
_PLAIN = (Tensor, Parameter)


# ---- autograd ----

def _is_wanted(ctx, argument):
    """Whether the gradient of a tensor argument will be used. needs_input_grad alone is True for every argument that
    requires grad, also under autograd.grad(y, x); the engine knows better. It raises for a leaf that it captures."""
    if not ctx.needs_input_grad[argument]:
        return False
    if _will_execute is None:
        return True
    node = ctx.next_functions[argument][0]
    try:
        return node is not None and _will_execute(node)
    except RuntimeError:
        return True


def _is_last(t):
    return t.dim() == 5 and not t.is_contiguous() and t.is_contiguous(memory_format=torch.channels_last_3d)


class _Conv3dFunction(Function):
    """y = conv3d(x, w) + b. Saves x only where w needs a gradient, and w only where x does."""

    @staticmethod
    def forward(ctx, x, w, b, geometry, steps):
        ctx.set_materialize_grads(False)
        needs_x, needs_w = ctx.needs_input_grad[:2]
        ctx.save_for_backward(x if needs_w else None, w if needs_x else None)
        ctx.call = (tuple(x.shape), tuple(w.shape), _is_last(x), _is_last(w), geometry, steps)
        return steps.forward(x, w, b, geometry)

    @staticmethod
    def backward(ctx, gy):
        if gy is None:
            return None, None, None, None, None
        x, w = ctx.saved_tensors
        needs = ctx.needs_input_grad
        if needs[0] + needs[1] + needs[2] == 1:
            wanted = tuple(needs[:3])
        else:
            wanted = tuple(needs[k] and _is_wanted(ctx, k) for k in range(3))
        if _grad_enabled():
            gx, gw, gb = _Conv3dBackward.apply(gy, x if wanted[1] else None, w if wanted[0] else None, wanted, ctx.call)
        else:
            gx, gw, gb = _gradients(gy, x, w, wanted, ctx.call)
        return gx, gw, gb, None, None


def _gradients(gy, x, w, wanted, call):
    """(gx, gw, gb), None for those not wanted."""
    x_shape, w_shape, x_last, w_last, geometry, steps = call
    want_x, want_w, want_b = wanted
    gx = gw = gb = None
    if want_x:
        gx = steps.grad_input(gy, x_shape, w, geometry, x_last)
    if want_w:
        gw, gb = steps.grad_weight(x, gy, w_shape, geometry, w_last, want_b)
    elif want_b:
        gb = steps.grad_bias(gy, x_shape, w_shape, geometry)
    return gx, gw, gb


class _Conv3dBackward(Function):
    """The three gradients as a differentiable function of gy, x and w. The map is bilinear in x and w, so its own
    backward is made of the same passes:

        ggy = C(ggx, w) + C(x, ggw) + ggb,    g2x = C'(gy, ggw),    g2w = reduce(ggx, gy)
    """

    @staticmethod
    def forward(ctx, gy, x, w, wanted, call):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(gy, x, w)
        ctx.call = call
        return _gradients(gy, x, w, wanted, call)

    @staticmethod
    def backward(ctx, ggx, ggw, ggb):
        gy, x, w = ctx.saved_tensors
        geometry, steps = ctx.call[4:]
        needs_gy, needs_x, needs_w = ctx.needs_input_grad[:3]
        ggy = g2x = g2w = None
        if needs_gy:
            if ggx is not None:
                ggy = _Conv3dFunction.apply(ggx, w, ggb, geometry, steps)
            if ggw is not None:
                bias = ggb if ggy is None else None
                part = _Conv3dFunction.apply(x, ggw, bias, geometry, steps)
                ggy = part if ggy is None else ggy + part
            if ggy is None and ggb is not None:
                ggy = ggb.reshape(1, -1, 1, 1, 1).expand(gy.shape)
        if needs_x and ggw is not None:
            g2x = _Conv3dBackward.apply(gy, None, ggw, (True, False, False), ctx.call)[0]
        if needs_w and ggx is not None:
            g2w = _Conv3dBackward.apply(gy, ggx, None, (False, True, False), ctx.call)[1]
        return ggy, g2x, g2w, None, None


# ---- arguments ----

def _check(x, w, b):
    if w.dim() != 5:
        raise RuntimeError(f"conv3d(): weight: expected 5 dimensions (co, ci/groups, kd, kh, kw), got shape "
                           f"{list(w.shape)}")
    if x.dim() not in (4, 5):
        raise RuntimeError(f"conv3d(): input: expected 5 dimensions (n, ci, d, h, w), or 4 without a batch, got shape "
                           f"{list(x.shape)}")
    if x.dtype != w.dtype:
        raise RuntimeError(f"conv3d(): input and weight: expected the same dtype, got {x.dtype} and {w.dtype}")
    if x.device != w.device:
        raise RuntimeError(f"conv3d(): input and weight: expected the same device, got {x.device} and {w.device}")
    if b is not None:
        if b.dim() != 1 or b.size(0) != w.size(0):
            raise RuntimeError(f"conv3d(): bias: expected shape [{w.size(0)}], got {list(b.shape)}")
        if b.dtype != x.dtype:
            raise RuntimeError(f"conv3d(): input and bias: expected the same dtype, got {x.dtype} and {b.dtype}")
        if b.device != x.device:
            raise RuntimeError(f"conv3d(): input and bias: expected the same device, got {x.device} and {b.device}")


def _autocast(tensors, device_type):
    """The tensors in the autocast dtype of their device, as torch casts the arguments of its own convolutions."""
    dtype = torch.get_autocast_dtype(device_type)
    return tuple(t.to(dtype) if t is not None and t.is_floating_point() and t.dtype != torch.float64 else t
                 for t in tensors)


def _conv3d(x, w, b, stride, padding, dilation, groups, padding_mode="zeros", precision=None):
    """conv3d with a padding mode: the padding is part of the convolution, no padded copy is made or saved on the C
    core. Shapes, dtypes and errors as in `conv3d`; padding_mode as in torch.nn.Conv3d."""
    if _autocast_enabled(x.device.type):
        x, w, b = _autocast((x, w, b), x.device.type)
    _check(x, w, b)
    geometry = make_geometry(stride, padding, dilation, groups, w.shape[2:], padding_mode, precision)
    if x.dim() == 4:
        return _dispatch(x.unsqueeze(0), w, b, geometry).squeeze(0)
    return _dispatch(x, w, b, geometry)


def _dispatch(x, w, b, geometry):
    if geometry[5] == 1 or geometry[5] == 3:
        _check_padding(x, geometry)
    if _is_compiling() or _tracing_state() is not None:
        return composite.forward(x, w, b, geometry)
    steps = composite
    if steps_backend(x.device.type, x.dtype) == "c" and type(x) in _PLAIN and type(w) in _PLAIN and core.supports(x):
        steps = core
    needs_grad = _grad_enabled() and (x.requires_grad or w.requires_grad or (b is not None and b.requires_grad))
    if needs_grad or forward_ad._current_level >= 0 or _func_level() is not None:
        return _Conv3dFunction.apply(x, w, b, geometry, steps)
    return steps.forward(x, w, b, geometry)


def _check_padding(x, geometry):
    """Reflect reads each element at most once per side, circular wraps at most once: as torch's own pad."""
    mode, most_off = ("reflect", 1) if geometry[5] == 1 else ("circular", 0)
    for axis, i, p, q in zip(("depth", "height", "width"), x.shape[2:], geometry[1], geometry[2]):
        if max(p, q) > i - most_off:
            raise RuntimeError(f"conv3d(): padding: {mode} needs at most {i - most_off} on the {axis} axis of extent "
                               f"{i}, got {p} and {q}")


def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, *, precision=None):
    """3-D convolution, as torch.nn.functional.conv3d, with forward and backward of this package.

    float32 and float64 CPU tensors run on the C core, in scratch memory bounded beforehand; everything else runs in
    bounded steps of torch operators (composite.py). First and second derivatives are exact.

    Args:
        input: (n, ci, d, h, w), or (ci, d, h, w) without a batch; any strides.
        weight: (co, ci / groups, kd, kh, kw); any strides.
        bias: (co,) or None.
        stride, dilation: an int or three (depth, height, width), at least 1.
        padding: an int or three, at least 0; "valid" (none); or "same" (stride 1; the odd one at the end).
        groups: divides ci and co.
        precision: None or "auto", "normwise", "elementwise": how the C core may trade errors for speed.

    Returns:
        (n, co, od, oh, ow) with o = (i + 2*padding - dilation*(k - 1) - 1) // stride + 1, in channels_last_3d where
        input or weight is.

    Raises:
        RuntimeError: shapes, dtypes, devices or values that do not fit together; the message names the argument.
        TypeError: arguments of another type.
        ValueError: an unknown precision.
    """
    return _conv3d(input, weight, bias, stride, padding, dilation, groups, "zeros", precision)
