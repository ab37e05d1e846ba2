# SPDX-License-Identifier: Apache-2.0
"""Conv3d and ConvTranspose3d wherever those of torch.nn are expected."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from oil_gas_ops_prospect.conv3d_custom import Conv3d, ConvTranspose3d, LazyConv3d, LazyConvTranspose3d

NATIVE = {Conv3d: nn.Conv3d, ConvTranspose3d: nn.ConvTranspose3d}
LAYERS = [
    (Conv3d, dict(kernel_size=3)),
    (Conv3d, dict(kernel_size=(1, 3, 5), stride=(2, 1, 1), padding=(0, 1, 2), groups=2, bias=False)),
    (Conv3d, dict(out_channels=4, kernel_size=2, padding="same", dilation=2, groups=4)),
    (Conv3d, dict(out_channels=4, kernel_size=3, padding=1, padding_mode="reflect", dtype=torch.float64)),
    (ConvTranspose3d, dict(kernel_size=3)),
    (ConvTranspose3d, dict(kernel_size=(1, 3, 5), stride=(2, 1, 1), padding=(0, 1, 2), groups=2, bias=False)),
    (ConvTranspose3d, dict(kernel_size=3, stride=2, output_padding=(1, 0, 1), dilation=2, dtype=torch.float64)),
]


def both(ours, arguments):
    made = []
    for cls in (ours, NATIVE[ours]):
        torch.manual_seed(3)
        made.append(cls(**dict(in_channels=4, out_channels=6) | arguments))
    return made


@pytest.mark.parametrize("cls, arguments", LAYERS, ids=str)
def test_is_a_native_one(cls, arguments):
    ours, native = both(cls, arguments)
    assert isinstance(ours, NATIVE[cls]) and repr(ours) == repr(native)
    for p, q in zip(ours.parameters(), native.parameters(), strict=True):
        assert torch.equal(p, q)
    mine = dict(vars(ours))
    for name, value in vars(native).items():
        if not name.startswith("_"):
            assert mine[name] == value and type(mine[name]) is type(value), name


@pytest.mark.parametrize("cls, arguments", LAYERS, ids=str)
def test_state_goes_both_ways(cls, arguments, backend):
    ours, native = both(cls, arguments)
    with torch.no_grad():
        native.weight.add_(1)
    ours.load_state_dict(native.state_dict(), strict=True)
    x = torch.randn(2, 4, 6, 6, 6, dtype=native.weight.dtype)
    torch.testing.assert_close(ours(x), native(x))
    torch.testing.assert_close(ours(x[0]), native(x[0]))
    with torch.no_grad():
        ours.weight.mul_(2)
    native.load_state_dict(ours.state_dict(), strict=True)
    assert torch.equal(ours.weight, native.weight)


def by_pickle(module):
    return pickle.loads(pickle.dumps(module))


def by_save(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("copied", [by_pickle, by_save, copy.deepcopy, copy.copy])
@pytest.mark.parametrize("cls, arguments", [(Conv3d, dict(padding_mode="circular")), (ConvTranspose3d, dict(stride=2))])
def test_copies(cls, arguments, copied):
    conv = cls(4, 4, 3, padding=1, **arguments, precision="elementwise")
    twin = copied(conv)
    x = torch.randn(1, 4, 5, 5, 5)
    assert type(twin) is cls and repr(twin) == repr(conv) and twin.precision == "elementwise"
    assert torch.equal(twin(x), conv(x))


def test_a_module_pickled_before_padding_modes():
    conv = Conv3d(4, 4, 3)
    state = {k: v for k, v in vars(conv).items() if k != "padding_mode"}
    old = Conv3d.__new__(Conv3d)
    old.__setstate__(state)
    x = torch.randn(1, 4, 5, 5, 5)
    assert old.padding_mode == "zeros" and torch.equal(old(x), conv(x))


@pytest.mark.parametrize("cls", NATIVE)
def test_weight_norm(cls, backend):
    ours, native = (parametrizations.weight_norm(m) for m in both(cls, dict(kernel_size=3)))
    x = torch.randn(1, 4, 5, 5, 5)
    for module in (ours, copy.deepcopy(ours)):
        torch.testing.assert_close(module(x), native(x))
    ours(x).sum().backward()
    native(x).sum().backward()
    for p, q in zip(ours.parameters(), native.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("lazy, cls", [(LazyConv3d, Conv3d), (LazyConvTranspose3d, ConvTranspose3d)])
def test_lazy(lazy, cls):
    conv = lazy(6, 3, padding=1)
    y = conv(torch.randn(1, 4, 5, 5, 5))
    assert type(conv) is cls and conv.in_channels == 4 and y.shape == (1, 6, 5, 5, 5)


@pytest.mark.parametrize("cls", NATIVE)
def test_precision_shows_only_when_set(cls):
    assert "precision" not in repr(cls(1, 1, 3))
    assert repr(cls(1, 1, 3, precision="normwise")).endswith("precision='normwise')")


def test_memory_format_of_a_mixed_model():
    model = nn.ModuleList([Conv3d(4, 4, 3), nn.Linear(2, 2)])
    model.to(memory_format=torch.channels_last_3d)
    x = torch.randn(1, 4, 5, 5, 5)
    torch.testing.assert_close(model[0](x), nn.Conv3d._conv_forward(model[0], x, model[0].weight, model[0].bias))


class _Tagged(torch.Tensor):
    pass


@pytest.mark.parametrize("cls", NATIVE)
def test_a_tensor_subclass_keeps_its_class(cls, backend):
    conv = cls(4, 4, 3)
    x = torch.randn(1, 4, 5, 5, 5)
    y = conv(x.as_subclass(_Tagged))
    assert type(y) is _Tagged and torch.equal(y.as_subclass(torch.Tensor), conv(x))


def test_training_steps_follow_native():
    """Forward, backward, SGD, in float64: the same losses."""
    losses = []
    for cls in (Conv3d, nn.Conv3d):
        torch.manual_seed(5)
        net = nn.Sequential(cls(1, 4, 3, padding=1), nn.ReLU(), cls(4, 4, 5, padding=2, groups=4), nn.ReLU(), cls(4, 1, 1)).double()
        x = torch.randn(2, 1, 8, 8, 8, dtype=torch.float64)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        losses.append([])
        for _ in range(5):
            optimizer.zero_grad()
            loss = (net(x) - x.roll(1, -1)).square().mean()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-10) and losses[0][-1] < losses[0][0]
