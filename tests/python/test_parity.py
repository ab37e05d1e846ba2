# SPDX-License-Identifier: Apache-2.0
"""Values and gradients against torch's own operators, over random configurations."""

import pytest
import torch
from cases import assert_within_rounding, cases, integers, native, ours, results
from hypothesis import given


def _gy(case, tensors, make):
    return make(native(case, *tensors).shape)


@pytest.mark.parametrize("backend", ["c", "composite"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(case=cases())
def test_within_rounding(backend, dtype, case):
    make = lambda shape: torch.randn(shape, dtype=dtype)
    tensors = case.tensors(make)
    gy = _gy(case, tensors, make)
    assert_within_rounding(case, results(lambda *t: ours(case, *t, backend=backend), tensors, gy), tensors, gy)


@pytest.mark.parametrize("backend", ["c", "composite"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(case=cases())
def test_exact_on_integers(backend, dtype, case):
    make = lambda shape: integers(shape, dtype)
    tensors = case.tensors(make)
    gy = _gy(case, tensors, make)
    expected = results(lambda *t: native(case, *t), [t.double() for t in tensors], gy.double())
    for name, a, e in zip(("y", "gx", "gw", "gb"), results(lambda *t: ours(case, *t, backend=backend), tensors, gy), expected):
        assert torch.equal(a.double(), e), f"{name} of {case}"


@given(case=cases())
def test_both_backends_agree_on_integers(case):
    tensors = case.tensors(integers)
    gy = _gy(case, tensors, integers)
    one, other = (results(lambda *t: ours(case, *t, backend=b), tensors, gy) for b in ("c", "composite"))
    for name, a, b in zip(("y", "gx", "gw", "gb"), one, other):
        assert torch.equal(a, b), f"{name} of {case}"


@given(case=cases(modes=["circular"]))
def test_circular_wraps_any_number_of_times(case):
    """Sizes below the padding, which torch refuses."""
    size = tuple(max(1, s // 3) for s in case.size)
    small = type(case)(**{**case.__dict__, "size": size})
    try:
        x, w, *b = small.tensors(integers)
        indexed = x
        for axis, (p, q) in enumerate(small.pads()):
            indexed = indexed.index_select(2 + axis, torch.arange(-p, size[axis] + q).remainder(size[axis]))
        bare = type(case)(**{**small.__dict__, "size": tuple(indexed.shape[2:]), "padding": "valid", "mode": "zeros"})
        expected = native(bare, indexed, w, *b)
    except RuntimeError:  # the kernel does not fit the smaller volume
        return
    for backend in ("c", "composite"):
        assert torch.equal(ours(small, x, w, *b, backend=backend), expected)
