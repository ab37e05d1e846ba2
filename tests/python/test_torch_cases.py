# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own cases for these operators and modules, as its wheel ships them, run on ours."""

import warnings

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db

from oil_gas_ops_prospect.conv3d_custom import Conv3d, ConvTranspose3d, conv3d_backend
from oil_gas_ops_prospect.conv3d_custom.functional import conv3d, conv_transpose3d

OPERATORS = [
    pytest.param(next(op for op in op_db if op.name == f"nn.functional.{ours.__name__}"), ours, id=ours.__name__)
    for ours in (conv3d, conv_transpose3d)
]
MODULES = [
    pytest.param(next(m for m in module_db if m.module_cls is native), ours, id=ours.__name__)
    for native, ours in ((torch.nn.Conv3d, Conv3d), (torch.nn.ConvTranspose3d, ConvTranspose3d))
]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def assert_near(a, b):
    """Equal but for rounding: sums of some hundred products of the sample inputs, against the largest entry."""
    exact = not (b.is_floating_point() or b.is_complex()) or b.numel() == 0
    atol = 0 if exact else 64 * torch.finfo(b.dtype).eps * max(1.0, b.abs().max().item())
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


@pytest.fixture(params=["auto", "composite"])
def backend(request):
    """The C core where it takes the dtype, and the composite everywhere."""
    with conv3d_backend(request.param):
        yield request.param


def samples(op, dtype, requires_grad):
    cases = list(op.sample_inputs("cpu", dtype, requires_grad=requires_grad))
    assert len(cases) >= 8
    return cases


@pytest.mark.parametrize("op, ours", OPERATORS)
@pytest.mark.parametrize("dtype", DTYPES + [torch.complex64, torch.int64])
def test_samples_forward(backend, dtype, op, ours):
    if dtype not in op.supported_dtypes("cpu"):
        pytest.skip("not a dtype of the native operator")
    for s in samples(op, dtype, False):
        assert_near(ours(s.input, *s.args, **s.kwargs), op(s.input, *s.args, **s.kwargs))


@pytest.mark.parametrize("op, ours", OPERATORS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_samples_backward(backend, dtype, op, ours):
    for s in samples(op, dtype, True):
        inputs = [t for t in (s.input, *s.args, *s.kwargs.values()) if isinstance(t, torch.Tensor)]
        y, native = ours(s.input, *s.args, **s.kwargs), op(s.input, *s.args, **s.kwargs)
        gy = torch.randn_like(native)
        for a, b in zip(torch.autograd.grad(y, inputs, gy), torch.autograd.grad(native, inputs, gy)):
            assert_near(a, b)


@pytest.mark.parametrize("op, ours", OPERATORS)
def test_samples_gradcheck(backend, op, ours):
    for s in samples(op, torch.float64, True):
        inputs = [t for t in (s.input, *s.args) if isinstance(t, torch.Tensor)]
        function = lambda *tensors: ours(*tensors, *s.args[len(tensors) - 1:], **s.kwargs)
        assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
        assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("op, ours", OPERATORS[:1])  # torch lists none for the other
def test_error_inputs(backend, op, ours):
    seen = 0
    for e in op.error_inputs("cpu"):
        s = e.sample_input
        with pytest.raises(e.error_type):
            ours(s.input, *s.args, **s.kwargs)
        seen += 1
    assert seen >= 10


def module_inputs(module, training):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return module.module_inputs_func(module, device="cpu", dtype=torch.float64, requires_grad=True,
                                         training=training)


@pytest.mark.parametrize("module, cls", MODULES)
@pytest.mark.parametrize("training", [True, False])
def test_module_inputs(backend, training, module, cls):
    for case in module_inputs(module, training):
        args, kwargs = case.constructor_input.args, case.constructor_input.kwargs
        torch.manual_seed(1)
        ours = cls(*args, **kwargs, dtype=torch.float64).train(training)
        torch.manual_seed(1)
        native = module.module_cls(*args, **kwargs, dtype=torch.float64).train(training)
        assert repr(ours) == repr(native)
        x = case.forward_input.args[0].detach()
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        ya, yb = ours(a), native(b)
        torch.testing.assert_close(ya, yb)
        gy = torch.randn_like(yb)
        ya.backward(gy), yb.backward(gy)
        torch.testing.assert_close(a.grad, b.grad)
        for p, q in zip(ours.parameters(), native.parameters()):
            torch.testing.assert_close(p.grad, q.grad)


@pytest.mark.parametrize("module, cls", MODULES)
def test_module_errors(module, cls):
    for case in module.module_error_inputs_func(module, device="cpu", dtype=torch.float32, requires_grad=False,
                                                training=True) if module.module_error_inputs_func else []:
        construct, forward = case.module_error_input.constructor_input, case.module_error_input.forward_input
        with pytest.raises(case.error_type, match=case.error_regex):
            cls(*construct.args, **construct.kwargs)(*forward.args)
