# SPDX-License-Identifier: Apache-2.0
"""The eleven call patterns of the benchmark, cropped so that native can run them: gradients in float64."""

import importlib.util
from pathlib import Path

import pytest
import torch
from torch import nn

from oil_gas_ops_prospect.conv3d_custom import Conv3d

FILE = Path(__file__).resolve().parents[1] / "composite" / "conv3d_custom" / "patterns.py"
spec = importlib.util.spec_from_file_location("conv3d_patterns", FILE)
patterns = importlib.util.module_from_spec(spec)
spec.loader.exec_module(patterns)

CROP = (14, 18, 20)
LIMIT = 1e-12


def layers(p):
    settings = (p.cin, p.cout, p.kernel, p.stride, p.padding, p.dilation, p.groups)
    ours, native = (cls(*settings, padding_mode=p.padding_mode, dtype=torch.float64) for cls in (Conv3d, nn.Conv3d))
    native.load_state_dict(ours.state_dict())
    return ours, native


def relative_error(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


@pytest.mark.parametrize("pattern", patterns.PATTERNS, ids=lambda p: p.name)
def test_gradients_in_float64(pattern, backend, capsys):
    ours, native = layers(pattern)
    x = torch.randn(pattern.n, pattern.cin, *CROP, dtype=torch.float64)
    results = []
    for layer in (ours, native):
        leaf = x.clone().requires_grad_()
        y = layer(leaf)
        gy = torch.randn(y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(7))
        results.append([y, *torch.autograd.grad(y, (leaf, layer.weight, layer.bias), gy)])
    errors = dict(zip(("y", "gx", "gw", "gb"), map(relative_error, *results)))
    with capsys.disabled():
        print(f"\n{pattern.name} {backend}: worst {max(errors.values()):.2e} of the largest entry", end="")
    assert max(errors.values()) <= LIMIT, errors
