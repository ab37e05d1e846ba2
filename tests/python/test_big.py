# SPDX-License-Identifier: Apache-2.0
"""Tensors around and beyond 2^31 elements, in memory of which only the touched pages are ever committed."""

import pytest
import torch

from oil_gas_ops_prospect.conv3d_custom.functional import conv3d

STEP = 256


def lattice(shape):
    """A tensor of this shape that is zero (and unbacked) but for random values at every STEP-th voxel of each axis."""
    x = torch.empty(shape)
    values = torch.randn(*shape[:2], *(len(range(0, s, STEP)) for s in shape[2:]))
    x[..., ::STEP, ::STEP, ::STEP] = values
    return x, values


@pytest.mark.parametrize("shape", [(1, 2, 1024, 1024, 1100), (1, 2, 1024, 1024, 1024), (1, 1, 1023, 1025, 2049), (1, 32, 300, 520, 514)], ids=str)
def test_a_volume_beyond_31_bits(shape):
    x, values = lattice(shape)
    w = torch.randn(1, shape[1], 1, 1, 1, requires_grad=True)
    y = conv3d(x, w, stride=STEP)
    expected = torch.einsum("ncdhw,oc->nodhw", values.double(), w[..., 0, 0, 0].double())
    torch.testing.assert_close(y, expected.float())
    gy = torch.randn_like(y)
    (gw,) = torch.autograd.grad(y, w, gy)
    expected = torch.einsum("ncdhw,nodhw->oc", values.double(), gy.double())
    torch.testing.assert_close(gw[..., 0, 0, 0], expected.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("beyond", [-1, 0, 1])
@pytest.mark.parametrize("axis", range(5))
def test_a_stride_about_31_bits(axis, beyond):
    """Two elements on one axis, 2^31 apart."""
    memory = torch.empty(2**31 + 4096)
    shape, stride = [1, 1, 3, 4, 5], [60, 60, 20, 5, 1]
    shape[axis], stride[axis] = 2, 2**31 + beyond
    x = memory.as_strided(shape, stride, 1)
    x.copy_(torch.randn(shape))
    w = torch.randn(2, shape[1], 1, 1, 1)
    assert torch.equal(conv3d(x, w), conv3d(x.contiguous(), w))


def test_a_window_that_crosses_31_bits():
    """Row 2^31 / 2^11 of a tall volume, once in place and once cut out."""
    x = torch.empty(1, 1, 2**20 + 64, 1, 2**11)
    start = 2**20 - 8
    crop = x[:, :, start : start + 16]
    crop.copy_(torch.randn(crop.shape))
    w = torch.randn(1, 1, 3, 1, 3)
    assert torch.equal(conv3d(crop, w), conv3d(crop.clone(), w))


@pytest.mark.long
def test_a_grad_input_beyond_31_bits():
    """gx of 2^31 elements is written whole: 8.6 GB."""
    w = torch.randn(1, 1, 1, 1, 1, requires_grad=True)
    x = torch.empty(1, 1, 1024, 1024, 2049).requires_grad_()
    y = conv3d(x, w.detach(), stride=STEP)
    gy = torch.randn_like(y)
    (gx,) = torch.autograd.grad(y, x, gy)
    torch.testing.assert_close(gx[..., ::STEP, ::STEP, ::STEP], gy * w.detach())
    assert gx.count_nonzero() == gy.count_nonzero()
