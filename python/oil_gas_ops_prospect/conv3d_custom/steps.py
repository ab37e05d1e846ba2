# SPDX-License-Identifier: Apache-2.0
"""Planning: a pass as steps that a device takes. Plain integers in, plain integers out.

Two operations are planned: `correlate` (forward, and grad input as a forward of gy) and `reduce` (grad weight). L1 cuts
the last axis, which alone its load grows with; the volume budget cuts samples, then depth slabs, then whole groups. A
chunk keeps more than C0 channels where there are: with fewer, the device brings in the kernel's depth. A step of one
plane of one sample is never cut further, so the volume budget may be exceeded there."""

from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from . import npu

# Bytes of a step's input and output on the device: a layer of 14 channels on 296x296x168 in one step.
VOLUME = 1 << 31


@dataclass(frozen=True, slots=True)
class Budget:
    """Bytes that a step may take: of L1, and of memory for its input and output in the device's layout."""

    l1: int = npu.A2.l1 // 2
    volume: int = VOLUME


@dataclass(frozen=True, slots=True)
class Steps:
    """How a pass runs. form: 'convolution' or 'taps' for correlate, 'operator', 'banded' or 'taps' for reduce. The
    numbers say into how many parts of even size an axis of the output falls; load is the L1 of the largest step in
    bytes."""

    form: str
    samples: int = 1
    groups: int = 1
    depth: int = 1
    width: int = 1
    load: int = 0

    @property
    def count(self):
        return self.samples * self.groups * self.depth * self.width


class Piece(NamedTuple):
    """One step as spans (first, end): samples, input channels, output channels; of each spatial axis the outputs, and
    the positions of x that their windows cover."""

    samples: tuple[int, int]
    inputs: tuple[int, int]
    rows: tuple[int, int]
    outputs: tuple[tuple[int, int], ...]
    window: tuple[tuple[int, int], ...]

    @property
    def extents(self):
        """Of the outputs."""
        return tuple(end - first for first, end in self.outputs)


