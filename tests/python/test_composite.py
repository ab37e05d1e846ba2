# SPDX-License-Identifier: Apache-2.0
"""The composite in pieces is the composite as a whole: every cut, every form, every padding mode. On CPU tensors."""

import importlib.util
from pathlib import Path

import fake_npu
import pytest
import torch
from cases import Case, cases, integers, native
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from oil_gas_ops_prospect.conv3d_custom import Conv3d, conv3d_backend, steps
from oil_gas_ops_prospect.conv3d_custom.composite import TAPS, WHOLE, Composite
from oil_gas_ops_prospect.conv3d_custom.functional import conv3d, convolve_by
from oil_gas_ops_prospect.conv3d_custom.problem import problem_of

CUTS = ["samples", "groups", "depth", "width"]


class Fixed:
    """A planner whose answer is given."""

    padding = 2

    def __init__(self, correlate, reduce, **parts):
        self.forms, self.parts = (correlate, reduce), parts

    def _steps(self, conv, form):
        most = {"samples": conv.n, "groups": conv.g, "depth": conv.o[0], "width": conv.o[2]}
        return steps.Steps(form, **{axis: min(n, most[axis]) for axis, n in self.parts.items()})

    def correlate(self, conv):
        return self._steps(conv, self.forms[0])

    def reduce(self, conv):
        return self._steps(conv, self.forms[1])


