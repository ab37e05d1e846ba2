# SPDX-License-Identifier: Apache-2.0
"""The transposed convolution against torch's: values, derivatives, what they cost, where they run, what is refused."""

import pytest
import torch
import torch.nn.functional as F
from cases import integers, results, second_order
from hypothesis import given
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode
from transposed_cases import BEYOND, GRID, cases, native, native_cropped, ours

from oil_gas_ops_prospect.conv3d_custom import ConvTranspose3d, conv3d_backend, core
from oil_gas_ops_prospect.conv3d_custom.functional import conv_transpose3d

F32, F64, LAST = torch.float32, torch.float64, torch.channels_last_3d
NAMES = "y", "gx", "gw", "gb"
TOLERANCES = {F64: 1e-12, F32: 3e-6, torch.bfloat16: 2e-2, torch.float16: 3e-3}
LAYOUTS = {
    "contiguous": lambda t: t,
    "channels last": lambda t: t.to(memory_format=LAST) if t.dim() == 5 else t,
    "strided": lambda t: t.repeat_interleave(2, -1)[..., ::2].transpose(0, -1).contiguous().transpose(0, -1),
}


def double(shape):
    return torch.randn(shape, dtype=F64, requires_grad=True)


def assert_as_native(case, tensors, gy, tolerance):
    """y and the gradients: errors against native in float64, of the largest entry."""
    expected = results(lambda *t: native(case, *t), [t.double() for t in tensors], gy.double())
    for name, a, e in zip(NAMES, results(lambda *t: ours(case, *t), tensors, gy), expected):
        assert a.shape == e.shape and a.dtype == gy.dtype, f"{name} of {case}"
        assert (a.double() - e).abs().max() <= tolerance * e.abs().max().clamp(min=1e-30), f"{name} of {case}"


