# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions for the tests: a grid, random ones, and their native counterpart."""

from dataclasses import dataclass
from itertools import product

import torch
import torch.nn.functional as F
from hypothesis import strategies as st

from oil_gas_ops_prospect.conv3d_custom.functional import conv_transpose3d


@dataclass(frozen=True)
class Case:
    n: int
    ci: int
    co: int
    size: tuple
    kernel: tuple
    stride: tuple
    padding: tuple
    output_padding: tuple
    dilation: tuple
    groups: int
    bias: bool

    @property
    def arguments(self):
        return self.stride, self.padding, self.output_padding, self.groups, self.dilation

    @property
    def extents(self):
        axes = zip(self.size, self.kernel, self.stride, self.padding, self.output_padding, self.dilation)
        return tuple((i - 1) * s - 2 * p + l * (k - 1) + 1 + more for i, k, s, p, more, l in axes)

    @property
    def is_one(self):
        """Whether torch defines it."""
        axes = zip(self.output_padding, self.stride, self.dilation)
        return min(self.extents) > 0 and all(more < max(s, l) for more, s, l in axes)

    def tensors(self, make):
        shapes = [(self.n, self.ci, *self.size), (self.ci, self.co // self.groups, *self.kernel), (self.co,)]
        return [make(s) for s in shapes[: 2 + self.bias]]

    def gy(self, make):
        return make((self.n, self.co, *self.extents))


def ours(case, x, w, b=None):
    return conv_transpose3d(x, w, b, *case.arguments)


def native(case, x, w, b=None):
    return F.conv_transpose3d(x, w, b, *case.arguments)


def native_cropped(case, x, w, b):
    """The same without torch's output_padding, which it cannot differentiate three times."""
    full = F.conv_transpose3d(x, w, None, case.stride, 0, 0, case.groups, case.dilation)
    pads = zip(reversed(case.padding), reversed(case.output_padding))
    return F.pad(full, [n for p, more in pads for n in (-p, more - p)]) + b.reshape(1, -1, 1, 1, 1)


GRID = [
    case
    for (ci, co, groups), kernel, stride, dilation, padding, output_padding, bias in product(
        [(2, 3, 1), (4, 2, 2), (3, 3, 3)],
        [(1, 1, 1), (2, 3, 1), (3, 2, 4)],
        [(1, 1, 1), (2, 1, 3), (3, 2, 2)],
        [(1, 1, 1), (1, 2, 3)],
        [(0, 0, 0), (1, 0, 2)],
        [(0, 0, 0), (1, 0, 0), (0, 1, 2)],
        [True, False],
    )
    if (case := Case(2, ci, co, (2, 3, 4), kernel, stride, padding, output_padding, dilation, groups, bias)).is_one
]

# Output padding of a stride or more: the result ends beyond the last window.
BEYOND = [case for case in GRID if any(more >= s for more, s in zip(case.output_padding, case.stride))]


@st.composite
def cases(draw):
    triple = lambda least, most: draw(st.tuples(*[st.integers(least, most)] * 3))
    kernel, stride, dilation, size = triple(1, 4), triple(1, 4), triple(1, 3), triple(1, 5)
    output_padding = tuple(draw(st.integers(0, max(s, l) - 1)) for s, l in zip(stride, dilation))
    groups = draw(st.integers(1, 3))
    ci, co = (groups * draw(st.integers(1, 3)) for _ in range(2))
    bare = Case(
        draw(st.integers(1, 2)), ci, co, size, kernel, stride, (0, 0, 0), output_padding, dilation, groups,
        draw(st.booleans()),
    )  # fmt: skip
    padding = tuple(draw(st.integers(0, min(4, (o - 1) // 2))) for o in bare.extents)
    return Case(**{**bare.__dict__, "padding": padding})
