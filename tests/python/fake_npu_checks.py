# SPDX-License-Identifier: Apache-2.0
"""What has to hold on an NPU, on the stand-in. Run by test_fake_npu in a process of its own: the device can be named
once."""

import copy
import importlib.util
import warnings
from dataclasses import replace
from pathlib import Path

import fake_npu
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from oil_gas_ops_prospect.conv3d_custom import Conv3d, ConvTranspose3d, conv3d_backend, npu_available
from oil_gas_ops_prospect.conv3d_custom.functional import conv3d, conv_transpose3d

assert not npu_available()
fake_npu.install()
torch.npu.conv.allow_hf32 = False

_file = Path(__file__).resolve().parents[1] / "composite" / "conv3d_custom" / "patterns.py"
_spec = importlib.util.spec_from_file_location("conv3d_patterns", _file)
patterns = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(patterns)


def shrunk(pattern):
    """Depth and height no larger than the load of the real one needs: a window, and a row more."""
    d, h = (l * (k - 1) + 1 for k, l in zip(pattern.kernel[:2], pattern.dilation))
    return replace(pattern, d=max(d, 4), h=max(h + 1, 5))


PATTERNS = {pattern.name[:7]: shrunk(pattern) for pattern in patterns.PATTERNS}

K9 = (1, 7, 9, 10, 168), (7, 1, 9, 9, 9), (7,)
K9_SETTINGS = dict(padding=4, groups=7)


def there(t, dtype=None):
    return t.detach().to(dtype).to("npu").requires_grad_(t.requires_grad)


def here(t):
    return t.detach().cpu().double()


def leaves(*shapes):
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def layer(cls, p):
    settings = (p.cin, p.cout, p.kernel, p.stride, p.padding, p.dilation, p.groups)
    return cls(*settings, padding_mode=p.padding_mode, dtype=torch.float64)


def derivatives(function, tensors, gy):
    """y, the first gradients, and the gradients of a function of these."""
    y = function(*tensors)
    first = torch.autograd.grad(y, tensors, gy, create_graph=True)
    second = torch.autograd.grad(sum(t.square().sum() for t in first), (*tensors[:2], gy))
    return [y, *first, *second]


def assert_same(got, want, tolerance):
    """Errors relative to the largest entry."""
    for a, e in zip(got, want, strict=True):
        assert a.device.type == "npu"
        error = (here(a) - e.detach()).abs().max() / e.abs().max().clamp(min=1e-30)
        assert error <= tolerance, error


def test_the_device_is_found():
    assert npu_available()
    assert Conv3d(1, 1, 1).to("npu")(torch.zeros(1, 1, 1, 1, 1).to("npu")).device.type == "npu"


def test_native_is_refused_where_it_crashes():
    """train05 as it is; train04 where its long axis is the last: with 168 there its load is 326,656 bytes."""
    for name, width, refused in [("train05", 168, True), ("train04", 296, True), ("train04", 168, False)]:
        conv = layer(nn.Conv3d, PATTERNS[name]).float().to("npu")
        y = conv(torch.randn(1, 7, 9, 10, width).to("npu").requires_grad_())
        if refused:
            with pytest.raises(fake_npu.Refused, match="do not fit L1"):
                y.sum().backward()
        else:
            y.sum().backward()


def test_no_way_round_through_torch():
    x, w, b = (there(t, torch.float32) for t in leaves(*K9))
    gy = torch.randn(1, 7, 9, 10, 168).to("npu")
    with pytest.raises(fake_npu.Refused):
        F.conv_transpose3d(gy, w, padding=4, groups=7)
    with pytest.raises(fake_npu.Refused):
        torch.nn.grad.conv3d_input(x.shape, w, gy, padding=4, groups=7)
    naive = F.conv3d(gy.requires_grad_(), w.flip((2, 3, 4)), padding=4, groups=7)
    with pytest.raises(fake_npu.Refused):
        torch.autograd.grad(naive.sum(), gy)


def network(cls, name):
    torch.manual_seed(3)
    return nn.Sequential(layer(cls, PATTERNS[name]), nn.LeakyReLU(0.1), cls(7, 1, 1, dtype=torch.float64))