# ---- values and gradients ----


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [F32, F64])
def test_the_grid(dtype, layout, backend):
    make = lambda shape: LAYOUTS[layout](torch.randn(shape, dtype=dtype))
    for case in GRID:
        assert_as_native(case, case.tensors(make), case.gy(make), TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_of_the_grid(dtype):
    make = lambda shape: torch.randn(shape, dtype=dtype)
    for case in GRID[::7]:
        assert_as_native(case, case.tensors(make), case.gy(make), TOLERANCES[dtype])


@pytest.mark.parametrize("name", ["c", "composite"])
@pytest.mark.parametrize("dtype", [F32, F64])
@given(case=cases())
def test_any_case(name, dtype, case):
    """Of one sign: where nothing cancels the largest entry is a measure of rounding."""
    make = lambda shape: torch.rand(shape, dtype=dtype)
    with conv3d_backend(name):
        assert_as_native(case, case.tensors(make), case.gy(make), TOLERANCES[dtype])


@given(case=cases())
def test_backends_agree_exactly_on_integers(case):
    tensors, gy = case.tensors(integers), case.gy(integers)
    expected = results(lambda *t: native(case, *t), [t.double() for t in tensors], gy.double())
    for name in ("c", "composite"):
        with conv3d_backend(name):
            got = results(lambda *t: ours(case, *t), tensors, gy)
        for a, e in zip(got, expected):
            assert torch.equal(a.double(), e), f"{name} of {case}"


@given(case=cases())
def test_any_case_in_steps(case):
    """The composite in pieces, as a device with limits would have it."""
    make = lambda shape: torch.rand(shape, dtype=F64)
    with conv3d_backend("composite", l1_budget=4096, volume_budget=20_000):
        assert_as_native(case, case.tensors(make), case.gy(make), 1e-12)


def test_complex_with_conjugates():
    x, w = (torch.randn(s, dtype=torch.complex128, requires_grad=True) for s in ((1, 2, 2, 3, 2), (2, 1, 2, 2, 2)))
    b = torch.randn(2, dtype=torch.complex128, requires_grad=True)
    function = lambda x, w, b: conv_transpose3d(x.conj(), w, b, stride=2, groups=2)
    torch.testing.assert_close(function(x, w, b), F.conv_transpose3d(x.conj(), w, b, stride=2, groups=2))
    assert gradcheck(function, (x, w, b), fast_mode=True) and gradgradcheck(function, (x, w, b), fast_mode=True)


def test_unbatched(backend):
    x, w, b = double((4, 3, 4, 5)), double((4, 3, 2, 3, 1)), double((6,))
    settings = dict(stride=2, output_padding=1, groups=2)
    torch.testing.assert_close(conv_transpose3d(x, w, b, **settings), F.conv_transpose3d(x, w, b, **settings))


def test_an_empty_batch(backend):
    conv = ConvTranspose3d(4, 6, 3, stride=2, groups=2)
    x = torch.zeros(0, 4, 3, 4, 5, requires_grad=True)
    y = conv(x)
    assert y.shape == (0, 6, 7, 9, 11)
    y.sum().backward()
    assert x.grad.shape == x.shape
    assert not conv.weight.grad.any() and not conv.bias.grad.any()


@pytest.mark.parametrize("x_last", [False, True])
@pytest.mark.parametrize("w_last", [False, True])
def test_layouts_are_those_of_torch(x_last, w_last, backend):
    x, w = integers((2, 4, 3, 4, 5)), integers((4, 3, 3, 3, 3))
    x = (x.to(memory_format=LAST) if x_last else x).requires_grad_()
    w = (w.to(memory_format=LAST) if w_last else w).requires_grad_()
    y, expected = (function(x, w, stride=2, groups=2) for function in (conv_transpose3d, F.conv_transpose3d))
    assert torch.equal(y, expected) and y.stride() == expected.stride()
    (gx,), (expected,) = (torch.autograd.grad(t.sum(), x) for t in (y, expected))
    assert torch.equal(gx, expected) and gx.stride() == expected.stride()


def test_the_same_bits_for_any_number_of_threads():
    x, w, b = (t.detach().float() for t in (double((2, 4, 9, 20, 30)), double((4, 2, 5, 5, 5)), double((4,))))
    before, seen = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            function = lambda *t: conv_transpose3d(*t, stride=(1, 2, 1), groups=2)
            seen.append(results(function, (x, w, b), torch.linspace(-1, 1, 13 * 43 * 34).reshape(1, 1, 13, 43, 34)
                                .expand(2, 4, 13, 43, 34)))
    finally:
        torch.set_num_threads(before)
    for other in seen[1:]:
        assert all(torch.equal(a, e) for a, e in zip(other, seen[0]))


# ---- derivatives ----


@pytest.mark.parametrize("case", GRID[::23] + BEYOND[::19], ids=str)
def test_gradcheck(case, backend):
    function, tensors = lambda *t: ours(case, *t), case.tensors(double)
    assert gradcheck(function, tensors, fast_mode=True)
    assert gradgradcheck(function, tensors, fast_mode=True)


@pytest.mark.parametrize("case", GRID[5::97] + BEYOND[5:6], ids=str)
def test_gradcheck_of_every_element_and_in_batches(case, backend):
    assert gradcheck(lambda *t: ours(case, *t), case.tensors(double), check_batched_grad=True)


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("case", [case for case in GRID[::2] if case.bias][::31] + BEYOND[:1], ids=str)
def test_double_backward_with_any_of_the_gradients_missing(case, wanted, backend):
    tensors, gy = case.tensors(double), case.gy(double)
    got, want = (second_order(lambda *t: f(case, *t), tensors, gy, wanted) for f in (ours, native))
    for a, e in zip(got, want):
        torch.testing.assert_close(a, e, rtol=1e-11, atol=1e-11)


def third_order(function, x, w, b):
    (gx,) = torch.autograd.grad(function(x, w, b).pow(3).sum(), x, create_graph=True)
    (gw,) = torch.autograd.grad(gx.square().sum(), w, create_graph=True)
    return torch.autograd.grad(gw.square().sum(), (x, w, b))


@pytest.mark.parametrize("case", [case for case in GRID if case.bias][100:101] + BEYOND[:1], ids=str)
def test_third_order(case, backend):
    tensors = case.tensors(double)
    got, want = (third_order(lambda *t: f(case, *t), *tensors) for f in (ours, native_cropped))
    for a, e in zip(got, want):
        torch.testing.assert_close(a, e, rtol=1e-11, atol=1e-11 * e.abs().max().item())


class _Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.transposed, self.masks = [], []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.convolution.default:
            self.transposed.append(args[6])
        if func is torch.ops.aten.convolution_backward.default:
            self.masks.append(tuple(args[-1]))
        return func(*args, **(kwargs or {}))


def test_the_composite_never_meets_the_native_grad_input():
    x, w, b = double((1, 4, 3, 4, 5)), double((4, 2, 3, 3, 3)), double((4,))
    with conv3d_backend("composite"):
        y = conv_transpose3d(x, w, b, stride=2, groups=2, padding=1)
        with _Recorder() as seen:
            first = torch.autograd.grad(y.square().sum(), (x, w, b), create_graph=True)
            torch.autograd.grad(sum(g.square().sum() for g in first), (x, w, b))
    assert seen.transposed and not any(seen.transposed)
    assert seen.masks and all(mask == (False, True, False) for mask in seen.masks)


# ---- what is computed and what is saved ----


def operands():
    return double((2, 4, 5, 4, 6)), double((4, 1, 2, 3, 2)), double((2,))


def call(x, w, b=None):
    return conv_transpose3d(x, w, b, groups=2, stride=(1, 2, 1))


@pytest.fixture
def passes_run(monkeypatch):
    """Names of the passes that the core was asked for."""
    run = []
    for name in ("forward", "grad_input", "grad_weight", "grad_bias"):
        original = getattr(core, name)
        monkeypatch.setattr(core, name, lambda *a, _n=name, _run=original: run.append(_n) or _run(*a))
    return run


EXPECTED = {0: ["forward"], 1: ["grad_weight"], 2: ["grad_bias"]}


@pytest.mark.parametrize("leaf", [True, False])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_only_the_asked_gradient_is_computed(passes_run, which, leaf):
    leaves = operands()
    tensors = leaves if leaf else [t * 1 for t in leaves]
    y = call(*tensors)
    assert passes_run == ["grad_input"]
    torch.autograd.grad(y.sum(), tensors[which])
    assert passes_run[1:] == EXPECTED[which]


@pytest.mark.parametrize("which", [0, 1, 2])
def test_frozen_parts_are_not_computed(passes_run, which):
    tensors = [t.detach().requires_grad_(k == which) for k, t in enumerate(operands())]
    call(*tensors).sum().backward()
    assert passes_run[1:] == EXPECTED[which]
    assert [t.grad is not None for t in tensors] == [k == which for k in range(3)]


def test_each_pass_runs_once(passes_run):
    call(*operands()).sum().backward()
    assert passes_run == ["grad_input", "forward", "grad_weight", "grad_bias"]


def saved(y):
    return [t.data_ptr() for t in y.grad_fn.saved_tensors if t is not None]


def test_saves_only_what_is_needed():
    x, w, b = operands()
    assert saved(call(x, w, b)) == [x.data_ptr(), w.data_ptr()]
    assert saved(call(x.detach(), w, b)) == [x.data_ptr()]
    assert saved(call(x, w.detach(), b)) == [w.data_ptr()]
    assert saved(call(x.detach(), w.detach(), b)) == []
    assert call(x.detach(), w.detach()).grad_fn is None


def test_in_place_change_of_a_saved_tensor_is_noticed(backend):
    x, w, b = operands()
    y = call(x, w, b)
    with torch.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


# ---- where it runs ----


@pytest.mark.parametrize("name,on_core", [("auto", True), ("c", True), ("composite", False), ("native", False)])
def test_the_call_follows_the_rule(name, on_core, passes_run):
    conv, x = ConvTranspose3d(2, 1, 3, stride=2), torch.ones(1, 2, 4, 4, 4)
    with conv3d_backend(name):
        conv(x)
        assert bool(passes_run) == on_core
        passes_run.clear()
        conv_transpose3d(x, conv.weight)
        assert bool(passes_run) == on_core


def test_the_module_leaves_to_native_what_that_does_better(passes_run):
    """Pointwise on a small volume, by the rule for the convolution that is transposed."""
    conv = ConvTranspose3d(8, 8, 1)
    assert conv(torch.ones(1, 8, 4, 4, 4)).grad_fn.name() == "ConvolutionBackward0" and not passes_run
    ConvTranspose3d(8, 8, 1, stride=16)(torch.ones(1, 8, 5, 5, 5))
    assert passes_run == ["grad_input"], "65 a side, of which the rule speaks"


@pytest.mark.parametrize("call", [lambda m, x: m(x), lambda m, x: conv_transpose3d(x, m.weight, m.bias)])
def test_native_is_untouched(call):
    conv, x = ConvTranspose3d(4, 4, 3), torch.randn(1, 4, 5, 5, 5)
    with conv3d_backend("native"):
        y = call(conv, x)
    assert y.grad_fn.name() == "ConvolutionBackward0"
    assert torch.equal(y, F.conv_transpose3d(x, conv.weight, conv.bias))


def test_forced_c_refuses_what_it_cannot_take():
    half = torch.zeros(1, 1, 3, 3, 3, dtype=torch.float16)
    with conv3d_backend("c"), pytest.raises(RuntimeError, match="float16"):
        conv_transpose3d(half, half)


def test_precision_reaches_the_problem(monkeypatch):
    seen = []
    run = core.grad_input
    monkeypatch.setattr(core, "grad_input", lambda p, *rest: seen.append(p.geometry[-1]) or run(p, *rest))
    x = torch.ones(1, 2, 4, 4, 4)
    for precision in (None, "normwise", "elementwise"):
        conv_transpose3d(x, torch.ones(2, 1, 3, 3, 3), precision=precision)
        ConvTranspose3d(2, 1, 3, precision=precision)(x)
    assert seen == [0, 0, 1, 1, 2, 2]


# ---- where torch looks inside ----

SETTINGS = dict(stride=2, padding=1, output_padding=1, groups=2)
TRANSFORMS = {
    "jvp": lambda f, x, w, b: torch.func.jvp(lambda x: f(x, w, b, **SETTINGS), (x,), (x + 1,))[1],
    "vmap": lambda f, x, w, b: torch.func.vmap(lambda x: f(x, w, b, **SETTINGS))(x[:, None]),
    "grad": lambda f, x, w, b: torch.func.grad(lambda w: f(x, w, b, **SETTINGS).square().sum())(w),
    "hessian": lambda f, x, w, b: torch.func.hessian(lambda b: f(x, w, b, **SETTINGS).pow(3).sum())(b),
}


def detached():
    return torch.randn(2, 4, 2, 3, 2, dtype=F64), torch.randn(4, 1, 3, 2, 3, dtype=F64), torch.randn(2, dtype=F64)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name, backend):
    tensors = detached()
    got, want = (TRANSFORMS[name](f, *tensors) for f in (conv_transpose3d, F.conv_transpose3d))
    torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_on_a_device_with_limits(name):
    """Sums tap by tap; also where the output padding is beyond the stride."""
    for settings in (SETTINGS, dict(dilation=3, output_padding=(2, 1, 2), stride=(1, 2, 1), groups=2)):
        tensors, transform = detached(), TRANSFORMS[name]
        function = lambda *t, **_: conv_transpose3d(*t, **settings)
        want = transform(lambda *t, **_: F.conv_transpose3d(*t, **settings), *tensors)
        with conv3d_backend("composite", volume_budget=2**31), _Recorder() as seen:
            got = transform(function, *tensors)
        assert not seen.transposed and not seen.masks
        torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-11)


