# SPDX-License-Identifier: Apache-2.0
"""The passes on the C core: CPU tensors of float32 or float64, any strides. Allocates outputs, hands over pointers."""

import warnings

import torch

try:
    from .. import _core
except ImportError as error:
    _core = None
    warnings.warn(f"oil_gas_ops_prospect: the C core cannot be loaded, torch operators take its place ({error})")

_DTYPES = {torch.float32: 0, torch.float64: 1}


def takes(dtype):
    """Whether CPU tensors of this dtype can run here."""
    return dtype in _DTYPES and _core is not None


def _plain(t):
    return t.resolve_neg() if t.is_neg() else t


def _empty(like, shape, layout):
    """A new tensor of like's dtype. new_empty of ints takes half the time of new_empty of a shape, and a third of that of
    torch.empty with its keywords."""
    if layout is torch.contiguous_format:
        return like.new_empty(*shape)
    return torch.empty(shape, dtype=like.dtype, memory_format=layout)


def forward(problem, x, w, b):
    """y, in problem.y_format. b may be None."""
    x, w = _plain(x), _plain(w)
    y = _empty(x, problem.y_shape, problem.y_format)
    if b is None:
        b_data, b_stride = 0, 0
    else:
        b = _plain(b)
        b_data, b_stride = b.data_ptr(), b.stride(0)
    _core.forward(
        problem.geometry, _DTYPES[x.dtype], problem.x_shape, problem.w_shape, x.data_ptr(), x.stride(), w.data_ptr(),
        w.stride(), b_data, b_stride, y.data_ptr(), y.stride(), torch.get_num_threads(),
    )  # fmt: skip
    return y


def grad_input(problem, gy, w, b=None):
    """gx, in problem.x_format; b, if any, is added to its channels."""
    gy, w = _plain(gy), _plain(w)
    gx = _empty(gy, problem.x_shape, problem.x_format)
    _core.grad_input(
        problem.geometry, _DTYPES[gy.dtype], problem.x_shape, problem.w_shape, gy.data_ptr(), gy.stride(),
        w.data_ptr(), w.stride(), gx.data_ptr(), gx.stride(), torch.get_num_threads(),
    )  # fmt: skip
    return gx if b is None else gx.add_(b.reshape(-1, 1, 1, 1))


def grad_weight(problem, x, gy, with_bias):
    """(gw, gb), gw in problem.w_format; gb is None unless with_bias."""
    x, gy = _plain(x), _plain(gy)
    gw = _empty(gy, problem.w_shape, problem.w_format)
    gb = gy.new_empty(problem.w_shape[0]) if with_bias else None
    _core.grad_weight(
        problem.geometry, _DTYPES[gy.dtype], problem.x_shape, problem.w_shape, x.data_ptr(), x.stride(),
        gy.data_ptr(), gy.stride(), gw.data_ptr(), gw.stride(), gb.data_ptr() if with_bias else 0, 1,
        torch.get_num_threads(),
    )  # fmt: skip
    return gw, gb


def grad_bias(problem, gy):
    """gb, summed in float64."""
    gy = _plain(gy)
    gb = gy.new_empty(problem.w_shape[0])
    _core.grad_bias(
        problem.geometry, _DTYPES[gy.dtype], problem.x_shape, problem.w_shape, gy.data_ptr(), gy.stride(),
        gb.data_ptr(), 1, torch.get_num_threads(),
    )  # fmt: skip
    return gb
