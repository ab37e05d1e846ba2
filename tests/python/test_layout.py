# SPDX-License-Identifier: Apache-2.0
"""Strides: any tensor gives the values of its contiguous copy, and results keep the layout of their operands."""

import pytest
import torch
import torch.nn.functional as F
from cases import conv_pair, integers

from oil_gas_ops_prospect.conv3d_custom.functional import conv3d

LAST = torch.channels_last_3d

VIEWS = {
    "permuted": lambda t: t.permute(4, 3, 2, 1, 0).contiguous().permute(4, 3, 2, 1, 0),
    "sliced": lambda t: torch.stack([t, t + 1], 2).flatten(1, 2)[:, ::2],
    "stepped": lambda t: t.repeat_interleave(3, -1)[..., ::3],
    "expanded": lambda t: t[:1, :1].expand(t.shape),
    "one value": lambda t: torch.ones((), dtype=t.dtype).expand(t.shape),
    "channels_last_3d": lambda t: t.to(memory_format=LAST),
    "a crop of channels_last_3d": lambda t: F.pad(t, [1] * 6).to(memory_format=LAST)[:, :, 1:-1, 1:-1, 1:-1],
    "transposed weight": lambda t: t.transpose(0, 1).contiguous().transpose(0, 1),
    "offset": lambda t: torch.cat([t.new_zeros(1), t.flatten()])[1:].view(t.shape),
}


def gradients(x, w, b, gy):
    x, w, b = (t.detach().requires_grad_() for t in (x, w, b))
    y = conv3d(x, w, b, stride=(1, 2, 1), padding=1, groups=2)
    return y, *torch.autograd.grad(y, (x, w, b), gy)


@pytest.mark.parametrize("which", ["x", "w", "b", "gy"])
@pytest.mark.parametrize("view", VIEWS)
def test_any_strides(view, which, backend):
    tensors = dict(x=integers((2, 4, 5, 6, 7)), w=integers((6, 2, 3, 3, 3)), b=integers((6,)), gy=integers((2, 6, 5, 3, 7)))
    if which == "b":
        tensors["b"] = tensors["b"].repeat_interleave(2)[::2] if view == "sliced" else torch.ones(()).expand(6)
    else:
        tensors[which] = VIEWS[view](tensors[which])
    dense = {name: t.clone(memory_format=torch.contiguous_format) for name, t in tensors.items()}
    for got, expected in zip(gradients(**tensors), gradients(**dense)):
        assert torch.equal(got, expected)


@pytest.mark.parametrize("reduce", [lambda y: y.sum(), lambda y: y[:, :, 0].sum(), lambda y: y.permute(2, 0, 1, 3, 4).exp().sum()])
def test_gradients_as_autograd_hands_them_over(reduce, backend):
    x, w = torch.randn(2, 3, 4, 5, 6, dtype=torch.double), torch.randn(2, 3, 3, 2, 1, dtype=torch.double)
    results = []
    for function in (conv3d, F.conv3d):
        leaves = [t.clone().requires_grad_() for t in (x, w)]
        reduce(function(*leaves)).backward()
        results.append([t.grad for t in leaves])
    for a, e in zip(*results):
        torch.testing.assert_close(a, e)


@pytest.mark.parametrize("x_last", [False, True])
@pytest.mark.parametrize("w_last", [False, True])
def test_results_keep_the_layout(x_last, w_last, backend):
    x, w = integers((2, 4, 5, 6, 7)), integers((6, 4, 3, 3, 3))
    x = (x.to(memory_format=LAST) if x_last else x).requires_grad_()
    w = (w.to(memory_format=LAST) if w_last else w).requires_grad_()
    y, expected = conv_pair(x, w, padding=1)
    assert torch.equal(y, expected) and y.stride() == expected.stride()
    assert y.is_contiguous(memory_format=LAST) == (x_last or w_last)
    gx, gw = torch.autograd.grad(y, (x, w), torch.ones_like(y))
    assert gx.stride() == x.stride() and gw.stride() == w.stride()


def test_one_channel_with_a_channels_last_weight(backend):
    """Strides that could be read either way: plain, on dirty memory, twice."""
    x, w = integers((1, 1, 6, 7, 8)), integers((64, 1, 3, 3, 3))
    expected = gradient_of_sum(x, w)
    for _ in range(2):
        torch.full((1 << 20,), float("nan"))
        for got, e in zip(gradient_of_sum(x, w.to(memory_format=LAST)), expected):
            assert torch.equal(got, e)


def gradient_of_sum(x, w):
    x, w = x.clone().requires_grad_(), w.clone(memory_format=torch.preserve_format).requires_grad_()
    y = conv3d(x, w, padding=1)
    assert y.is_contiguous()
    return y, *torch.autograd.grad(y.sum(), (x, w))


def test_a_negated_view(backend):
    """The imaginary part of a conjugate: real memory whose sign is pending."""
    x = torch.randn(1, 2, 4, 4, 4, dtype=torch.complex128).conj().imag
    w = torch.randn(2, 2, 2, 2, 2, dtype=torch.complex128).conj().imag
    assert x.is_neg() and w.is_neg()
    torch.testing.assert_close(conv3d(x, w), F.conv3d(x, w))


def test_complex(backend):
    """Conjugates on both sides, and their gradients; the C core does not take them."""
    if backend == "c":
        with pytest.raises(RuntimeError, match="complex"):
            conv3d(torch.randn(1, 1, 3, 3, 3, dtype=torch.complex64), torch.randn(1, 1, 2, 2, 2, dtype=torch.complex64))
        return
    x = torch.randn(1, 2, 3, 4, 3, dtype=torch.complex128, requires_grad=True)
    w = torch.randn(2, 1, 2, 2, 2, dtype=torch.complex128, requires_grad=True)
    torch.testing.assert_close(*conv_pair(x.conj(), w.conj(), groups=2))
    torch.autograd.gradcheck(lambda x, w: conv3d(x.conj(), w, groups=2), (x, w), fast_mode=True)
    torch.autograd.gradgradcheck(lambda x, w: conv3d(x, w, groups=2, padding=1), (x, w), fast_mode=True)
