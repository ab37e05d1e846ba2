# SPDX-License-Identifier: Apache-2.0
"""The passes in torch operators, for every device and dtype: no pass is one giant kernel.

The backward of conv3d (autograd._Conv3dFunction.backward) takes three bounded steps, each a method here:

  grad input   a convolution of gy with the flipped, transposed weight: zeros between the elements of gy where the
               stride is above 1, negative padding cropped
  grad weight  the weight pass alone, in one of the forms of `forms`
  grad bias    a sum over batch and space

A planner (`steps`) says how a pass falls into pieces. Pieces are written into one tensor made beforehand, or added to
it (half types in float32), in a fixed order."""

from contextlib import nullcontext
from functools import lru_cache

import torch

from . import steps, windows
from .forms import CORRELATE, REDUCE, summed

_SPATIAL = (2, 3, 4)


def _own_dtype(t):
    """A context in which operators keep the dtype of their arguments, whatever autocast says where a backward happens
    to run; functional.ready has cast the arguments."""
    return torch.autocast(t.device.type, enabled=False) if torch._C._is_any_autocast_enabled() else nullcontext()


@lru_cache(maxsize=512)
def _of_forward(planner, problem, itemsize):
    """(conv, plan, pieces) of the forward."""
    conv = steps.forward_of(problem, itemsize)
    plan = planner.correlate(conv)
    return conv, plan, steps.pieces(conv, plan, problem.pad_lo)


@lru_cache(maxsize=512)
def _of_grad_input(planner, problem, itemsize):
    """The same of grad input. Its windows begin where the last tap reaches the output."""
    conv = steps.grad_input_of(problem, itemsize)
    plan = planner.correlate(conv)
    pad_lo = problem.pad_lo if problem.padding_mode == "zeros" else (0, 0, 0)
    return conv, plan, steps.pieces(conv, plan, [conv.window(a) - 1 - pad_lo[a] for a in range(3)])


@lru_cache(maxsize=512)
def _of_grad_weight(planner, problem, itemsize):
    """The same of grad weight, whose outputs are the elements of gy."""
    conv = steps.forward_of(problem, itemsize)
    plan = planner.reduce(conv)
    return conv, plan, steps.pieces(conv, plan, problem.pad_lo)


def _narrowed(t, *spans):
    """The spans (first, end) of t's first axes."""
    for axis, span in enumerate(spans):
        t = windows.part(t, axis, *span)
    return t


def _flipped(problem, w):
    """w as the weight of the transposed map: taps reversed, input and output channels of each group exchanged."""
    g, co, ci = problem.groups, problem.w_shape[0] // problem.groups, problem.w_shape[1]
    w = w.conj().reshape(g, co, ci, *problem.w_shape[2:]).transpose(1, 2)
    return w.reshape(g * ci, co, *problem.w_shape[2:]).flip(_SPATIAL)


def _assembled(done, shape, plan, like, layout):
    """All outputs of a correlation from its pieces."""
    if plan.count == 1:
        ((_, y),) = done
        return y.contiguous(memory_format=layout)
    y = torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=layout)
    for piece, values in done:
        _narrowed(y, piece.samples, piece.rows, *piece.outputs).copy_(values)
    return y


def _folded(done, problem, plan, like):
    """gx from the gradient of the padded input, which comes in pieces."""
    i, lo, mode, dtype = problem.x_shape[2:], problem.pad_lo, problem.padding_mode, summed(like.dtype)
    gx = None if plan.count == 1 else like.new_zeros(problem.x_shape, dtype=dtype)
    for piece, values in done:
        first = [span[0] - p for span, p in zip(piece.outputs, lo)]
        values = windows.fold(values.to(dtype), 3, first[1], i[1], mode)
        values = windows.fold(values, 4, first[2], i[2], mode)
        if gx is None:
            gx = windows.fold(values, 2, first[0], i[0], mode)
        else:
            windows.fold_into(_narrowed(gx, piece.samples, piece.rows), values, 2, first[0], mode)
    return gx.to(like.dtype).contiguous(memory_format=problem.x_format)


