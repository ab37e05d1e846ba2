# SPDX-License-Identifier: Apache-2.0
"""The steps of a convolution in existing torch operators: for devices and dtypes without our kernels.

The native backward computes all gradients in one operator, which on some devices is refused or runs out of memory.
Here each gradient is a bounded step of its own:

    grad input   a convolution of gy, spread by the stride, with the flipped, group-transposed weight
    grad weight  the weight gradient operator alone (torch.nn.grad.conv3d_weight)
    grad bias    a sum over batch and space

The steps take tensors and a geometry (see _geometry.py), like those of the C core, and return new tensors. Padding
modes other than zeros, and unequal padding, are an explicit pad of the input with its exact adjoint."""

import torch
import torch.nn.functional as F

from ._geometry import PADDING_MODES

_HALVES = (torch.float16, torch.bfloat16)


def output_extents(x_shape, w_shape, geometry):
    """(od, oh, ow). Raises RuntimeError where a kernel is larger than the padded input."""
    stride, low, high, dilation, _, _, _ = geometry
    out = []
    for i, k, s, p, q, l in zip(x_shape[2:], w_shape[2:], stride, low, high, dilation):
        window = l * (k - 1) + 1
        if window > i + p + q:
            raise RuntimeError(f"conv3d(): kernel of {k} taps with dilation {l} can't be larger than the padded input "
                               f"({i} + {p} + {q})")
        out.append((i + p + q - window) // s + 1)
    return tuple(out)


def _sources(extent, low, high, mode):
    """For each padded coordinate of an axis, the coordinate of the input that it reads."""
    j = torch.arange(-low, extent + high)
    if mode == "reflect":
        j = j.abs()
        return torch.where(j >= extent, 2 * (extent - 1) - j, j)
    if mode == "replicate":
        return j.clamp(0, extent - 1)
    return j.remainder(extent)


def _pad(x, low, high, mode):
    """x continued by its padding."""
    if mode == "zeros":
        return F.pad(x, (low[2], high[2], low[1], high[1], low[0], high[0]))
    for axis, (p, q) in enumerate(zip(low, high), start=2):
        if p or q:
            x = x.index_select(axis, _sources(x.size(axis), p, q, mode).to(x.device))
    return x


def _unpad(gp, shape, low, high, mode):
    """The adjoint of _pad: gradients of padded elements are added to the elements they were read from."""
    for axis, (p, q) in enumerate(zip(low, high), start=2):
        if not (p or q):
            continue
        if mode == "zeros":
            gp = gp.narrow(axis, p, shape[axis])
            continue
        target = list(gp.shape)
        target[axis] = shape[axis]
        gp = gp.new_zeros(target).index_add(axis, _sources(shape[axis], p, q, mode).to(gp.device), gp)
    return gp


def _plain(geometry):
    """Whether the operators can pad by themselves: zeros, and as many on both sides."""
    return geometry[5] == 0 and geometry[1] == geometry[2]


def _padded(x, geometry):
    """x and the padding that is left to the operators."""
    if _plain(geometry):
        return x, geometry[1]
    return _pad(x, geometry[1], geometry[2], PADDING_MODES[geometry[5]]), (0, 0, 0)


def forward(x, w, b, geometry):
    """y of shape (n, co, od, oh, ow)."""
    output_extents(x.shape, w.shape, geometry)
    x, padding = _padded(x, geometry)
    return F.conv3d(x, w, b, geometry[0], padding, geometry[3], geometry[4])


def _transposed(w, groups):
    """The weight of the adjoint: taps reversed, input and output channels exchanged within each group."""
    co, ci, *taps = w.shape
    w = w.reshape(groups, co // groups, ci, *taps).transpose(1, 2)
    return w.reshape(groups * ci, co // groups, *taps).flip(2, 3, 4)


def _spread(gy, stride):
    """gy with stride - 1 zeros between neighbours on each axis."""
    if stride == (1, 1, 1):
        return gy
    shape = list(gy.shape)
    for axis, s in enumerate(stride, start=2):
        shape[axis] = (shape[axis] - 1) * s + 1
    wide = gy.new_zeros(shape)
    wide[:, :, ::stride[0], ::stride[1], ::stride[2]] = gy
    return wide


def _grad_padded(gy, extents, w, geometry):
    """Gradient of the padded input, of the given spatial extents."""
    stride, _, _, dilation, groups, _, _ = geometry
    # an axis with one output needs no spreading, whatever its stride
    stride = tuple(s if o > 1 else 1 for s, o in zip(stride, gy.shape[2:]))
    wide = _spread(gy, stride)
    low = tuple(l * (k - 1) for k, l in zip(w.shape[2:], dilation))
    high = tuple(i - g for i, g in zip(extents, wide.shape[2:]))
    wide = _pad(wide, low, high, "zeros")
    return F.conv3d(wide, _transposed(w, groups), None, 1, 0, dilation, groups)


def grad_input(gy, x_shape, w, geometry, channels_last):
    """gx of x_shape."""
    del channels_last  # the operators choose
    low, high = geometry[1], geometry[2]
    extents = tuple(i + p + q for i, p, q in zip(x_shape[2:], low, high))
    gp = _grad_padded(gy, extents, w, geometry)
    return _unpad(gp, x_shape, low, high, PADDING_MODES[geometry[5]])


def grad_weight(x, gy, w_shape, geometry, channels_last, with_bias):
    """gw of w_shape, and gb of shape (co,) or None."""
    del channels_last
    x, padding = _padded(x, geometry)
    gw = torch.nn.grad.conv3d_weight(x, w_shape, gy, geometry[0], padding, geometry[3], geometry[4])
    return gw, grad_bias(gy, x.shape, w_shape, geometry) if with_bias else None


def grad_bias(gy, x_shape, w_shape, geometry):
    """gb of shape (co,); half types are summed in float32."""
    del x_shape, w_shape, geometry
    if gy.dtype in _HALVES:
        return gy.sum((0, 2, 3, 4), dtype=torch.float32).to(gy.dtype)
    return gy.sum((0, 2, 3, 4))
