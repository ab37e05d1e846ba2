# SPDX-License-Identifier: Apache-2.0
"""Bad calls: the exception classes of torch, messages that name what was expected and what came."""

import pytest
import torch
import torch.nn.functional as F
from cases import conv_pair
from torch import nn

from oil_gas_ops_prospect.conv3d_custom import Conv3d
from oil_gas_ops_prospect.conv3d_custom.functional import conv3d

X, W = (1, 4, 5, 6, 7), (4, 2, 3, 3, 3)

BAD = [
    # x, w, b, arguments, a word of the message
    (X, W, None, dict(groups=0), "groups"),
    (X, W, None, dict(groups=-1), "groups"),
    (X, W, None, dict(groups=-(2**63)), "groups"),
    (X, W, None, dict(groups=2, stride=0), "stride"),
    (X, W, None, dict(groups=2, stride=(1, -1, 1)), "stride"),
    (X, W, None, dict(groups=2, dilation=0), "dilation"),
    (X, W, None, dict(groups=2, dilation=-1), "dilation"),
    (X, W, None, dict(groups=2, padding=-1), "padding"),
    (X, W, None, dict(groups=2, stride=()), "stride"),
    (X, W, None, dict(groups=2, stride=(1, 1)), "stride"),
    (X, W, None, dict(groups=2, padding=(1, 1)), "padding"),
    (X, W, None, dict(groups=2, dilation=(1, 1, 1, 1)), "dilation"),
    (X, W, None, dict(groups=2, padding="full"), "full"),
    (X, W, None, dict(groups=2, padding="same", stride=2), "same"),
    (X, W, None, dict(groups=2, padding=2**62), "padd"),
    (X, W, None, dict(groups=2, dilation=2**62), "ernel"),
    (X, W, None, dict(), "channels"),
    ((1, 2, 5, 6, 7), (4, 2, 3, 3, 3), None, dict(groups=2), "channels"),
    (X, (3, 2, 3, 3, 3), None, dict(groups=2), "divisible"),
    (X, (1, 2, 3, 3, 3), None, dict(groups=2), "at least 2"),
    (X, (0, 4, 3, 3, 3), None, dict(), "weight"),
    (X, (4, 4, 9, 3, 3), None, dict(), "5 x 6 x 7"),
    (X, (4, 4, 3, 3, 3), None, dict(dilation=(3, 1, 1)), "5 x 6 x 7"),
    (X, (4, 4, 0, 3, 3), None, dict(), "ernel"),
    (X, (4, 4, 3, 3), None, dict(), "weight"),
    (X, (4, 4, 3, 3, 3), (5,), dict(), "bias"),
    (X, (4, 4, 3, 3, 3), (4, 1), dict(), "bias"),
    ((4, 4, 4), (4, 4, 3, 3, 3), None, dict(), "4D"),
    ((1, 1, 4, 4, 4, 4), (4, 4, 3, 3, 3), None, dict(), "4D"),
    ((1, 4, 0, 6, 7), (4, 4, 3, 3, 3), None, dict(padding=2), "input"),
    ((6, 6, 6, 6), (4, 4, 3, 3, 3), None, dict(), "channels"),
]


@pytest.mark.parametrize("x,w,b,arguments,word", BAD, ids=str)
def test_bad_values(x, w, b, arguments, word, backend):
    x, w, b = torch.zeros(x), torch.zeros(w), None if b is None else torch.zeros(b)
    with pytest.raises(RuntimeError):
        F.conv3d(x, w, b, **arguments)
    with pytest.raises(RuntimeError, match=word):
        conv3d(x, w, b, **arguments)


@pytest.mark.parametrize("name", ["stride", "padding", "dilation", "groups"])
@pytest.mark.parametrize("value", [1.0, None, (1.0, 1, 1), True, object()], ids=lambda value: type(value).__name__)
def test_arguments_of_another_type(name, value, backend):
    for function in (F.conv3d, conv3d):
        with pytest.raises(TypeError, match=name):
            function(torch.zeros(X), torch.zeros(4, 4, 3, 3, 3), **{name: value})


def test_a_float_is_refused_also_after_the_same_call_with_an_int(backend):
    x, w = torch.zeros(X), torch.zeros(4, 4, 3, 3, 3)
    conv3d(x, w, stride=(1, 1, 1))
    with pytest.raises(TypeError, match="stride"):
        conv3d(x, w, stride=(1.0, 1.0, 1.0))


@pytest.mark.parametrize("x,w,b", [(3, W, None), (X, None, None), (X, W, 3)], ids=str)
def test_not_a_tensor(x, w, b, backend):
    tensors = [torch.zeros(s) if isinstance(s, tuple) else s for s in (x, w, b)]
    for function in (F.conv3d, conv3d):
        with pytest.raises(TypeError):
            function(*tensors, groups=2)


def test_dtypes_that_differ(backend):
    x, w, b = torch.zeros(X), torch.zeros(4, 4, 3, 3, 3), torch.zeros(4)
    with pytest.raises(RuntimeError, match="float32.*weight.*float64"):
        conv3d(x, w.double(), b)
    with pytest.raises(RuntimeError, match="float32.*bias.*float64"):
        conv3d(x, w, b.double())
    with pytest.raises(RuntimeError, match="cpu.*meta"):
        conv3d(x, w.to("meta"))