class Composite:
    """The passes by a planner of `steps`. y, gx and gw come in the memory format of the problem."""

    def __init__(self, planner):
        self._planner = planner

    def forward(self, problem, x, w, b):
        """y; b may be None."""
        conv, plan, pieces = _of_forward(self._planner, problem, x.dtype.itemsize)
        with _own_dtype(x):
            done = self._correlated(conv, plan, pieces, x, w, b, windows.DENSE, problem.padding_mode)
            return _assembled(done, problem.y_shape, plan, x, problem.y_format)

    def grad_input(self, problem, gy, w, b=None):
        """gx: the flipped convolution over the padded extents, then the adjoint of the padding. With zeros for padding
        b may be added to its channels."""
        conv, plan, pieces = _of_grad_input(self._planner, problem, gy.dtype.itemsize)
        with _own_dtype(gy):
            done = self._correlated(conv, plan, pieces, gy, _flipped(problem, w), b, problem.stride, "zeros")
            if problem.padding_mode == "zeros":
                return _assembled(done, problem.x_shape, plan, gy, problem.x_format)
            return _folded(done, problem, plan, gy)

    def grad_weight(self, problem, x, gy, with_bias):
        """(gw, gb); gb is None unless with_bias."""
        with _own_dtype(gy):
            gw = (self._complex_grad_weight if gy.is_complex() else self._grad_weight)(problem, x, gy)
        return gw.contiguous(memory_format=problem.w_format), self.grad_bias(problem, gy) if with_bias else None

    def grad_bias(self, problem, gy):
        """gb; the half types are summed in float32."""
        return gy.sum((0, *_SPATIAL), dtype=summed(gy.dtype)).to(gy.dtype)

    def _correlated(self, conv, plan, pieces, x, w, b, spread, mode):
        """(piece, its outputs) of a correlation, in order."""
        form = CORRELATE[plan.form]
        for piece in pieces:
            seen = windows.read(_narrowed(x, piece.samples, piece.inputs), piece.window, spread, mode)
            rows = None if b is None else _narrowed(b, piece.rows)
            yield piece, form(conv, seen, _narrowed(w, piece.rows), rows, piece.extents, self._planner.padding)

    def _grad_weight(self, problem, x, gy):
        conv, plan, pieces = _of_grad_weight(self._planner, problem, gy.dtype.itemsize)
        gw = None if plan.count == 1 else gy.new_zeros(problem.w_shape, dtype=summed(gy.dtype))
        for piece in pieces:
            x_of = windows.read(_narrowed(x, piece.samples, piece.inputs), piece.window, mode=problem.padding_mode)
            gy_of = _narrowed(gy, piece.samples, piece.rows, *piece.outputs)
            part = REDUCE[plan.form](conv, x_of, gy_of, self._planner.padding)
            if plan.count == 1:
                return part.to(gy.dtype)
            _narrowed(gw, piece.rows).add_(part)
        return gw.to(gy.dtype)

    def _complex_grad_weight(self, problem, x, gy):
        """From three real ones, as (a - ib)(c + id) = ac + bd + i(ad - bc)."""
        a, b, c, d = x.real, x.imag, gy.real, gy.imag
        ac, bd = self._grad_weight(problem, a, c), self._grad_weight(problem, b, d)
        return torch.complex(ac + bd, self._grad_weight(problem, a - b, c + d) - ac + bd)


# One step each; torch can differentiate and batch what they do.
WHOLE = Composite(steps.Whole("convolution", "operator"))
TAPS = Composite(steps.Whole("taps", "taps"))


@lru_cache
def planned(limits, budget):
    """The composite in steps that a device of these limits takes, within a budget."""
    return Composite(steps.Planner(limits, budget))


def transformable(passes):
    """The composite that takes the place of `passes` where torch batches a gradient, and differentiates what it
    batched: on a device with limits no convolution operator may be part of that, since its derivative is the one that
    is refused."""
    return TAPS if isinstance(passes, Composite) and passes is not WHOLE else WHOLE
