# SPDX-License-Identifier: Apache-2.0
"""Which gradients are computed and what is saved, and transforms that must work or refuse."""

import pytest
import torch

from oil_gas_ops_prospect.conv3d_custom import Conv3d, core
from oil_gas_ops_prospect.conv3d_custom.device import function_backend
from oil_gas_ops_prospect.conv3d_custom.functional import conv3d, convolve_by

F64 = torch.float64


def convolve(x, w, b, stride, padding, dilation, groups, mode):
    """conv3d with a padding mode, as the module calls it."""
    return convolve_by(function_backend("cpu", x.dtype), x, w, b, stride, padding, dilation, groups, mode, None)


def operands(groups=1, **_):
    make = lambda *shape: torch.randn(*shape, dtype=F64, requires_grad=True)
    return make(2, 2, 5, 4, 6), make(4, 2 // groups, 2, 3, 2), make(4)


@pytest.fixture
def steps_run(monkeypatch):
    """Names of the gradient steps that the core was asked for."""
    run = []
    for name in ("grad_input", "grad_weight", "grad_bias"):
        original = getattr(core, name)
        def step(*args, _name=name, _original=original):
            run.append(_name + ("+bias" if _name == "grad_weight" and args[-1] else ""))
            return _original(*args)
        monkeypatch.setattr(core, name, step)
    return run


EXPECTED = {0: ["grad_input"], 1: ["grad_weight"], 2: ["grad_bias"]}


@pytest.mark.parametrize("leaf", [True, False])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_only_the_asked_gradient_is_computed(steps_run, which, leaf):
    """autograd.grad of one input, though all three require grad."""
    leaves = operands()
    tensors = leaves if leaf else [t * 1 for t in leaves]
    y = conv3d(*tensors)
    torch.autograd.grad(y.sum(), tensors[which])
    assert steps_run == EXPECTED[which]


@pytest.mark.parametrize("which", [0, 1, 2])
def test_frozen_parts_are_not_computed(steps_run, which):
    tensors = [t.detach().requires_grad_(k == which) for k, t in enumerate(operands())]
    conv3d(*tensors).sum().backward()
    assert steps_run == EXPECTED[which]
    assert [t.grad is not None for t in tensors] == [k == which for k in range(3)]


def test_a_tiny_problem_gives_the_same_without_asking():
    x, w, b = (torch.randn(*shape, dtype=F64, requires_grad=True) for shape in ((1, 1, 4, 4, 4), (1, 1, 3, 3, 3), (1,)))
    y = conv3d(x, w, b, padding=1)
    every = torch.autograd.grad(y.sum(), (x, w, b), retain_graph=True)
    for tensor, gradient in zip((x, w, b), every):
        (alone,) = torch.autograd.grad(y.sum(), tensor, retain_graph=True)
        assert torch.equal(alone, gradient)


def test_bias_gradient_comes_with_the_weight(steps_run):
    conv3d(*operands()).sum().backward()
    assert steps_run == ["grad_input", "grad_weight+bias"]


def saved(y):
    return [t for t in y.grad_fn.saved_tensors if t is not None]


def test_saves_only_what_is_needed():
    x, w, b = operands()
    assert len(saved(conv3d(x, w, b))) == 2
    assert saved(conv3d(x.detach(), w, b))[0].data_ptr() == x.data_ptr()
    assert saved(conv3d(x, w.detach(), b))[0].data_ptr() == w.data_ptr()
    assert saved(conv3d(x.detach(), w.detach(), b)) == []
    assert conv3d(x.detach(), w.detach()).grad_fn is None


def test_the_padded_input_is_not_saved():
    x, w, _ = operands()
    y = convolve(x, w, None, 1, (1, 1, 1), 1, 1, "reflect")
    assert saved(y)[0].data_ptr() == x.data_ptr() and saved(y)[0].shape == x.shape


def test_in_place_change_of_a_saved_tensor_is_noticed(backend):
    x, w, _ = operands()
    y = conv3d(x, w)
    with torch.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint(reentrant):
    m = Conv3d(2, 4, 3, padding=1, dtype=F64)
    x = operands()[0]
    m(x).pow(2).sum().backward()
    expected = [x.grad, *(p.grad for p in m.parameters())]
    x.grad = None
    m.zero_grad()
    torch.utils.checkpoint.checkpoint(m, x, use_reentrant=reentrant).pow(2).sum().backward()
    for a, b in zip(expected, [x.grad, *(p.grad for p in m.parameters())]):
        assert torch.equal(a, b)


@pytest.mark.parametrize("compiler", ["eager", "aot_eager"])
def test_compile(compiler):
    m = Conv3d(2, 4, 3, padding=1, dtype=F64)
    x = operands()[0]
    y = torch.compile(m, backend=compiler)(x)
    assert torch.allclose(y, m(x), rtol=1e-12, atol=1e-12)
    (g,) = torch.autograd.grad(y.pow(2).sum(), x)
    (e,) = torch.autograd.grad(m(x).pow(2).sum(), x)
    assert torch.allclose(g, e, rtol=1e-11, atol=1e-11)


def test_trace():
    m = Conv3d(2, 4, 3, padding=1, dtype=F64).eval()
    x = operands()[0].detach()
    traced = torch.jit.trace(m, x)
    other = torch.randn_like(x)
    assert torch.allclose(traced(other), m(other), rtol=1e-12, atol=1e-12)


def test_functional_transforms_refuse_or_work(backend):
    """Never wrong: jvp and vmap give torch's values, or raise."""
    x, w, b = (t.detach() for t in operands())
    tangent = torch.randn_like(x)
    pairs = [
        (lambda: torch.func.jvp(lambda x: conv3d(x, w, b), (x,), (tangent,))[1], lambda: torch.conv3d(tangent, w)),
        (lambda: torch.func.vmap(lambda x: conv3d(x, w, b))(x[:, None]), lambda: torch.conv3d(x, w, b)[:, None]),
        (lambda: torch.func.grad(lambda w: conv3d(x, w, b).sum())(w),
         lambda: torch.nn.grad.conv3d_weight(x, w.shape, torch.ones(2, 4, 4, 2, 5, dtype=F64))),
    ]
    for ours, native in pairs:
        try:
            got = ours()
        except (RuntimeError, NotImplementedError):
            continue
        assert torch.allclose(got, native())


def test_forward_mode(backend):
    x, w, _ = (t.detach() for t in operands())
    tangent = torch.randn_like(x)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, tangent)
        y = torch.autograd.forward_ad.unpack_dual(conv3d(dual, w)).tangent
    assert torch.allclose(y, torch.conv3d(tangent, w))


def test_autocast():
    x, w, b = (t.detach().float().requires_grad_() for t in operands())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours, native = conv3d(x, w, b), torch.conv3d(x, w, b)
    assert ours.dtype == native.dtype == torch.bfloat16
    torch.testing.assert_close(ours, native)
    ours.float().sum().backward()
    assert x.grad.dtype == w.grad.dtype == b.grad.dtype == torch.float32
