# SPDX-License-Identifier: Apache-2.0
"""The passes in torch operators, for every device and dtype: no pass is one giant kernel.

The backward of conv3d (autograd._Conv3dFunction.backward) takes three bounded steps, each a function here:

  grad input   a convolution of gy with the flipped, transposed weight: zeros between the elements of gy where the
               stride is above 1, negative padding cropped
  grad weight  torch.nn.grad.conv3d_weight, which runs the weight pass alone
  grad bias    a sum over batch and space

All of it is differentiable by torch itself.
"""

import torch
import torch.nn.functional as F

_SPATIAL = (2, 3, 4)
_SUM_IN_FLOAT32 = (torch.float16, torch.bfloat16)


# ---- padding modes: an index map on each axis, and its adjoint ----


def _source(i, lo, hi, mode, device):
    """The element of an axis of extent i that each element of the padded axis shows."""
    at = torch.arange(-lo, i + hi, device=device)
    if mode == "replicate":
        return at.clamp(0, i - 1)
    if mode == "circular":
        return at.remainder(i)
    at = at.abs()
    return torch.where(at >= i, 2 * (i - 1) - at, at)


def _padded_axes(problem):
    if problem.padding_mode == "zeros":
        return []
    return [a for a in range(3) if problem.pad_lo[a] or problem.pad_hi[a]]


def _pad(problem, x):
    """x continued beyond its borders by the padding mode; x itself for zeros."""
    for a in _padded_axes(problem):
        i = problem.x_shape[2 + a]
        at = _source(i, problem.pad_lo[a], problem.pad_hi[a], problem.padding_mode, x.device)
        x = x.index_select(2 + a, at)
    return x


def _unpad(problem, gx):
    """The adjoint of _pad."""
    for a in _padded_axes(problem):
        i = problem.x_shape[2 + a]
        at = _source(i, problem.pad_lo[a], problem.pad_hi[a], problem.padding_mode, gx.device)
        shape = [*gx.shape[: 2 + a], i, *gx.shape[3 + a :]]
        gx = gx.new_zeros(shape).index_add(2 + a, at, gx)
    return gx


def _zero_padding(problem):
    """Low and high padding that is left to do once _pad has run."""
    if problem.padding_mode == "zeros":
        return problem.pad_lo, problem.pad_hi
    return (0, 0, 0), (0, 0, 0)


# ---- windows of a tensor that is zero outside its extents ----


def _crop(t, lo, hi):
    """t without its first -lo and last -hi elements on each spatial axis where these are negative, and the padding that
    is left. An axis may be cropped whole."""
    for a in range(3):
        extent = t.shape[2 + a]
        first = min(max(0, -lo[a]), extent)
        last = max(min(extent, extent + hi[a]), first)
        if last - first < extent:
            t = t.narrow(2 + a, first, last - first)
    return t, [max(0, p) for p in lo], [max(0, q) for q in hi]


def _even_padding(t, lo, hi):
    """t with what one side has above the other added as zeros; and the padding that both sides share."""
    both = [min(p, q) for p, q in zip(lo, hi)]
    if list(lo) != both or list(hi) != both:
        t = F.pad(t, [n - m for p, q, m in reversed([*zip(lo, hi, both)]) for n in (p, q)])
    return t, both


def _dilate(gy, stride):
    """gy with stride - 1 zeros between its elements."""
    if stride == (1, 1, 1):
        return gy
    extents = [(o - 1) * s + 1 for o, s in zip(gy.shape[2:], stride)]
    out = gy.new_zeros([*gy.shape[:2], *extents])
    out[..., :: stride[0], :: stride[1], :: stride[2]] = gy
    return out


def _conv3d(x, w, b, stride, padding, dilation, groups):
    """F.conv3d in the dtype of its arguments, whatever autocast says where a backward happens to run."""
    if torch._C._is_any_autocast_enabled():
        with torch.autocast(x.device.type, enabled=False):
            return F.conv3d(x, w, b, stride, padding, dilation, groups)
    return F.conv3d(x, w, b, stride, padding, dilation, groups)


# ---- the passes ----


def forward(problem, x, w, b):
    """y; b may be None."""
    x, padding = _even_padding(_pad(problem, x), *_zero_padding(problem))
    y = _conv3d(x, w, b, problem.stride, padding, problem.dilation, problem.groups)
    return y.contiguous(memory_format=problem.y_format)


def _flipped(problem, w):
    """w as the weight of the transposed map: taps reversed, input and output channels of each group exchanged."""
    g, co, ci = problem.groups, problem.w_shape[0] // problem.groups, problem.w_shape[1]
    w = w.conj().reshape(g, co, ci, *problem.w_shape[2:]).transpose(1, 2)
    return w.reshape(g * ci, co, *problem.w_shape[2:]).flip(_SPATIAL)


def grad_input(problem, gy, w):
    """gx: the flipped convolution over the padded extents, then the adjoint of the padding."""
    pad_lo, pad_hi = _zero_padding(problem)
    extent = [
        i if problem.padding_mode == "zeros" else i + p + q
        for i, p, q in zip(problem.x_shape[2:], problem.pad_lo, problem.pad_hi)
    ]
    reach = [l * (k - 1) for l, k in zip(problem.dilation, problem.w_shape[2:])]
    gy = _dilate(gy, problem.stride)
    lo = [r - p for r, p in zip(reach, pad_lo)]
    hi = [i + r - n - p for i, r, n, p in zip(extent, reach, gy.shape[2:], lo)]
    gy, lo, hi = _crop(gy, lo, hi)
    if 0 in gy.shape:
        return gy.new_zeros(problem.x_shape)
    gy, padding = _even_padding(gy, lo, hi)
    gx = _conv3d(gy, _flipped(problem, w), None, (1, 1, 1), padding, problem.dilation, problem.groups)
    return _unpad(problem, gx).contiguous(memory_format=problem.x_format)


def _grad_weight(problem, x, gy):
    x, padding = _even_padding(_pad(problem, x), *_zero_padding(problem))
    return torch.nn.grad.conv3d_weight(
        x, problem.w_shape, gy, problem.stride, padding, problem.dilation, problem.groups
    )


def _complex_grad_weight(problem, x, gy):
    """From three real ones, as (a - ib)(c + id) = ac + bd + i(ad - bc)."""
    a, b, c, d = x.real, x.imag, gy.real, gy.imag
    ac, bd = _grad_weight(problem, a, c), _grad_weight(problem, b, d)
    return torch.complex(ac + bd, _grad_weight(problem, a - b, c + d) - ac + bd)


def grad_weight(problem, x, gy, with_bias):
    """(gw, gb); gb is None unless with_bias."""
    gw = (_complex_grad_weight if gy.is_complex() else _grad_weight)(problem, x, gy)
    return gw.contiguous(memory_format=problem.w_format), grad_bias(problem, gy) if with_bias else None


def grad_bias(problem, gy):
    """gb; the half types are summed in float32."""
    if gy.dtype in _SUM_IN_FLOAT32:
        return gy.sum((0, 2, 3, 4), dtype=torch.float32).to(gy.dtype)
    return gy.sum((0, 2, 3, 4))
