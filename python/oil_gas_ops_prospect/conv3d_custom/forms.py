# SPDX-License-Identifier: Apache-2.0
"""The two operations on one piece, each in several exact forms of torch operators.

  correlate  y[o] = b + sum over t < k of w[t] x[o*s + t*l]  'convolution': the forward operator; 'taps'
  reduce     gw[t] = sum over o of gy[o] x[o*s + t*l]        'operator': the weight pass of the native backward, masked;
                                                              'banded': matrices of gy by x, row by row; 'taps'

`conv` is the npu.Conv that the piece is part of. `seen` is (x, lo, hi): x and the zeros that go around it, of which an
operator gets at most `padding` as such. 'taps' and 'banded' read strided views and meet no limit of any convolution
operator; they sum half types in float32. 'taps' can be differentiated by torch to any order, in both modes, and
batched, without a convolution."""

from itertools import product

import torch
import torch.nn.functional as F

from . import windows

_SUM_IN_FLOAT32 = (torch.float16, torch.bfloat16)


def summed(dtype):
    """The dtype that sums are kept in."""
    return torch.float32 if dtype in _SUM_IN_FLOAT32 else dtype


# ---- correlate ----


def convolution(conv, seen, w, b, o, padding):
    x, padding = windows.even(*seen, padding)
    return F.conv3d(x, w, b, conv.s, padding, conv.l, x.shape[1] // w.shape[1])


def _grouped(t, g):
    return t.reshape(t.shape[0], g, t.shape[1] // g, *t.shape[2:])


def _rows(t):
    """t (n, g, c, d, h, w) as matrices of channels by positions."""
    return t.reshape(*t.shape[:3], -1)


def _taps(x, k, s, l, o):
    """For each tap its index, and the view of x that the outputs o see through it."""
    for tap in product(*map(range, k)):
        view = x
        for a in range(3):
            first = tap[a] * l[a]
            view = windows.part(view, 3 + a, first, first + (o[a] - 1) * s[a] + 1, s[a])
        yield tap, view


def correlate_taps(conv, seen, w, b, o, padding):
    co, ci, *k = w.shape
    x = windows.pad(*seen)
    g, dtype = x.shape[1] // ci, summed(x.dtype)
    x_of, w_of = _grouped(x.to(dtype), g), w.to(dtype).reshape(g, co // g, ci, *k)
    y = None
    for tap, view in _taps(x_of, k, conv.s, conv.l, o):
        of_tap = w_of[(..., *tap)]
        if ci == 1:
            term = view * of_tap[..., None, None]
        else:
            term = torch.matmul(of_tap, _rows(view)).reshape(*view.shape[:2], co // g, *o)
        y = term if y is None else y.add_(term)
    if b is not None:
        y = y + b.to(dtype).reshape(g, co // g, 1, 1, 1)
    return y.reshape(x.shape[0], co, *o).to(x.dtype)


# ---- reduce ----


def operator(conv, seen, gy, padding):
    x, padding = windows.even(*seen, padding)
    g = gy.shape[1] * conv.g // conv.co
    return torch.nn.grad.conv3d_weight(x, (gy.shape[1], x.shape[1] // g, *conv.k), gy, conv.s, padding, conv.l, g)


def _operands(conv, seen, gy):
    """x, zeros and all, and gy, with an axis for the groups, in the dtype of the sums."""
    g, dtype = gy.shape[1] * conv.g // conv.co, summed(gy.dtype)
    return _grouped(windows.pad(*seen).to(dtype), g), _grouped(gy.to(dtype), g)


def _weight(conv, of_taps):
    """gw from its values (g, co, ci) for each tap in turn."""
    g, co, ci = of_taps[0].shape
    return torch.stack(of_taps, -1).reshape(g * co, ci, *conv.k)


def reduce_taps(conv, seen, gy, padding):
    x, gy = _operands(conv, seen, gy)
    views = [view for _, view in _taps(x, conv.k, conv.s, conv.l, gy.shape[3:])]
    if x.shape[2] == 1:
        return _weight(conv, [(gy * view).sum((0, 3, 4, 5))[..., None] for view in views])
    return _weight(conv, [torch.matmul(_rows(gy), _rows(view).transpose(2, 3)).sum(0) for view in views])


def reduce_banded(conv, seen, gy, padding):
    """For each tap of depth and height the matrix B[o, i] = sum over rows of gy[row, o] x[row, i]; gw are its diagonals
    i = o*s + t*l."""
    x, gy = _operands(conv, seen, gy)
    n, g, co, od, oh, ow = gy.shape
    ci, iw = x.shape[2], x.shape[5]
    s, l, (kd, kh, kw) = conv.s, conv.l, conv.k
    of_outputs = gy.permute(1, 2, 5, 0, 3, 4).reshape(g, co * ow, n * od * oh)
    of_taps = []
    for _, view in _taps(x, (kd, kh, 1), (*s[:2], 1), (*l[:2], 1), (od, oh, iw)):
        of_inputs = view.permute(1, 0, 3, 4, 2, 5).reshape(g, n * od * oh, ci * iw)
        band = torch.bmm(of_outputs, of_inputs).view(g, co, ow, ci, iw)
        for t in range(kw):
            diagonal = band[..., t * l[2] : t * l[2] + (ow - 1) * s[2] + 1 : s[2]].diagonal(dim1=2, dim2=4)
            of_taps.append(diagonal.sum(-1))
    return _weight(conv, of_taps)


CORRELATE = {"convolution": convolution, "taps": correlate_taps}
REDUCE = {"operator": operator, "banded": reduce_banded, "taps": reduce_taps}
