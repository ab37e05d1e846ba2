# SPDX-License-Identifier: Apache-2.0
"""First, second and third derivatives, by finite differences and against torch's own."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from cases import Case, native, ours, second_order
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from oil_gas_ops_prospect.conv3d_custom import conv3d_backend
from oil_gas_ops_prospect.conv3d_custom.functional import conv3d

GRID = [
    Case(1, ci, co, size, kernel, stride, padding, dilation, groups, mode, True)
    for (ci, co, groups), (size, kernel, stride, padding, dilation), mode in product(
        [(2, 2, 1), (2, 4, 2), (3, 3, 3)],
        [
            ((3, 4, 4), (2, 3, 2), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
            ((4, 6, 5), (1, 3, 2), (1, 2, 2), (0, 1, 2), (1, 1, 2)),  # rows that no window reaches
            ((4, 3, 4), (2, 2, 3), (1, 1, 1), "same", (1, 2, 1)),
            ((4, 4, 3), (3, 1, 2), (3, 1, 2), (2, 0, 1), (1, 1, 1)),
        ],
        ["zeros", "reflect", "replicate", "circular"],
    )
]


def double(shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("case", GRID, ids=str)
def test_gradcheck(case, backend):
    function = lambda *t: ours(case, *t, backend=backend)
    tensors = case.tensors(double)
    assert gradcheck(function, tensors, fast_mode=True)
    assert gradgradcheck(function, tensors, fast_mode=True)


@pytest.mark.parametrize("case", GRID[::11], ids=str)
def test_gradcheck_of_every_element(case, backend):
    tensors = case.tensors(double)
    assert gradcheck(lambda *t: ours(case, *t, backend=backend), tensors, check_batched_grad=True)


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("case", GRID[::5], ids=str)
def test_double_backward_with_any_of_the_gradients_missing(case, wanted, backend):
    tensors = case.tensors(double)
    gy = double(native(case, *tensors).shape)
    a = second_order(lambda *t: ours(case, *t, backend=backend), tensors, gy, wanted)
    e = second_order(lambda *t: native(case, *t), tensors, gy, wanted)
    for name, p, q in zip(("x", "w", "b", "gy"), a, e):
        torch.testing.assert_close(p, q, rtol=1e-11, atol=1e-11, msg=lambda m: f"second gradient of {name}: {m}")


def third_order(function, x, w):
    (gx,) = torch.autograd.grad(function(x, w).square().sum(), x, create_graph=True)
    (gw,) = torch.autograd.grad(gx.square().sum(), w, create_graph=True)
    return torch.autograd.grad(gw.square().sum(), (x, w))


def test_third_order(backend):
    x, w = double((1, 2, 3, 4, 4)), double((2, 1, 2, 2, 3))
    settings = dict(groups=2, padding=1, stride=(1, 2, 1))
    a = third_order(lambda x, w: conv3d(x, w, **settings), x, w)
    e = third_order(lambda x, w: F.conv3d(x, w, **settings), x, w)
    for p, q in zip(a, e):
        torch.testing.assert_close(p, q, rtol=1e-11, atol=1e-11)


class _Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.masks = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.convolution_backward.default:
            self.masks.append(tuple(args[-1]))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("stride", [1, 2])
def test_no_derivative_reaches_the_native_grad_input(stride, backend):
    """The masked native backward may run its weight pass alone."""
    x, w, b = double((1, 2, 5, 5, 5)), double((2, 1, 3, 3, 3)), double((2,))
    y = conv3d(x, w, b, groups=2, padding=1, stride=stride)
    with _Recorder() as seen:
        first = torch.autograd.grad(y.square().sum(), (x, w, b), create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), (x, w, b), create_graph=True)
        torch.autograd.grad(sum(g.square().sum() for g in second), (x, w))
    assert all(mask == (False, True, False) for mask in seen.masks)
    assert bool(seen.masks) == (backend == "composite")


def test_penalty_step_for_a_depthwise_layer_matches(backend):
    """A gradient penalty: one call per pass, groups and all."""
    x, w, b = torch.randn(2, 8, 6, 6, 6), torch.randn(8, 1, 3, 3, 3, requires_grad=True), torch.zeros(8)

    def penalty(function):
        z = x.clone().requires_grad_()
        (gx,) = torch.autograd.grad(function(z, w, b, padding=1, groups=8).tanh().sum(), z, create_graph=True)
        return torch.autograd.grad((gx.flatten(1).norm(dim=1) - 1).square().mean(), w)[0]

    torch.testing.assert_close(penalty(conv3d), penalty(F.conv3d), rtol=1e-4, atol=1e-5)


def test_the_backward_stays_on_the_backend_of_its_forward(monkeypatch):
    from oil_gas_ops_prospect.conv3d_custom import core

    calls = []
    monkeypatch.setattr(core, "grad_input", lambda *a, run=core.grad_input: calls.append(1) or run(*a))
    x = torch.randn(1, 1, 4, 4, 4, requires_grad=True)
    with conv3d_backend("c"):
        y = conv3d(x, torch.ones(1, 1, 3, 3, 3))
    with conv3d_backend("composite"):
        y.sum().backward()
    assert calls == [1]