def losses(net, x, target, epochs):
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(epochs):
        loss = (net(x) - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        yield loss.item()


@pytest.mark.parametrize("name, width", [("train04", 296), ("train05", 168)])
def test_ours_trains_20_epochs_as_the_cpu_does(name, width):
    x = torch.randn(1, 7, 9, 10, width, dtype=torch.float64)
    target = F.avg_pool3d(x.sum(1, keepdim=True), 3, stride=1, padding=1)
    device = there(x, torch.float32).requires_grad_(), there(target, torch.float32)
    with pytest.raises(fake_npu.Refused):
        next(losses(network(nn.Conv3d, name).float().to("npu"), *device, 1))
    got = list(losses(network(Conv3d, name).float().to("npu"), *device, 20))
    want = list(losses(network(Conv3d, name), x, target, 20))
    assert got[-1] < 0.5 * got[0]
    torch.testing.assert_close(torch.tensor(got), torch.tensor(want, dtype=torch.float32), rtol=1e-3, atol=0)


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_and_their_double_backward(name):
    """Depth and height are small, width and kernel real."""
    p = PATTERNS[name]
    conv, native = layer(Conv3d, p), layer(nn.Conv3d, p)
    tensors = [torch.randn(p.x_shape, dtype=torch.float64, requires_grad=True), conv.weight, conv.bias]
    gy = torch.randn(p.y_shape, dtype=torch.float64, requires_grad=True)
    want = derivatives(native._conv_forward, tensors, gy)
    for dtype, tolerance in ((torch.float64, 1e-11), (torch.float32, 1e-4)):
        on_device = [there(t, dtype) for t in tensors]
        assert_same(derivatives(conv._conv_forward, on_device, there(gy, dtype)), want, tolerance)


SETTINGS = {
    "weight operator past its width": ((1, 2, 1, 31, 330), (2, 1, 1, 31, 31), dict(padding=(0, 15, 15), groups=2)),
    "weight operator past its kernel": ((1, 2, 2, 3, 300), (2, 1, 1, 1, 257), dict(padding=(0, 0, 128), groups=2)),
    "forward past its kernel": ((1, 2, 2, 1, 700), (2, 1, 1, 1, 513), dict(groups=2)),
    "half forward past its kernel's area": ((1, 1, 1, 64, 68), (1, 1, 1, 64, 64), {}),
    "dilation": ((1, 2, 2, 3, 600), (2, 1, 2, 1, 3), dict(dilation=(1, 1, 256), groups=2)),
    "stride": ((1, 2, 2, 3, 200), (2, 1, 1, 3, 3), dict(stride=(1, 1, 64), groups=2)),
    "padding": ((1, 1, 2, 2, 40), (1, 1, 1, 1, 3), dict(padding=(0, 0, 300))),
    "padding of the flipped convolution": ((1, 1, 2, 2, 700), (1, 1, 1, 1, 301), {}),
    "last axis": ((1, 2, 3, 3, 5000), (2, 1, 3, 3, 3), dict(padding=1, groups=2)),
    "forward past its width": ((1, 1, 2, 9, 2500), (1, 1, 2, 7, 7), dict(padding=(0, 3, 3))),
    "few channels beside many": ((1, 4, 3, 9, 296), (34, 2, 3, 7, 7), dict(padding=(1, 3, 3), groups=2)),
    "many channels a group": ((1, 18, 2, 3, 300), (18, 18, 1, 1, 257), dict(padding=(0, 0, 128))),
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-4), (torch.float16, 3e-2)], ids=["f32", "f16"])
def test_settings_beyond_each_limit(name, dtype, tolerance):
    x, w, settings = SETTINGS[name]
    tensors = leaves(x, w, w[:1])
    tensors = [t.detach().to(dtype).double().requires_grad_() for t in tensors]
    y = torch.conv3d(*tensors, **settings)
    gy = torch.randn_like(y).to(dtype).double().requires_grad_()
    want = torch.autograd.grad(y, tensors, gy)
    on_device = [there(t, dtype) for t in tensors]
    got = conv3d(*on_device, **settings)
    assert_same([got, *torch.autograd.grad(got, on_device, there(gy, dtype))], [y, *want], tolerance)


