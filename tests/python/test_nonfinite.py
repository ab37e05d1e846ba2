# SPDX-License-Identifier: Apache-2.0
"""NaN and infinity on the C core: they reach the outputs whose window holds them, and no others."""

import pytest
import torch

from oil_gas_ops_prospect.conv3d_custom.functional import conv3d

VALUES = [float("nan"), float("inf"), -float("inf")]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("kernel,padding,stride", [(3, 1, 1), (7, 3, 1), (2, 0, 2), ((1, 3, 5), (0, 1, 2), 1)])
@pytest.mark.parametrize("size", [(6, 6, 6), (9, 11, 40)])
def test_one_bad_voxel_stays_in_its_windows(value, kernel, padding, stride, size):
    if isinstance(kernel, int) and kernel > min(size) + 2 * padding:
        pytest.skip("does not fit")
    arguments = dict(padding=padding, stride=stride, groups=2)
    kernel = (kernel,) * 3 if isinstance(kernel, int) else kernel
    x = torch.randn(1, 2, *size, requires_grad=True)
    w = torch.randn(2, 1, *kernel, requires_grad=True)
    mark = torch.zeros(1, 2, *size)
    mark[0, 1, 2, 3, 4] = 1
    touched = conv3d(mark, torch.ones(2, 1, *kernel), **arguments) > 0.5
    bad = x.detach().clone()
    bad[mark > 0] = value
    y, clean = conv3d(bad, w, **arguments), conv3d(x, w, **arguments)
    assert not y[touched].isfinite().any()
    assert torch.equal(y[~touched], clean[~touched])
    (gw,) = torch.autograd.grad(y, w, torch.ones_like(y))
    (expected,) = torch.autograd.grad(clean, w, torch.ones_like(y))
    assert torch.equal(gw[0], expected[0]) and not gw[1].isfinite().all()


@pytest.mark.parametrize("groups,channels", [(1, 1), (1, 4), (4, 4), (1, 16), (16, 16)])
def test_a_padded_zero_times_an_infinite_weight_is_nan(groups, channels):
    w = torch.ones(channels, channels // groups, 3, 3, 3)
    w[:, :, 0, 0, 0] = -float("inf")
    y = conv3d(torch.ones(1, channels, 4, 4, 4), w, padding=1, groups=groups)
    assert y[..., 0].isnan().all() and (y[..., 1:, 1:, 1:] == -float("inf")).all()


def test_every_output_is_written():
    """Nothing of what the memory held before shows in a result."""
    for seed in range(300):
        generator = torch.Generator().manual_seed(seed)
        size = torch.randint(1, 8, (3,), generator=generator).tolist()
        c = int(torch.randint(1, 5, (), generator=generator))
        x, w = torch.randn(1, c, *size, requires_grad=True), torch.randn(c, 1, 3, 3, 3, requires_grad=True)
        for t in (x, w):
            torch.full(t.shape, float("nan"))  # freed at once: the allocator hands it to the next result of this size
        y = conv3d(x, w, groups=c, padding=1)
        torch.full(y.shape, float("nan"))
        assert all(t.isfinite().all() for t in (y, *torch.autograd.grad(y.sum(), (x, w))))