def _spans(extent, parts):
    """[0, extent) in parts whose sizes differ by one at most."""
    return [(j * extent // parts, (j + 1) * extent // parts) for j in range(parts)]


def _window(conv, origin, axis, span):
    first = span[0] * conv.s[axis] - origin[axis]
    return first, first + reads(conv, axis, span[1] - span[0])


def pieces(conv, plan, origin):
    """The steps of a plan in their order. The window of output o begins at position o*s - origin of x."""
    parts = (conv.n, plan.samples), (conv.g, plan.groups), (conv.o[0], plan.depth), (conv.o[2], plan.width)
    cut = []
    for samples, groups, depth, width in product(*(_spans(*part) for part in parts)):
        inputs, rows = (tuple(g * channels // conv.g for g in groups) for channels in (conv.ci, conv.co))
        outputs = (depth, (0, conv.o[1]), width)
        window = tuple(_window(conv, origin, axis, span) for axis, span in enumerate(outputs))
        cut.append(Piece(samples, inputs, rows, outputs, window))
    return cut


def reads(conv, axis, outputs):
    """Extent of the (padded) input that a part of an output axis reads; the whole axis leaves nothing unread."""
    return conv.i[axis] if outputs == conv.o[axis] else (outputs - 1) * conv.s[axis] + conv.window(axis)


# ---- a pass as a convolution of a padded tensor ----


def forward_of(problem, itemsize):
    """The forward over the padded input. Grad weight reads and cuts the same."""
    padded = tuple(i + p + q for i, p, q in zip(problem.x_shape[2:], problem.pad_lo, problem.pad_hi))
    return npu.Conv(
        problem.x_shape[0], problem.groups, problem.x_shape[1], problem.w_shape[0], padded, tuple(problem.y_shape[2:]),
        tuple(problem.w_shape[2:]), problem.stride, problem.dilation, itemsize,
    )  # fmt: skip


def grad_input_of(problem, itemsize):
    """The forward, of stride 1 and with the flipped weight, that grad input is: over gy with zeros between its
    elements. Its outputs are gx, or with a padding mode other than zeros the gradient of the padded input."""
    forward = forward_of(problem, itemsize)
    o = tuple(problem.x_shape[2:]) if problem.padding_mode == "zeros" else forward.i
    i = tuple(n + forward.window(axis) - 1 for axis, n in enumerate(o))
    return replace(forward, ci=forward.co, co=forward.ci, i=i, o=o, s=(1, 1, 1))


# ---- plans ----


def _most(extent, fits):
    """The largest size up to extent that fits, 0 if none does. What fits, fits when smaller."""
    return bisect_left(range(1, extent + 1), True, key=lambda size: not fits(size))


def _parts(extent, most):
    return -(-extent // max(1, most))


def _volume(conv, samples, groups, planes, columns, limits):
    block = npu.c0(conv.itemsize, limits)
    ci, co = (-(-c * groups // conv.g // block) * block for c in (conv.ci, conv.co))
    read = ci * reads(conv, 0, planes) * conv.i[1] * reads(conv, 2, columns)
    return samples * conv.itemsize * (read + co * planes * conv.o[1] * columns)


def _groups_at_least(conv, limits):
    """Groups of the smallest chunk."""
    channels = min(conv.ci, conv.co) // conv.g
    return min(conv.g, npu.c0(conv.itemsize, limits) // channels + 1)


def _fit_volume(conv, form, columns, limits, budget):
    """Steps of this form on so many columns."""
    width = _parts(conv.o[2], columns)
    columns = -(-conv.o[2] // width)

    def fits(samples, planes, groups):
        return _volume(conv, samples, groups, planes, columns, limits) <= budget.volume

    samples = _most(conv.n, lambda n: fits(n, conv.o[0], conv.g))
    planes = _most(conv.o[0], lambda d: fits(1, d, conv.g)) if samples == 0 else conv.o[0]
    groups = _most(conv.g, lambda g: fits(1, 1, g)) if planes == 0 else conv.g
    groups = min(_parts(conv.g, groups), conv.g // _groups_at_least(conv, limits))
    return Steps(form, _parts(conv.n, samples), groups, _parts(conv.o[0], planes), width)


def correlate(conv, limits, budget):
    """Steps of a forward: the operator on as many columns as its load allows, or tap by tap where it takes none."""

    def load(columns):
        return npu.forward_bytes(conv, reads(conv, 2, columns), limits)

    columns = 0
    if not npu.forward_complaints(conv, limits):
        columns = _most(conv.o[2], lambda c: load(c) <= budget.l1)
    if columns == 0:
        return _fit_volume(conv, "taps", conv.o[2], limits, budget)
    steps = _fit_volume(conv, "convolution", columns, limits, budget)
    return replace(steps, load=load(_parts(conv.o[2], steps.width)))


def reduce(conv, limits, budget):
    """Steps of a grad weight: the masked operator on pieces at least as wide as the kernel; else, for at most C0
    channels a group, banded matrices; else tap by tap."""

    def load(columns):
        return npu.grad_weight_bytes(conv, reads(conv, 2, columns), limits)

    worthwhile = min(conv.o[2], conv.window(2))
    columns = 0
    if not npu.grad_weight_complaints(conv, limits):
        columns = _most(conv.o[2], lambda c: load(c) <= budget.l1)
    if columns >= worthwhile:
        steps = _fit_volume(conv, "operator", columns, limits, budget)
        return replace(steps, load=load(_parts(conv.o[2], steps.width)))
    columns = _band(conv, limits, budget)
    return _fit_volume(conv, "banded" if columns else "taps", columns or conv.o[2], limits, budget)


def _band(conv, limits, budget):
    """Columns of a banded matrix, 0 where it does not pay or fit. A matrix of c columns of gy by the columns that they
    read holds `kernel width` diagonals of use: c near the window's extent bounds the waste by about two."""
    ci, co = conv.ci // conv.g, conv.co // conv.g
    if max(ci, co) > npu.c0(conv.itemsize, limits):
        return 0
    columns = min(conv.o[2], max(16, conv.window(2)))  # 16: the matrix unit's own block
    entries = conv.g * ci * co
    return _most(columns, lambda c: 4 * entries * c * reads(conv, 2, c) <= budget.volume)


# ---- planners ----


class Planner:
    """Plans for a device's limits within a budget."""

    def __init__(self, limits, budget):
        self.limits, self.budget = limits, budget
        self.padding = limits.padding

    def correlate(self, conv):
        return correlate(conv, self.limits, self.budget)

    def reduce(self, conv):
        return reduce(conv, self.limits, self.budget)


class Whole:
    """One step, whatever it takes; forms: those of correlate and reduce."""

    padding = None

    def __init__(self, correlate, reduce):
        self._steps = Steps(correlate), Steps(reduce)

    def correlate(self, conv):
        return self._steps[0]

    def reduce(self, conv):
        return self._steps[1]