def problem(case):
    shapes = (case.n, case.ci, *case.size), (case.co, case.ci // case.groups, *case.kernel)
    return problem_of(
        case.stride, case.padding, case.dilation, case.groups, case.mode, None, *shapes, None, False, False
    )


def passes(composite, case, x, w, b, gy):
    p = problem(case)
    return [composite.forward(p, x, w, b), composite.grad_input(p, gy, w), *composite.grad_weight(p, x, gy, True)]


def assert_whole(case, planner, dtype=torch.float64):
    """Of integers: sums in any order have the same bits."""
    p = problem(case)
    x, w, b, gy = (integers(shape, dtype) for shape in (p.x_shape, p.w_shape, p.w_shape[:1], p.y_shape))
    both = (passes(c, case, x, w, b, gy) for c in (Composite(planner), WHOLE))
    for name, got, want in zip("y gx gw gb".split(), *both):
        assert got.dtype == dtype and torch.equal(got, want), f"{name} of {case}"


FORMS = [("convolution", "operator"), ("convolution", "banded"), ("taps", "taps")]


@pytest.mark.parametrize("forms", FORMS, ids="-".join)
@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("parts", [{axis: n} for axis in CUTS for n in (2, 3)] + [dict.fromkeys(CUTS, 2), {}], ids=str)
def test_every_cut(forms, mode, parts):
    for ci, co, stride, padding, dilation in [
        (6, 6, (1, 1, 1), (2, 1, 3), (1, 1, 1)),
        (6, 12, (2, 1, 3), (1, 2, 3), (1, 2, 1)),
        (12, 6, (1, 2, 2), (0, 3, 4), (2, 1, 2)),
    ]:
        case = Case(3, ci, co, (6, 7, 11), (2, 3, 3), stride, padding, dilation, 3, mode, True)
        assert_whole(case, Fixed(*forms, **parts))


@given(cases(), st.sampled_from(FORMS), st.fixed_dictionaries({axis: st.integers(1, 4) for axis in CUTS}))
def test_any_cut_of_any_problem(case, forms, parts):
    torch.manual_seed(0)
    assert_whole(case, Fixed(*forms, **parts))


def test_padding_far_beyond_the_volume():
    """Pieces that lie in the padding alone, and more padding than an operator takes as such."""
    case = Case(1, 2, 2, (3, 2, 4), (2, 2, 3), (1, 1, 2), (9, 7, 12), (1, 1, 1), 2, "zeros", True)
    for forms in FORMS:
        assert_whole(case, Fixed(*forms, depth=5, width=4))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("forms", FORMS, ids="-".join)
def test_half_types_are_added_in_float32(forms, dtype):
    """Partial sums between 2048 and 4096 are odd numbers, which neither type holds; the total is a power of two."""
    case = Case(1, 1, 1, (1, 1, 4096), (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1, "zeros", False)
    ones = torch.ones(1, 1, 1, 1, 4096, dtype=dtype)
    w = torch.ones(1, 1, 1, 1, 1, dtype=dtype)
    gw, gb = passes(Composite(Fixed(*forms, width=333)), case, ones, w, None, ones)[2:]
    assert gw.item() == gb.item() == 4096 and gw.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("form", ["banded", "taps"])
def test_half_types_are_multiplied_in_float32(form, dtype):
    """(1 + e)^2 - (1 + 2e) = e^2, which a product rounded to the type has lost."""
    case = Case(1, 1, 1, (1, 1, 4096), (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1, "zeros", False)
    e = torch.finfo(dtype).eps
    x = torch.tensor([1 + e, 1 + 2 * e], dtype=dtype).repeat(2048).view(1, 1, 1, 1, -1)
    gy = torch.tensor([1 + e, -1], dtype=dtype).repeat(2048).view(1, 1, 1, 1, -1)
    w = torch.ones(1, 1, 1, 1, 1, dtype=dtype)
    for parts in (1, 16):
        gw = passes(Composite(Fixed("convolution", form, width=parts)), case, x, w, None, gy)[2]
        assert gw.item() == 2048 * e * e
    two = Case(1, 1, 1, (1, 1, 2), (1, 1, 2), (1, 1, 1), (0, 0, 0), (1, 1, 1), 1, "zeros", False)
    assert passes(TAPS, two, x[..., :2], gy[..., :2], None, w)[0].item() == e * e


# ---- by budgets ----

SMALL = dict(l1_budget=9000, volume_budget=30_000)


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append((func, args))
        return func(*args, **(kwargs or {}))


def second_order(function, tensors, gy):
    y = function(*tensors)
    first = torch.autograd.grad(y, tensors, gy, create_graph=True)
    second = torch.autograd.grad(sum(t.square().sum() for t in first), (*tensors[:2], gy))
    return [y, *first, *second]


@pytest.mark.parametrize("mode", ["zeros", "reflect"])
def test_budgets_force_steps_and_derivatives_agree(mode):
    case = Case(2, 6, 6, (9, 10, 40), (3, 5, 5), (1, 1, 1), (1, 2, 2), (1, 1, 1), 6, mode, True)
    tensors = [t.requires_grad_() for t in case.tensors(lambda shape: torch.randn(shape, dtype=torch.float64))]
    gy = torch.randn(native(case, *tensors).shape, dtype=torch.float64, requires_grad=True)

    def ours(*t):
        return convolve_by("composite", *t, case.stride, case.padding, case.dilation, case.groups, mode, None)

    with conv3d_backend("composite", **SMALL), Log() as log:
        got = second_order(ours, tensors, gy)
    convolutions = [args for func, args in log.calls if func is torch.ops.aten.convolution.default]
    assert len(convolutions) > 20
    assert all((4 + 1 + 1) * args[0].shape[-1] * 32 <= 9000 for args in convolutions)
    for a, e in zip(got, second_order(lambda *t: native(case, *t), tensors, gy)):
        torch.testing.assert_close(a, e, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("volume", [1 << 20, 1 << 22])
def test_a_volume_budget_bounds_what_a_convolution_is_given(volume):
    """Channels counted in whole blocks, as the device lays them out: eight of four bytes."""
    x, w = torch.randn(2, 20, 30, 12, 40, requires_grad=True), torch.randn(20, 1, 3, 3, 3, requires_grad=True)
    with conv3d_backend("composite", volume_budget=volume), Log() as log:
        y = conv3d(x, w, padding=1, groups=20)
        y.sum().backward()
    sizes = [args[0].shape for func, args in log.calls if func is torch.ops.aten.convolution.default]
    assert len(sizes) > 2 * (1 << 22) // volume and {n for n, *_ in sizes} == {1} and {c for _, c, *_ in sizes} == {20}
    assert all(24 * 4 * d * 14 * 42 < volume for *_, d, _, _ in sizes)


def test_a_backward_keeps_the_budget_of_its_forward():
    x, w = torch.randn(1, 1, 8, 8, 64, requires_grad=True), torch.randn(1, 1, 3, 3, 3)
    with conv3d_backend("composite", l1_budget=4000):
        y = conv3d(x, w, padding=1)
    with Log() as log:
        y.sum().backward()
    assert sum(func is torch.ops.aten.convolution.default for func, _ in log.calls) > 1


def test_budgets_nest_and_end():
    from oil_gas_ops_prospect.conv3d_custom.device import planning

    assert planning("cpu") is None and planning("cuda") is None
    assert planning("npu")[1] == steps.Budget()
    with conv3d_backend("composite", l1_budget=5):
        assert planning("cpu")[1] == steps.Budget(l1=5)
        with conv3d_backend("composite", volume_budget=0):
            assert planning("npu")[1] == steps.Budget(5, 0)
        with conv3d_backend("auto"):
            assert planning("cuda")[1] == steps.Budget(l1=5)
    assert planning("cpu") is None


@pytest.mark.parametrize("name", ["l1_budget", "volume_budget"])
@pytest.mark.parametrize("value", [-1, "many", 1.5])
def test_a_budget_that_is_no_count(name, value):
    with pytest.raises(ValueError, match=f"{name}: expected a count of bytes.*{value}"):
        with conv3d_backend("composite", **{name: value}):
            pass
    assert Conv3d(1, 1, 1)(torch.ones(1, 1, 1, 1, 1)).shape == (1, 1, 1, 1, 1)


# ---- where torch looks on ----


class Guard(TorchDispatchMode):
    """The stand-in's refusals on CPU tensors, and stricter: no native grad input and no transposed convolution at all."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name()
        if name == "aten::convolution_backward":
            assert tuple(args[-1]) == (False, True, False), "refused: grad input"
        assert name != "aten::convolution" or not args[6], "refused: transposed convolution"
        if func in fake_npu.GUARDS:
            fake_npu.GUARDS[func](*args)
        return func(*args, **(kwargs or {}))


def leaves(*shapes):
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


ARGUMENTS = dict(padding=(1, 2, 2), stride=(1, 2, 1), groups=2)
SHAPES = (2, 4, 5, 7, 12), (6, 2, 2, 3, 5), (6,)


def test_native_meets_the_guard():
    x, w, b = leaves(*SHAPES)
    with Guard(), pytest.raises(AssertionError, match="grad input"):
        torch.conv3d(x, w, b, **ARGUMENTS).sum().backward()


def test_no_refused_operator_under_a_dispatch_mode():
    """For releases of torch without a spare device in Python: forward, backward and double backward under the mode."""
    x, w, b = leaves(*SHAPES)
    want = second_order(lambda *t: torch.conv3d(*t, **ARGUMENTS), (x, w, b), *(g := leaves((2, 6, 6, 5, 12))))
    with conv3d_backend("composite", **SMALL), Guard():
        got = second_order(lambda *t: conv3d(*t, **ARGUMENTS), (x, w, b), *g)
    for a, e in zip(got, want):
        torch.testing.assert_close(a, e, rtol=1e-10, atol=1e-10)


_file = Path(__file__).resolve().parents[1] / "composite" / "conv3d_custom" / "patterns.py"
_spec = importlib.util.spec_from_file_location("conv3d_patterns", _file)
patterns = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(patterns)


@pytest.mark.parametrize("pattern", patterns.PATTERNS, ids=lambda p: p.name)
def test_patterns_under_a_dispatch_mode(pattern):
    """Widths and kernels are real, depth and height the least; the budgets those of an NPU."""
    p = pattern.scaled(1e-9)
    settings = (p.cin, p.cout, p.kernel, p.stride, p.padding, p.dilation, p.groups)
    layers = [cls(*settings, padding_mode=p.padding_mode, dtype=torch.float64) for cls in (Conv3d, torch.nn.Conv3d)]
    tensors = [*leaves(p.x_shape), layers[0].weight, layers[0].bias]
    gy = leaves(p.y_shape)[0]
    want = second_order(layers[1]._conv_forward, tensors, gy)
    with conv3d_backend("composite", l1_budget=262_144), Guard():
        got = second_order(layers[0]._conv_forward, tensors, gy)
    for a, e in zip(got, want):
        assert (a - e).abs().max() <= 1e-11 * e.abs().max()


def loss(function):
    return lambda x, w, b: function(x, w, b, **ARGUMENTS).square().sum()


@pytest.mark.parametrize("transform", [
    lambda f, x, w, b: torch.func.grad(loss(f), argnums=(0, 1, 2))(x, w, b),
    lambda f, x, w, b: torch.func.vmap(torch.func.grad(loss(f), argnums=1), in_dims=(0, None, None))(x[:, None], w, b),
    lambda f, x, w, b: torch.func.vmap(lambda w: f(x, w, b, **ARGUMENTS))(torch.stack([w, 2 * w])),
    lambda f, x, w, b: torch.func.jvp(lambda x: torch.func.grad(loss(f), argnums=1)(x, w, b), (x,), (x.cos(),)),
    lambda f, x, w, b: torch.func.jacrev(lambda b: f(x, w, b, **ARGUMENTS).sum((0, 2, 3, 4)))(b),
    lambda f, x, w, b: torch.func.hessian(lambda b: loss(f)(x, w, b))(b),
], ids=["grad", "per-sample", "vmap", "jvp of grad", "jacrev", "hessian"])  # fmt: skip
def test_transforms_reach_no_convolution(transform):
    x, w, b = (t.detach() for t in leaves(*SHAPES))
    want = transform(torch.conv3d, x, w, b)
    with conv3d_backend("composite", **SMALL), Log() as log:
        got = transform(conv3d, x, w, b)
    assert log.calls and not [func for func, _ in log.calls if "conv" in func.name()]
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)


def test_a_batch_of_gradients_and_their_derivative_reach_no_refused_operator():
    x, w, b = leaves(*SHAPES)
    gy = torch.randn(3, 2, 6, 6, 5, 12, dtype=torch.float64)

    def batched(function):
        y = function(x, w, b, **ARGUMENTS)
        first = torch.autograd.grad(y, (x, w, b), gy, is_grads_batched=True, create_graph=True)
        return [*first, *torch.autograd.grad(sum(t.square().sum() for t in first), (x, w))]

    want = batched(torch.conv3d)
    with conv3d_backend("composite", **SMALL), Guard():
        got = batched(conv3d)
    for a, e in zip(got, want):
        torch.testing.assert_close(a, e, rtol=1e-10, atol=1e-10)


def test_a_trace_can_be_trained():
    x, w, b = leaves(*SHAPES)
    with conv3d_backend("composite", **SMALL):
        traced = torch.jit.trace(lambda x, w, b: conv3d(x, w, b, **ARGUMENTS), (x, w, b), check_trace=False)
    assert "aten::mul" in str(traced.graph) or "aten::matmul" in str(traced.graph)
    assert not any("conv" in node.kind() for node in traced.graph.nodes())
    want = torch.autograd.grad(torch.conv3d(x, w, b, **ARGUMENTS).cos().sum(), (x, w, b))
    got = torch.autograd.grad(traced(x, w, b).cos().sum(), (x, w, b))
    for a, e in zip(got, want):
        torch.testing.assert_close(a, e, rtol=1e-10, atol=1e-10)