def test_forward_mode(backend):
    x, w, _ = detached()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x + 1)
        y = torch.autograd.forward_ad.unpack_dual(conv_transpose3d(dual, w, **SETTINGS)).tangent
    torch.testing.assert_close(y, F.conv_transpose3d(x + 1, w, **SETTINGS))


def test_trace(backend):
    m, x = ConvTranspose3d(4, 4, 3, **SETTINGS, dtype=F64).eval(), detached()[0]
    traced = torch.jit.trace(m, x)
    torch.testing.assert_close(traced(x + 1), m(x + 1))


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("compiler", ["eager", "aot_eager"])
def test_compile(compiler, whole):
    m, (x, _, _) = ConvTranspose3d(4, 4, 3, **SETTINGS, dtype=F64), detached()
    function = m if whole else (lambda x: conv_transpose3d(x, m.weight, m.bias, **SETTINGS))
    x.requires_grad_()
    y = torch.compile(function, backend=compiler)(x)
    torch.testing.assert_close(y, m(x))
    for a, e in zip(*(torch.autograd.grad(t.pow(2).sum(), (x, m.weight)) for t in (y, m(x)))):
        torch.testing.assert_close(a, e)


def test_autocast():
    x, w, b = (t.float().requires_grad_() for t in detached())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got, want = conv_transpose3d(x, w, b, **SETTINGS), F.conv_transpose3d(x, w, b, **SETTINGS)
    assert got.dtype == want.dtype == torch.bfloat16
    torch.testing.assert_close(got, want)
    got.float().sum().backward()
    assert x.grad.dtype == w.grad.dtype == b.grad.dtype == F32


