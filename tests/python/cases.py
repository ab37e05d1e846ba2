# SPDX-License-Identifier: Apache-2.0
"""Convolutions for the tests: random ones, their native counterpart, and how far rounding may carry a result."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from hypothesis import strategies as st

from oil_gas_ops_prospect.conv3d_custom.functional import convolve_by, conv3d


@dataclass(frozen=True)
class Case:
    n: int
    ci: int
    co: int
    size: tuple
    kernel: tuple
    stride: tuple
    padding: object
    dilation: tuple
    groups: int
    mode: str
    bias: bool

    def tensors(self, make):
        shapes = [(self.n, self.ci, *self.size), (self.co, self.ci // self.groups, *self.kernel), (self.co,)]
        return [make(s) for s in shapes[: 2 + self.bias]]

    def pads(self):
        """Low and high padding of each axis."""
        if self.padding == "valid":
            return [(0, 0)] * 3
        if self.padding == "same":
            total = [l * (k - 1) for l, k in zip(self.dilation, self.kernel)]
            return [(t // 2, t - t // 2) for t in total]
        return [(p, p) for p in self.padding]


@st.composite
def cases(draw, modes=("zeros", "reflect", "replicate", "circular")):
    triple = lambda most: st.tuples(*[st.integers(1, most)] * 3)
    kernel, dilation = draw(triple(4)), draw(triple(3))
    padding = draw(st.one_of(st.tuples(*[st.integers(0, 4)] * 3), st.sampled_from(["same", "valid"])))
    stride = (1, 1, 1) if padding == "same" else draw(triple(4))
    mode = draw(st.sampled_from(modes))
    groups = draw(st.integers(1, 3))
    case = Case(
        n=draw(st.integers(1, 2)),
        ci=groups * draw(st.integers(1, 3)),
        co=groups * draw(st.integers(1, 3)),
        size=(1, 1, 1),
        kernel=kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        mode=mode,
        bias=draw(st.booleans()),
    )
    size = []
    for (p, q), k, l in zip(case.pads(), kernel, dilation):
        least = max(1, l * (k - 1) + 1 - p - q)
        if mode == "reflect":
            least = max(least, 1 + max(p, q))
        if mode == "circular":
            least = max(least, p, q)
        size.append(least + draw(st.integers(0, 5)))
    return Case(**{**case.__dict__, "size": tuple(size)})


def ours(case, x, w, b=None, backend="c"):
    return convolve_by(backend, x, w, b, case.stride, case.padding, case.dilation, case.groups, case.mode, None)


def native(case, x, w, b=None):
    """The same in torch's operators, differentiated by torch."""
    pad = [n for lo_hi in reversed(case.pads()) for n in lo_hi]
    if case.mode == "zeros":
        x = F.pad(x, pad)
    elif any(pad):
        x = F.pad(x, pad, mode=case.mode)
    return F.conv3d(x, w, b, case.stride, 0, case.dilation, case.groups)


def results(function, tensors, gy):
    """y, and the gradient of each tensor for this gy."""
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    y = function(*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, gy)]


def magnitudes(case, tensors, gy):
    """For each of `results` the sum of the magnitudes of its products, in float64."""
    return results(lambda *t: native(case, *t), [t.abs().double() for t in tensors], gy.abs().double())


def terms(case, y):
    """The most products in one element of any result."""
    taps = case.kernel[0] * case.kernel[1] * case.kernel[2]
    folds = max(1, *(p + q for p, q in case.pads())) ** 3 if case.mode != "zeros" else 1
    return max(case.ci // case.groups * taps + 1, case.co // case.groups * taps * folds, y.numel() // case.co)


def assert_within_rounding(case, got, tensors, gy):
    """Each result within terms * eps * sum of |products| of the float64 one: the bound of a sum in any order."""
    expected = results(lambda *t: native(case, *t), [t.double() for t in tensors], gy.double())
    eps = torch.finfo(gy.dtype).eps
    for name, a, e, m in zip(("y", "gx", "gw", "gb"), got, expected, magnitudes(case, tensors, gy)):
        excess = (a.double() - e).abs() - (terms(case, gy) + 2) * eps * m
        assert a.shape == e.shape and a.isfinite().all(), name
        assert excess.max() <= 0, f"{name} of {case}: beyond the bound by {excess.max()}"


def integers(shape, dtype=torch.float32):
    """Small integers, mostly zero sums away from 2^24: every order of summation gives the same bits."""
    return torch.randint(-3, 4, shape).to(dtype)


def conv_pair(x, w, b=None, **arguments):
    """(y of ours, y of torch) of one call."""
    return conv3d(x, w, b, **arguments), F.conv3d(x, w, b, **arguments)


def second_order(function, tensors, gy, wanted):
    """Gradients of a weighted sum of those first gradients that are named in wanted, for all inputs and gy."""
    first = torch.autograd.grad(function(*tensors), tensors, gy, create_graph=True)
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(t.shape, dtype=t.dtype, generator=generator) for t in first]
    loss = sum((first[k] * weights[k]).sum() for k in wanted)
    return torch.autograd.grad(loss, (*tensors, gy), allow_unused=True, materialize_grads=True)
