# SPDX-License-Identifier: Apache-2.0
"""The steps of a convolution on the C core: float32 and float64 CPU tensors of any strides, five dimensions.

A step takes tensors and a geometry (see _geometry.py) and returns new tensors. It never copies its operands."""

import torch

from .. import _core

_DTYPES = {torch.float32: 0, torch.float64: 1}
_threads = torch.get_num_threads


def supports(x):
    """Whether the core takes tensors like x."""
    return x.dtype in _DTYPES and x.device.type == "cpu" and x.layout is torch.strided


def is_channels_last(t):
    """Whether t is laid out with its channels innermost, judged by the axes longer than 1 (as ATen does: a tensor
    with one channel, or with one voxel, is plain)."""
    stride = t.stride()
    return stride[1] == 1 and t.size(1) > 1 and t.is_contiguous(memory_format=torch.channels_last_3d) \
        and not t.is_contiguous()


def empty(shape, like, channels_last):
    """An uninitialised tensor of a shape, with the dtype and device of `like`."""
    layout = torch.channels_last_3d if channels_last else torch.contiguous_format
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=layout)


def forward(x, w, b, geometry):
    """y of shape (n, co, od, oh, ow)."""
    y = empty(_core.output_shape(geometry, x.shape, w.shape), x, is_channels_last(x) or is_channels_last(w))
    bias, step = (b.data_ptr(), b.stride(0)) if b is not None else (0, 0)
    _core.forward(geometry, _DTYPES[x.dtype], x.shape, w.shape, x.data_ptr(), x.stride(), w.data_ptr(), w.stride(),
                  bias, step, y.data_ptr(), y.stride(), _threads())
    return y


def grad_input(gy, x_shape, w, geometry, channels_last):
    """gx of x_shape."""
    gx = empty(x_shape, gy, channels_last)
    _core.grad_input(geometry, _DTYPES[gy.dtype], x_shape, w.shape, gy.data_ptr(), gy.stride(), w.data_ptr(),
                     w.stride(), gx.data_ptr(), gx.stride(), _threads())
    return gx


def grad_weight(x, gy, w_shape, geometry, channels_last, with_bias):
    """gw of w_shape, and gb of shape (co,) from the same pass, or None."""
    gw = empty(w_shape, x, channels_last)
    gb = torch.empty(w_shape[0], dtype=x.dtype) if with_bias else None
    _core.grad_weight(geometry, _DTYPES[x.dtype], x.shape, w_shape, x.data_ptr(), x.stride(), gy.data_ptr(),
                      gy.stride(), gw.data_ptr(), gw.stride(), gb.data_ptr() if with_bias else 0, 1, _threads())
    return gw, gb


def grad_bias(gy, x_shape, w_shape, geometry):
    """gb of shape (co,)."""
    gb = torch.empty(w_shape[0], dtype=gy.dtype)
    _core.grad_bias(geometry, _DTYPES[gy.dtype], x_shape, w_shape, gy.data_ptr(), gy.stride(), gb.data_ptr(), 1,
                    _threads())
    return gb