# ---- output_size ----


@pytest.mark.parametrize("size", [(5, 7, 9), (6, 8, 10), (2, 4, 6, 7, 10), torch.Size((5, 8, 9))], ids=str)
def test_output_size(size, backend):
    conv, x = ConvTranspose3d(4, 4, 3, stride=2, padding=1), torch.randn(2, 4, 3, 4, 5)
    y = conv(x, output_size=size)
    assert y.shape[2:] == tuple(size)[-3:]
    torch.testing.assert_close(y, torch.nn.ConvTranspose3d.forward(conv, x, size), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [(4, 7, 9), (5, 7, 11), (7, 9), (1, 2, 3, 4)], ids=str)
def test_output_sizes_that_cannot_be(size):
    for cls in (torch.nn.ConvTranspose3d, ConvTranspose3d):
        with pytest.raises(ValueError, match="output"):
            cls(4, 4, 3, stride=2, padding=1)(torch.randn(2, 4, 3, 4, 5), output_size=size)


# ---- errors ----

X, W = (1, 4, 5, 6, 7), (4, 2, 3, 3, 3)

BAD = [
    # x, w, b, arguments, what the message says
    (X, W, None, dict(groups=0), "groups=0"),
    (X, W, None, dict(groups=-1), "groups=-1"),
    (X, W, None, dict(groups=3), "divisible by 3"),
    (X, W, None, dict(groups=5), "at least 5"),
    (X, W, None, dict(stride=0), r"stride=\[0, 0, 0\]"),
    (X, W, None, dict(stride=(1, -1, 1)), r"stride=\[1, -1, 1\]"),
    (X, W, None, dict(dilation=0), r"dilation=\[0, 0, 0\]"),
    (X, W, None, dict(padding=-1), r"padding=\[-1, -1, -1\]"),
    (X, W, None, dict(output_padding=-1), r"output_padding=\[-1, -1, -1\]"),
    (X, W, None, dict(stride=()), r"stride=\[\]"),
    (X, W, None, dict(padding=(1, 1)), r"padding=\[1, 1\]"),
    (X, W, None, dict(output_padding=(1, 0)), r"output_padding=\[1, 0\]"),
    (X, W, None, dict(dilation=(1, 1, 1, 1)), r"dilation=\[1, 1, 1, 1\]"),
    (X, W, None, dict(output_padding=1), r"output_padding=\[1, 1, 1\], stride=\[1, 1, 1\], dilation=\[1, 1, 1\]"),
    (X, W, None, dict(output_padding=2, stride=2, dilation=2), "smaller than either stride or dilation"),
    (X, W, None, dict(output_padding=(1, 0, 0), stride=(1, 2, 1)), "smaller than either stride or dilation"),
    (X, W, None, dict(padding=4), "-1 x 0 x 1"),
    (X, W, None, dict(padding=2**62), "too small"),
    (X, W, None, dict(stride=2**62), "64 bits"),
    (X, W, None, dict(dilation=2**62), "64 bits"),
    (X, (3, 2, 3, 3, 3), None, dict(), "3 channels, but got 4"),
    ((6, 5, 6, 7), W, None, dict(), "4 channels, but got 6"),
    (X, (4, 0, 3, 3, 3), None, dict(), "output channels"),
    ((1, 0, 5, 6, 7), (0, 2, 3, 3, 3), None, dict(), "at least 1"),
    (X, (4, 2, 0, 3, 3), None, dict(), "kernel size"),
    (X, (4, 2, 3, 3), None, dict(), "conv_transpose3d takes 5-dimensional"),
    (X, W, (3,), dict(), r"2 elements, but got bias of size \[3\]"),
    (X, W, (2, 1), dict(), r"2 elements, but got bias of size \[2, 1\]"),
    (X, W, (2,), dict(groups=2), "4 elements"),
    ((4, 4, 4), W, None, dict(), "4D.*conv_transpose3d"),
    ((1, 1, 4, 4, 4, 4), W, None, dict(), "5D.*conv_transpose3d"),
    ((1, 4, 0, 6, 7), W, None, dict(), "greater than zero"),
]


