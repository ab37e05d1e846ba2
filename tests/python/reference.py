# SPDX-License-Identifier: Apache-2.0
"""Native references and a description of random convolutions, for the tests."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from hypothesis import strategies as st

from oil_gas_ops_prospect.conv3d_custom.device import function_backend
from oil_gas_ops_prospect.conv3d_custom.functional import convolve_by

MODES = ["zeros", "reflect", "replicate", "circular"]


def convolve(x, w, b=None, stride=1, padding=0, dilation=1, groups=1, mode="zeros"):
    """Our convolution with a padding mode, as the module calls it."""
    backend = function_backend(x.device.type, x.dtype)
    return convolve_by(backend, x, w, b, stride, padding, dilation, groups, mode, None)


@dataclass(frozen=True)
class Case:
    n: int
    groups: int
    ci_g: int
    co_g: int
    extent: tuple
    kernel: tuple
    stride: tuple
    padding: tuple
    dilation: tuple
    mode: str
    bias: bool
    x_last: bool
    w_last: bool

    def tensors(self, dtype, integers=False):
        """x, w, b (or None), requiring grad; small integers whose sums are exact in any order, or normal numbers."""
        make = (lambda shape: torch.randint(-4, 5, shape).to(dtype)) if integers else \
            (lambda shape: torch.randn(shape, dtype=dtype))
        x = make((self.n, self.groups * self.ci_g, *self.extent))
        w = make((self.groups * self.co_g, self.ci_g, *self.kernel))
        if self.x_last:
            x = x.contiguous(memory_format=torch.channels_last_3d)
        if self.w_last:
            w = w.contiguous(memory_format=torch.channels_last_3d)
        b = make((self.groups * self.co_g,)) if self.bias else None
        return [t if t is None else t.requires_grad_() for t in (x, w, b)]


def native(x, w, b, case):
    """The same convolution by torch's own operators, padding modes by explicit padding."""
    p = case.padding
    if case.mode == "zeros":
        return F.conv3d(x, w, b, case.stride, p, case.dilation, case.groups)
    padded = F.pad(x, (p[2], p[2], p[1], p[1], p[0], p[0]), mode=case.mode)
    return F.conv3d(padded, w, b, case.stride, 0, case.dilation, case.groups)


def three(low, high):
    return st.tuples(*[st.integers(low, high)] * 3)


@st.composite
def cases(draw):
    """Any kernel, stride, dilation, groups, padding mode and layout, small enough for the native reference."""
    kernel, dilation = draw(three(1, 4)), draw(three(1, 3))
    window = [l * (k - 1) + 1 for k, l in zip(kernel, dilation)]
    mode = draw(st.sampled_from(MODES))
    extent = tuple(draw(st.integers(1, 9)) for _ in range(3))
    least = [max(0, -(-(v - i) // 2)) for v, i in zip(window, extent)]
    most = [{"zeros": 4, "reflect": i - 1, "replicate": 4, "circular": i}[mode] for i in extent]
    if any(a > b for a, b in zip(least, most)):
        extent, least = tuple(v + 1 for v in window), [0, 0, 0]
        most = [min(3, i - 1) for i in extent]
    padding = tuple(draw(st.integers(a, b)) for a, b in zip(least, most))
    return Case(draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3)),
                extent, kernel, draw(three(1, 3)), padding, dilation, mode, draw(st.booleans()), draw(st.booleans()),
                draw(st.booleans()))
