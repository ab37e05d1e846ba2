# SPDX-License-Identifier: Apache-2.0
"""The passes in torch operators, for every device and dtype: no pass is one giant kernel.

The backward of conv3d (autograd._Conv3dFunction.backward) takes three bounded steps, each a method here:

  grad input   a convolution of gy with the flipped, transposed weight: zeros between the elements of gy where the
               stride is above 1, negative padding cropped
  grad weight  the weight pass alone, in one of the forms of `forms`
  grad bias    a sum over batch and space

A planner (`steps`) says how a pass falls into pieces. Pieces are written into one tensor made beforehand, or added to it
(half types in float32), in a fixed order."""

from contextlib import nullcontext
from functools import lru_cache

import torch

from . import steps, windows
from .forms import CORRELATE, REDUCE, summed

_SPATIAL = (2, 3, 4)


def _own_dtype(t):
    """A context in which operators keep the dtype of their arguments, whatever autocast says where a backward happens to
    run. The arguments were cast before the Function, so that this is torch.amp.custom_bwd of custom_fwd(cast_inputs=...)."""
    return torch.autocast(t.device.type, enabled=False) if torch._C._is_any_autocast_enabled() else nullcontext()


def _window(conv, block, origin):
    """Positions of x that the windows of a block of outputs cover, on each axis. Output o's begins at o*s - origin."""
    _, _, d, w = block
    first = [at * s - p for at, s, p in zip((d[0], 0, w[0]), conv.s, origin)]
    return [(at, at + steps.reads(conv, a, o)) for a, (at, o) in enumerate(zip(first, _extents(conv, block)))]


def _channels(conv, block, total):
    """The range of channels, of so many, that a block is."""
    first, end = block[1]
    return first * total // conv.g, end * total // conv.g


def _extents(conv, block):
    """Extents of a block of outputs."""
    _, _, d, w = block
    return d[1] - d[0], conv.o[1], w[1] - w[0]


def _of_block(x, conv, block):
    """The samples and channels of x that a block needs."""
    return windows.part(windows.part(x, 0, *block[0]), 1, *_channels(conv, block, conv.ci))


def _outputs(t, conv, block):
    """The part of a tensor of outputs that a block is."""
    n, _, d, w = block
    for axis, span in ((0, n), (1, _channels(conv, block, conv.co)), (2, d), (4, w)):
        t = windows.part(t, axis, *span)
    return t


def _flipped(problem, w):
    """w as the weight of the transposed map: taps reversed, input and output channels of each group exchanged."""
    g, co, ci = problem.groups, problem.w_shape[0] // problem.groups, problem.w_shape[1]
    w = w.conj().reshape(g, co, ci, *problem.w_shape[2:]).transpose(1, 2)
    return w.reshape(g * ci, co, *problem.w_shape[2:]).flip(_SPATIAL)


class Composite:
    """The passes by a planner of `steps`. y, gx and gw come in the memory format of the problem."""

    def __init__(self, planner):
        self._planner = planner

    def forward(self, problem, x, w, b):
        """y; b may be None."""
        conv = steps.forward_of(problem, x.dtype.itemsize)
        with _own_dtype(x):
            pieces = self._pieces(conv, x, w, b, problem.pad_lo, windows.DENSE, problem.padding_mode)
            return self._assembled(conv, x, pieces, problem.y_format)

    def grad_input(self, problem, gy, w):
        """gx: the flipped convolution over the padded extents, then the adjoint of the padding."""
        conv = steps.grad_input_of(problem, gy.dtype.itemsize)
        padded = problem.padding_mode != "zeros"
        origin = [conv.window(a) - 1 - (0 if padded else problem.pad_lo[a]) for a in range(3)]
        with _own_dtype(gy):
            pieces = self._pieces(conv, gy, _flipped(problem, w), None, origin, problem.stride, "zeros")
            if padded:
                return self._folded(problem, conv, gy, pieces)
            return self._assembled(conv, gy, pieces, problem.x_format)

    def grad_weight(self, problem, x, gy, with_bias):
        """(gw, gb); gb is None unless with_bias."""
        with _own_dtype(gy):
            gw = (self._complex_grad_weight if gy.is_complex() else self._grad_weight)(problem, x, gy)
        return gw.contiguous(memory_format=problem.w_format), self.grad_bias(problem, gy) if with_bias else None

    def grad_bias(self, problem, gy):
        """gb; the half types are summed in float32."""
        return gy.sum((0, *_SPATIAL), dtype=summed(gy.dtype)).to(gy.dtype)

    def _pieces(self, conv, x, w, b, origin, spread, mode):
        """Blocks of outputs of a correlation, each with its values, in order."""
        plan = self._planner.correlate(conv)
        for block in plan.blocks(conv):
            seen = windows.read(_of_block(x, conv, block), _window(conv, block, origin), spread, mode)
            rows = _channels(conv, block, conv.co)
            of_w, of_b = windows.part(w, 0, *rows), None if b is None else windows.part(b, 0, *rows)
            yield block, CORRELATE[plan.form](conv, seen, of_w, of_b, _extents(conv, block), self._planner.padding)

    def _assembled(self, conv, like, pieces, layout):
        """All outputs of a correlation."""
        if self._planner.correlate(conv).count == 1:
            ((_, y),) = pieces
            return y.contiguous(memory_format=layout)
        shape = (conv.n, conv.co, *conv.o)
        y = torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=layout)
        for block, piece in pieces:
            _outputs(y, conv, block).copy_(piece)
        return y

    def _folded(self, problem, conv, like, pieces):
        """gx from the gradient of the padded input."""
        i, mode, dtype = problem.x_shape[2:], problem.padding_mode, summed(like.dtype)
        whole = self._planner.correlate(conv).count == 1
        gx = None if whole else like.new_zeros(problem.x_shape, dtype=dtype)
        for block, piece in pieces:
            n, _, d, w = block
            piece = piece.to(dtype)
            for a, first in ((1, 0), (2, w[0])):
                piece = windows.fold(piece, 2 + a, first - problem.pad_lo[a], i[a], mode)
            if whole:
                gx = windows.fold(piece, 2, -problem.pad_lo[0], i[0], mode)
            else:
                target = windows.part(windows.part(gx, 0, *n), 1, *_channels(conv, block, conv.co))
                windows.fold_into(target, piece, 2, d[0] - problem.pad_lo[0], mode)
        return gx.to(like.dtype).contiguous(memory_format=problem.x_format)

    def _grad_weight(self, problem, x, gy):
        conv = steps.forward_of(problem, gy.dtype.itemsize)
        plan = self._planner.reduce(conv)
        gw = None if plan.count == 1 else gy.new_zeros(problem.w_shape, dtype=summed(gy.dtype))
        for block in plan.blocks(conv):
            seen = windows.read(
                _of_block(x, conv, block), _window(conv, block, problem.pad_lo), mode=problem.padding_mode
            )
            part = REDUCE[plan.form](conv, seen, _outputs(gy, conv, block), self._planner.padding)
            if plan.count == 1:
                return part.to(gy.dtype)
            windows.part(gw, 0, *_channels(conv, block, conv.co)).add_(part)
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
    """The composite that takes the place of `passes` where torch batches a gradient, and differentiates what it batched: on
    a device with limits no convolution operator may be part of that, since its derivative is the one that is refused."""
    return TAPS if isinstance(passes, Composite) and passes is not WHOLE else WHOLE