@pytest.mark.parametrize("x,w,b,arguments,text", BAD, ids=str)
def test_bad_values(x, w, b, arguments, text, backend):
    x, w, b = torch.zeros(x), torch.zeros(w), None if b is None else torch.zeros(b)
    with pytest.raises(RuntimeError):
        F.conv_transpose3d(x, w, b, **arguments)
    with pytest.raises(RuntimeError, match=text):
        conv_transpose3d(x, w, b, **arguments)


@pytest.mark.parametrize("name", ["stride", "padding", "output_padding", "dilation", "groups"])
@pytest.mark.parametrize("value", [1.0, None, (1.0, 1, 1), True, object()], ids=lambda value: type(value).__name__)
def test_arguments_of_another_type(name, value, backend):
    for function in (F.conv_transpose3d, conv_transpose3d):
        with pytest.raises(TypeError, match=rf"conv_transpose3d\(\): argument '{name}'"):
            function(torch.zeros(X), torch.zeros(W), **{name: value})


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_padding_by_name(padding, backend):
    for function in (F.conv_transpose3d, conv_transpose3d):
        with pytest.raises(TypeError, match=r"conv_transpose3d\(\): argument 'padding'"):
            function(torch.zeros(X), torch.zeros(W), padding=padding)


@pytest.mark.parametrize("x,w,b,name", [(3, W, None, "input"), (X, None, None, "weight"), (X, W, 3, "bias")], ids=str)
def test_not_a_tensor(x, w, b, name, backend):
    tensors = [torch.zeros(s) if isinstance(s, tuple) else s for s in (x, w, b)]
    with pytest.raises(TypeError):
        F.conv_transpose3d(*tensors)
    with pytest.raises(TypeError, match=rf"conv_transpose3d\(\): argument '{name}'"):
        conv_transpose3d(*tensors)


