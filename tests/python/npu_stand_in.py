# SPDX-License-Identifier: Apache-2.0
"""Run by test_device in a process of its own: torch's spare device under the name npu, kept on the CPU, whose native
convolution backward refuses to compute a grad input, as the real one does for large kernels. Conv3d must train on it
all the same. Prints the backends that Conv3d chose."""

import torch
import torch.utils._pytree as pytree
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from oil_gas_ops_prospect.conv3d_custom import Conv3d, composite, device, npu_available

assert not hasattr(torch, "npu") and not npu_available()
_setup_privateuseone_for_python_backend("npu")
torch.npu.is_available = lambda: True
assert npu_available()

aten = torch.ops.aten
libraries = [torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")]


class NpuTensor(torch.Tensor):
    @staticmethod
    def __new__(cls, raw):
        self = torch._C._acc.create_empty_tensor(raw.shape, raw.dtype)
        self.__class__ = NpuTensor
        return self

    def __init__(self, raw):
        self.raw = raw


def on_cpu(value):
    return value.raw if isinstance(value, NpuTensor) else value


def run(op, *args, **kwargs):
    if op is aten.convolution_backward.default:
        assert tuple(args[-1]) == (False, True, False), "the device cannot compute this grad input"
    if "device" in kwargs:
        kwargs["device"] = torch.device("cpu")
    out = op(*pytree.tree_map(on_cpu, args), **pytree.tree_map(on_cpu, kwargs))
    same = {id(a.raw): a for a in pytree.tree_leaves((args, kwargs)) if isinstance(a, NpuTensor)}
    return pytree.tree_map(lambda t: same.get(id(t), NpuTensor(t)) if isinstance(t, torch.Tensor) else t, out)


def implement(name, function):
    libraries[1].impl(name, function, "PrivateUse1")


def copy_from(source, target, non_blocking=False):
    on_cpu(target).copy_(on_cpu(source))
    return target


def backward(gy, x, w, stride, padding, dilation, transposed, output_padding, groups, mask):
    settings = (stride, padding, dilation, transposed, output_padding, groups, tuple(mask))
    return run(aten.convolution_backward.default, gy, x, w, [w.shape[0]], *settings)


libraries[0].fallback(lambda op, *args, **kwargs: run(op, *args, **kwargs), "PrivateUse1")
implement("empty.memory_format", lambda size, **k: NpuTensor(torch.empty(size, dtype=k.get("dtype"))))
implement("empty_strided", lambda size, stride, **k: NpuTensor(torch.empty_strided(size, stride, dtype=k.get("dtype"))))
implement("_copy_from", copy_from)
implement("convolution_overrideable", lambda *args: run(aten.convolution.default, *args))
implement("convolution_backward_overrideable", backward)
VIEWS = "as_strided view _reshape_alias detach flip expand permute transpose.int slice.Tensor select.int alias narrow"
OTHERS = "constant_pad_nd clone sum.dim_IntList sum zeros_like new_zeros mul.Tensor zero_ fill_.Scalar _to_copy ones_like"
for name in f"{VIEWS} {OTHERS}".split():
    base, _, overload = name.partition(".")
    op = getattr(getattr(aten, base), overload or "default")
    implement(name, lambda *args, op=op, **kwargs: run(op, *args, **kwargs))

chosen = []
choose = device.module_backend
device.module_backend = lambda *what: chosen.append(choose(*what)) or chosen[-1]

torch.manual_seed(0)
for stride in (1, 2):
    conv = Conv3d(4, 4, 3, padding=1, stride=stride, groups=4, dtype=torch.float64)
    x = torch.randn(1, 4, 5, 6, 7, dtype=torch.float64)
    expected = x.clone().requires_grad_()
    y = torch.nn.Conv3d._conv_forward(conv, expected, conv.weight, conv.bias)
    grads = torch.autograd.grad(y.sum(), (expected, conv.weight, conv.bias))

    there = NpuTensor(x).requires_grad_()
    w, b = (NpuTensor(p.detach()).requires_grad_() for p in (conv.weight, conv.bias))
    out = conv._conv_forward(there, w, b)
    assert out.device.type == "npu"
    torch.testing.assert_close(on_cpu(out), y.detach())
    got = torch.autograd.grad(out, (there, w, b), NpuTensor(torch.ones_like(y)))
    for a, e in zip(got, grads):
        torch.testing.assert_close(on_cpu(a), e)
print(*chosen)