def test_bool():
    with pytest.raises(NotImplementedError):
        conv3d(torch.zeros(X, dtype=torch.bool), torch.zeros(4, 4, 3, 3, 3, dtype=torch.bool))


def test_sparse_is_refused(backend):
    with pytest.raises(RuntimeError):
        conv3d(torch.ones(X).to_sparse(), torch.ones(4, 4, 3, 3, 3))


def test_reflection_at_the_size(backend):
    conv = Conv3d(1, 1, 3, padding=(0, 0, 5), padding_mode="reflect")
    with pytest.raises(RuntimeError, match="width.*5, got 5"):
        conv(torch.zeros(1, 1, 5, 5, 5))


@pytest.mark.parametrize("precision", ["exact", 1])
def test_precision(precision):
    with pytest.raises(ValueError, match="precision"):
        conv3d(torch.zeros(X), torch.zeros(4, 4, 3, 3, 3), precision=precision)
    with pytest.raises(ValueError, match="precision"):
        Conv3d(1, 1, 3, precision=precision)


@pytest.mark.parametrize(
    "arguments,error",
    [
        (dict(padding_mode="mirror"), ValueError),
        (dict(groups=3), ValueError),
        (dict(groups=0), ValueError),
        (dict(groups=-1), ValueError),
        (dict(padding="same", stride=2), ValueError),
        (dict(padding="full"), ValueError),
        (dict(kernel_size=-1), RuntimeError),
    ],
    ids=str,
)
def test_module_construction(arguments, error):
    arguments = dict(in_channels=4, out_channels=4, kernel_size=3) | arguments
    for cls in (nn.Conv3d, Conv3d):
        with pytest.raises(error):
            cls(**arguments)


# ---- calls that are unusual, yet right ----


@pytest.mark.parametrize("arguments", [dict(stride=2**40), dict(stride=(3,), padding=[1]), dict(padding=torch.tensor(1).item()),
                                       dict(padding=(torch.Size([1, 2, 3]))), dict(dilation=torch.tensor(2))], ids=str)
def test_unusual_values(arguments, backend):
    x, w = torch.randn(X, dtype=torch.double), torch.randn(4, 4, 3, 3, 2, dtype=torch.double)
    torch.testing.assert_close(*conv_pair(x, w, **arguments))


def test_same_with_a_vast_dilation(backend):
    """Only the centre taps count."""
    x, w = torch.randn(3, 1, 3, 4, 3, dtype=torch.double), torch.randn(3, 1, 3, 1, 3, dtype=torch.double)
    y = conv3d(x, w, padding="same", dilation=3046875451)
    torch.testing.assert_close(y, x * w[:, 0, 1, 0, 1].reshape(1, 3, 1, 1, 1))


@pytest.mark.parametrize("kernel,dilation", [((2, 4, 3), (1, 1, 2)), ((1, 3, 5), (1, 2, 3))])
def test_same_keeps_the_size_and_pads_more_at_the_end(kernel, dilation, backend):
    x, w = torch.randn(1, 3, 11, 12, 13, dtype=torch.double), torch.randn(2, 3, *kernel, dtype=torch.double)
    y, expected = conv_pair(x, w, padding="same", dilation=dilation)
    assert y.shape[2:] == x.shape[2:]
    torch.testing.assert_close(y, expected)
    row = conv3d(torch.arange(1.0, 4).view(1, 1, 1, 1, 3), torch.tensor([1.0, 10]).view(1, 1, 1, 1, 2), padding="same")
    assert row.flatten().tolist() == [21, 32, 3]


def test_padding_goes_to_its_own_axis(backend):
    conv = Conv3d(2, 2, 3, padding=(0, 1, 2), padding_mode="circular").double()
    x = torch.randn(1, 2, 5, 6, 7, dtype=torch.double)
    expected = F.conv3d(F.pad(x, (2, 2, 1, 1, 0, 0), mode="circular"), conv.weight, conv.bias)
    assert expected.shape[2:] == (3, 6, 9)
    torch.testing.assert_close(conv(x), expected)


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
def test_an_empty_batch_gives_zero_gradients(mode, backend):
    conv = Conv3d(4, 6, 3, padding=1, padding_mode=mode)
    x = torch.zeros(0, 4, 5, 6, 7, requires_grad=True)
    y = conv(x)
    assert y.shape == (0, 6, 5, 6, 7)
    y.sum().backward()
    assert x.grad.shape == x.shape
    assert not conv.weight.grad.any() and not conv.bias.grad.any()


def test_no_input_channels_leave_the_bias(backend):
    x, w = torch.zeros(2, 0, 5, 6, 7, requires_grad=True), torch.zeros(6, 0, 3, 3, 3, requires_grad=True)
    b = torch.randn(6, requires_grad=True)
    y = conv3d(x, w, b)
    assert torch.equal(y, b.reshape(1, 6, 1, 1, 1).expand(2, 6, 3, 4, 5))
    y.sum().backward()
    assert x.grad.shape == x.shape and w.grad.shape == w.shape and b.grad.tolist() == [2 * 60.0] * 6
    assert not conv3d(x, w).any()


def test_a_batch_beyond_65535(backend):
    x, w = torch.randn(70000, 1, 2, 2, 2), torch.randn(3, 1, 2, 2, 2)
    torch.testing.assert_close(*conv_pair(x, w, stride=2), rtol=1e-5, atol=1e-5)