def test_dtypes_and_devices_that_differ(backend):
    x, w, b = torch.zeros(X), torch.zeros(W), torch.zeros(2)
    for tensors, text in [((x, w.double(), b), "weight.*float64"), ((x, w, b.double()), "bias.*float64"),
                          ((x, w.to("meta")), "cpu.*meta")]:
        with pytest.raises(RuntimeError, match=text):
            conv_transpose3d(*tensors)


def test_bool_and_precision():
    with pytest.raises(NotImplementedError):
        conv_transpose3d(torch.zeros(X, dtype=torch.bool), torch.zeros(W, dtype=torch.bool))
    with pytest.raises(ValueError, match="precision"):
        conv_transpose3d(torch.zeros(X), torch.zeros(W), precision="exact")
    with pytest.raises(ValueError, match="precision"):
        ConvTranspose3d(1, 1, 3, precision="exact")


@pytest.mark.parametrize("arguments", [dict(padding_mode="reflect"), dict(groups=3), dict(groups=0)], ids=str)
def test_module_construction(arguments):
    for cls in (torch.nn.ConvTranspose3d, ConvTranspose3d):
        with pytest.raises(ValueError):
            cls(4, 4, 3, **arguments)


def test_a_padding_mode_set_later():
    for cls in (torch.nn.ConvTranspose3d, ConvTranspose3d):
        conv = cls(4, 4, 3)
        conv.padding_mode = "circular"
        with pytest.raises(ValueError, match="zeros"):
            conv(torch.zeros(X))