# kernel, last axis, channels, groups, dilation, dtype, whether native is refused
BOUNDARY = [
    (6, 296, 7, 7, 1, torch.float16, False),
    (7, 296, 7, 7, 1, torch.float16, True),
    (7, 296, 7, 7, 1, torch.float32, True),
    (8, 168, 7, 7, 1, torch.float16, False),
    (9, 168, 7, 7, 1, torch.float16, True),
    (9, 168, 7, 7, 1, torch.float32, True),
    (7, 168, 7, 7, 1, torch.float32, False),
    (7, 168, 7, 7, 2, torch.float32, True),
    (7, 296, 16, 16, 1, torch.float16, True),
    (7, 296, 17, 17, 1, torch.float16, False),
    (7, 296, 8, 8, 1, torch.float32, True),
    (7, 296, 9, 9, 1, torch.float32, False),
    (7, 296, 2, 1, 1, torch.float32, True),
    (7, 296, 2, 1, 1, torch.float16, False),
]


@pytest.mark.parametrize("k, width, channels, groups, dilation, dtype, refused", BOUNDARY)
def test_the_boundary(k, width, channels, groups, dilation, dtype, refused):
    """Native is refused where the formula says, ours never; OGP_CONV3D=native takes native exactly where it is safe."""
    # Few rows, which lower no load: the window is capped by rows * stride = the window and one more.
    window = dilation * (k - 1) + 1
    x = torch.randn(1, channels, max(k, window), window + 1, width, dtype=dtype)
    arguments = (channels, channels, k, 1, "same", dilation, groups)
    for cls in (nn.Conv3d, Conv3d):
        conv = cls(*arguments, dtype=dtype).to("npu")
        leaf = x.to("npu").requires_grad_()
        if cls is nn.Conv3d and refused:
            with pytest.raises(fake_npu.Refused):
                conv(leaf).sum().backward()
        else:
            conv(leaf).sum().backward()
    with conv3d_backend("native"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = conv(leaf)
        functional = conv3d(leaf, conv.weight, conv.bias, padding="same", dilation=dilation, groups=groups)
    native = [t.grad_fn.name() in ("ConvolutionBackward0", "SliceBackward0") for t in (y, functional)]
    assert native == [not refused] * 2
    assert len(caught) == 2 * refused and all("bytes against 524288 of L1" in str(w.message) for w in caught)
    y.sum().backward()


def test_budgets_of_the_environment_cut(monkeypatch):
    from oil_gas_ops_prospect.conv3d_custom import device

    x, w, b = leaves(*K9)
    want = derivatives(lambda *t: torch.conv3d(*t, **K9_SETTINGS), (x, w, b), gy := leaves((1, 7, 9, 10, 168))[0])
    monkeypatch.setenv("OGP_NPU_L1_BUDGET", "20000")
    monkeypatch.setenv("OGP_NPU_VOLUME_BUDGET", "3000000")
    monkeypatch.setattr(device, "_default_budget", device._budget_of_environment())
    fake_npu.LOG.clear()
    got = derivatives(lambda *t: conv3d(*t, **K9_SETTINGS), [there(t, torch.float64) for t in (x, w, b)], there(gy))
    assert_same(got, want, 1e-11)
    shapes = [shapes[0] for name, shapes in fake_npu.LOG if name == "aten::convolution"]
    assert len(shapes) >= 20 and max(10 * shape[4] * 32 for shape in shapes) <= 20_000
    assert max(shape[1] for shape in shapes) == 7, "seven channels are never cut"


class Seen(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


# ---- the transposed convolution ----

TRANSPOSED = {
    "the weight of train05": ((1, 7, 9, 10, 168), (7, 1, 9, 9, 9), dict(padding=4, groups=7)),
    "doubled": ((1, 2, 3, 5, 400), (2, 3, 7, 7, 7), dict(stride=2, padding=3, output_padding=1, groups=2)),
    "dilated, an output padding beyond the stride": (
        (1, 2, 3, 14, 400), (2, 1, 3, 7, 7), dict(dilation=2, padding=(0, 5, 5), output_padding=1, groups=2)
    ),
    "a last axis beyond all": ((1, 2, 2, 3, 2500), (2, 1, 3, 3, 3), dict(stride=2, groups=2)),
    "a stride beyond the operators": ((1, 2, 2, 3, 70), (2, 1, 1, 3, 70), dict(stride=(1, 1, 64), groups=2)),
}  # fmt: skip


def transposed_operands(name):
    x, w, settings = TRANSPOSED[name]
    return leaves(x, w, (w[1] * settings["groups"],)), settings


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_where_native_is_refused(name):
    (x, w, b), settings = transposed_operands(name)
    y = F.conv_transpose3d(x, w, b, **settings)
    gy = torch.randn_like(y).requires_grad_()
    want = derivatives(lambda *t: F.conv_transpose3d(*t, **settings), (x, w, b), gy)
    with pytest.raises(fake_npu.Refused):
        on_device = [there(t, torch.float32) for t in (x, w, b)]
        F.conv_transpose3d(*on_device, **settings).sum().backward()
    for dtype, tolerance in ((torch.float64, 1e-11), (torch.float32, 1e-4)):
        on_device = [there(t, dtype) for t in (x, w, b)]
        assert_same(
            derivatives(lambda *t: conv_transpose3d(*t, **settings), on_device, there(gy, dtype)), want, tolerance
        )


def test_transposed_transforms():
    """With no convolution, whose derivative might be refused. Strides: test_transposed, since torch differentiates
    copies into views by strides, which the tensors here do not have."""
    tensors, settings = transposed_operands("dilated, an output padding beyond the stride")
    tensors = [t.detach() for t in tensors]

    def gradients(function, *tensors):
        return torch.func.grad(lambda *t: function(*t, **settings).square().sum(), argnums=(0, 1, 2))(*tensors)

    want = gradients(F.conv_transpose3d, *tensors)
    fake_npu.LOG.clear()
    got = gradients(conv_transpose3d, *(t.to("npu") for t in tensors))
    assert not [operator for operator in fake_npu.operators() if "conv" in operator]
    assert_same(got, want, 1e-11)


@pytest.mark.parametrize("width, refused", [(60, False), (168, True)])
def test_transposed_native_only_where_it_is_safe(width, refused):
    conv, x = ConvTranspose3d(7, 7, 9, padding=4, groups=7).to("npu"), torch.randn(1, 7, 9, 10, width).to("npu")
    x.requires_grad_()
    with conv3d_backend("native"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ys = conv(x), conv_transpose3d(x, conv.weight, conv.bias, padding=4, groups=7)
    assert [y.grad_fn.name() == "ConvolutionBackward0" for y in ys] == [not refused] * 2
    assert len(caught) == 2 * refused and all("conv_transpose3d: the native" in str(w.message) for w in caught)
    sum(y.sum() for y in ys).backward()
    assert conv.weight.grad is not None


def test_transposed_small_things():
    conv = ConvTranspose3d(7, 7, 9, padding=4, groups=7).to("npu")
    x = torch.randn(7, 9, 10, 168).to("npu")
    assert torch.equal(here(conv(x)), here(conv(x[None])[0]))
    empty = torch.zeros(0, 7, 9, 10, 168).to("npu").requires_grad_()
    with Seen():
        conv(empty).sum().backward()
    assert empty.grad.shape == empty.shape and not here(conv.weight.grad).any()


# ---- where torch looks on ----


K7 = (2, 2, 7, 8, 296), (2, 1, 7, 7, 7), (2,)
K7_SETTINGS = dict(padding=3, groups=2)


def loss(function):
    return lambda x, w, b: function(x, w, b, **K7_SETTINGS).square().sum()


TRANSFORMS = {
    "grad": lambda f, x, w, b: torch.func.grad(loss(f), argnums=(0, 1))(x, w, b),
    "vmap of grad": lambda f, x, w, b: torch.func.vmap(torch.func.grad(loss(f)), (0, None, None))(x[:, None], w, b),
    "jvp": lambda f, x, w, b: torch.func.jvp(lambda x: f(x, w, b, **K7_SETTINGS), (x,), (x,))[1],
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    tensors = [t.detach() for t in leaves(*K7)]
    want = TRANSFORMS[name](torch.conv3d, *tensors)
    fake_npu.LOG.clear()
    got = TRANSFORMS[name](conv3d, *(t.to("npu") for t in tensors))
    assert not [operator for operator in fake_npu.operators() if "conv" in operator]
    want, got = ([t] if isinstance(t, torch.Tensor) else t for t in (want, got))
    assert_same(got, want, 1e-11)


def test_a_dispatch_mode_sees_the_steps():
    x, w, b = leaves(*K7)
    want = derivatives(lambda *t: torch.conv3d(*t, **K7_SETTINGS), (x, w, b), gy := leaves((2, 2, 7, 8, 296))[0])
    with Seen():
        got = derivatives(lambda *t: conv3d(*t, **K7_SETTINGS), [there(t, torch.float64) for t in (x, w, b)], there(gy))
    assert_same(got, want, 1e-11)


def test_a_batch_of_gradients():
    x, w, b = leaves(*K7)
    gy = torch.randn(2, 2, 2, 7, 8, 296, dtype=torch.float64)
    want = torch.autograd.grad(torch.conv3d(x, w, b, **K7_SETTINGS), (x, w, b), gy, is_grads_batched=True)
    tensors = [there(t, torch.float64) for t in (x, w, b)]
    got = torch.autograd.grad(conv3d(*tensors, **K7_SETTINGS), tensors, gy.to("npu"), is_grads_batched=True)
    assert_same(got, want, 1e-11)


def test_a_trace_can_be_trained():
    """Of few taps: each is operators of its own."""
    x, w, b = leaves((2, 2, 3, 8, 296), (2, 1, 1, 7, 7), (2,))
    settings = dict(padding=(0, 3, 3), groups=2)
    want = torch.autograd.grad(torch.conv3d(x, w, b, **settings).sum(), (x, w, b))
    tensors = [there(t, torch.float64) for t in (x, w, b)]
    traced = torch.jit.trace(lambda *t: conv3d(*t, **settings), tensors, check_trace=False)
    assert_same(torch.autograd.grad(traced(*tensors).sum(), tensors), want, 1e-11)


# ---- autocast ----


class Reference(torch.autograd.Function):
    """The convolution as torch.amp's decorators would have it."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="npu", cast_inputs=torch.float16)
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.conv3d(x, w, padding=4, groups=7)

    @staticmethod
    @torch.amp.custom_bwd(device_type="npu")
    def backward(ctx, gy):
        x, w = ctx.saved_tensors
        assert not torch.is_autocast_enabled("npu") and gy.dtype == torch.float16
        gx = torch.conv3d(gy, w.flip((2, 3, 4)), padding=4, groups=7)
        return gx, torch.nn.grad.conv3d_weight(x, w.shape, gy, padding=4, groups=7)


@pytest.mark.parametrize("inside", [True, False])
def test_autocast_is_that_of_the_decorators(inside):
    """Wherever the backward runs: values and dtypes, to the bit."""
    x, w, _ = leaves(*K9)
    results = []
    for function in (lambda x, w: conv3d(x, w, **K9_SETTINGS), Reference.apply):
        leaf, weight = there(x, torch.float32), there(w, torch.float32)
        with torch.autocast("npu", dtype=torch.float16):
            y = function(leaf, weight)
            total = y.float().sum()
            if inside:
                total.backward()
        if not inside:
            total.backward()
        assert (y.dtype, leaf.grad.dtype, weight.grad.dtype) == (torch.float16, torch.float32, torch.float32)
        results.append([here(t) for t in (y, leaf.grad, weight.grad)])
    assert all(torch.equal(a, e) for a, e in zip(*results))


def test_autocast_leaves_float32_sums_alone():
    """The banded form multiplies matrices, which autocast would round to half precision."""
    x, w, settings = SETTINGS["weight operator past its kernel"]
    tensors = [there(t, torch.float32) for t in leaves(x, w)]
    y = conv3d(*tensors, **settings)
    gy = torch.randn(y.shape).to("npu")
    want = torch.autograd.grad(y, tensors, gy, retain_graph=True)
    with torch.autocast("npu", dtype=torch.float16):
        got = torch.autograd.grad(y, tensors, gy)
    assert all(torch.equal(here(a), here(e)) for a, e in zip(got, want))


# ---- the small things ----


def test_unbatched_empty_and_copied():
    conv = Conv3d(7, 7, 9, padding=4, groups=7).to("npu")
    x = torch.randn(7, 9, 10, 168).to("npu")
    assert torch.equal(here(conv(x)), here(conv(x[None])[0]))
    with conv3d_backend("native"), pytest.warns(UserWarning, match="525312 bytes"):
        assert conv(x).shape == (7, 9, 10, 168)
    empty = torch.zeros(0, 7, 9, 10, 168).to("npu").requires_grad_()
    conv(empty).sum().backward()
    assert empty.grad.shape == empty.shape and not here(conv.weight.grad).any()
    assert torch.equal(here(copy.deepcopy(conv)(x)), here(conv(x)))
