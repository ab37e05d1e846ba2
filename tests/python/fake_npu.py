# SPDX-License-Identifier: Apache-2.0
"""A stand-in for an NPU: torch's spare device under that name, its tensors kept on the CPU, its operators logged, and
its convolutions refused as the real ones are, and rounded to HF32 by default; autocast casts what it casts there.

`install()` renames the spare device, which a process can do once. LOG then holds (operator, shapes) of every call. The
refusals are those of the host-side tiling on A2/A3 devices, written here from their description and not from the
package that they judge. Floats of eight bytes, which the real device lacks, are treated as those of four."""

import types

import torch
import torch.utils._pytree as pytree

aten = torch.ops.aten
L1 = 524_288
LOG = []
_LIBRARIES = []


class Refused(RuntimeError):
    """The device would have said no."""


# ---- the refusals ----


def _check(condition, text):
    if not condition:
        raise Refused(text)


def _window(k, dilation):
    return (k - 1) * dilation + 1


def guard_grad_input(x_shape, w_shape, y_shape, itemsize, stride, dilation, groups):
    """Refuses a grad input; a transposed convolution is one."""
    if groups == 1 and itemsize == 2:
        return
    c0 = 16 if itemsize == 2 else 8
    (kd, kh, kw), (od, oh, ow), width = w_shape[2:], y_shape[2:], x_shape[4]
    rows = min(_window(kh, dilation[1]) + 1, oh * stride[1])
    planes = min(-(-((kd if y_shape[1] <= c0 else 1) - 1) // stride[0]) + 1, od)
    load = rows * (ow * stride[2]) * planes * 32 + kh * kw * 512 + (512 if itemsize == 2 else 0)
    _check(load <= L1, f"grad input: {load} bytes do not fit L1 of {L1}")
    _check(max(width, ow * stride[2]) <= 4096, "grad input: last axis")


def _guard_numbers(name, kernel, stride, padding, dilation, most):
    _check(max(kernel[1:]) <= most, f"{name}: kernel {kernel}")
    _check(max(stride) <= 63, f"{name}: stride {stride}")
    _check(max(dilation) <= 255, f"{name}: dilation {dilation}")
    _check(0 <= min(padding) and max(padding) <= 255, f"{name}: padding {padding}")


def guard_forward(x_shape, w_shape, itemsize, stride, padding, dilation):
    _guard_numbers("forward", w_shape[2:], stride, padding, dilation, 511)
    _check(w_shape[3] * w_shape[4] * (16 if itemsize == 2 else 8) <= 65_535, "forward: kernel area")
    load = (_window(w_shape[3], dilation[1]) + stride[1]) * x_shape[4] * 32
    _check(load <= L1, f"forward: {load} bytes do not fit L1 of {L1}")


def guard_grad_weight(x_shape, w_shape, itemsize, stride, padding, dilation):
    _guard_numbers("grad weight", w_shape[2:], stride, padding, dilation, 255)
    load = (_window(w_shape[3], dilation[1]) + stride[1]) * x_shape[4] * 32 * (1 if itemsize == 2 else 2) + 1024
    _check(load <= L1, f"grad weight: {load} bytes do not fit L1 of {L1}")


def _convolution(x, w, b, stride, padding, dilation, transposed, output_padding, groups):
    if transposed:
        y = aten.convolution(x.to("meta"), w.to("meta"), None, stride, padding, dilation, True, output_padding, groups)
        guard_grad_input(y.shape, w.shape, x.shape, x.itemsize, stride, dilation, groups)
    else:
        guard_forward(x.shape, w.shape, x.itemsize, stride, padding, dilation)


def _convolution_backward(gy, x, w, bias, stride, padding, dilation, transposed, output_padding, groups, mask):
    if transposed:
        x, gy = gy, x
        if mask[0]:
            guard_forward(x.shape, w.shape, x.itemsize, stride, padding, dilation)
    elif mask[0]:
        guard_grad_input(x.shape, w.shape, gy.shape, x.itemsize, stride, dilation, groups)
    if mask[1]:
        guard_grad_weight(x.shape, w.shape, x.itemsize, stride, padding, dilation)


# By operator, called with its arguments: Refused where the device would say no.
GUARDS = {aten.convolution.default: _convolution, aten.convolution_backward.default: _convolution_backward}


# ---- the device ----


class NpuTensor(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, raw):
        self = torch._C._acc.create_empty_tensor(raw.shape, raw.dtype)
        self.__class__ = NpuTensor
        return self

    def __init__(self, raw):
        self.raw = raw


def _on_cpu(value):
    return value.raw if isinstance(value, NpuTensor) else value


def _rounded(arguments):
    """Tensors as the device's convolutions read them: while HF32 is allowed, with 11 fraction bits."""
    if not torch.npu.conv.allow_hf32:
        return arguments

    def hf32(t):
        if not isinstance(t, torch.Tensor) or t.dtype != torch.float32:
            return t
        return ((t.detach().contiguous().view(torch.int32) + 0x800) & ~0xFFF).view(torch.float32)

    return [hf32(t) for t in arguments]


def _wrapped(raw, known):
    return known[id(raw)] if id(raw) in known else NpuTensor(raw)


def _run(op, *args, **kwargs):
    """The operator on the CPU tensors beneath. What it changed in place comes back as the tensor it was."""
    if op is aten.add.out and torch._debug_has_internal_overlap(kwargs["out"].raw) == 1:
        # An expanded gradient, to which torch adds in place because the tensor above says that it is dense.
        kwargs["out"].raw = kwargs["out"].raw.clone(memory_format=torch.contiguous_format)
    here, keywords = pytree.tree_map(_on_cpu, (args, kwargs))
    if "device" in keywords:
        keywords["device"] = torch.device("cpu")
    LOG.append((op.name(), [tuple(t.shape) for t in pytree.tree_leaves(here) if isinstance(t, torch.Tensor)]))
    if op in GUARDS:
        GUARDS[op](*here)
        here = _rounded(here)
    out = op(*here, **keywords)
    known = {id(t.raw): t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, NpuTensor)}
    return pytree.tree_map(lambda t: _wrapped(t, known) if isinstance(t, torch.Tensor) else t, out)


def _copy_from(source, target, non_blocking=False):
    _on_cpu(target).copy_(_on_cpu(source))
    return target


def _convolution_backward_on(gy, x, w, stride, padding, dilation, transposed, output_padding, groups, mask):
    bias = [w.shape[1] * groups if transposed else w.shape[0]]
    settings = (stride, padding, dilation, transposed, output_padding, groups, mask)
    return _run(aten.convolution_backward.default, gy, x, w, bias, *settings)


def _reshape(t, size, stride=None):
    """A view where the tensor beneath can be one: the tensors above always say that they are contiguous."""
    return _run(aten.reshape.default, t, size)


def _as_strided(t, size, stride, offset=None):
    if not t.raw.is_contiguous():
        raise NotImplementedError("strides of the tensor beneath are not known above; give the operator its own kernel")
    return _run(aten.as_strided.default, t, size, stride, offset)


# Those that torch composes of others, or runs by kernels of its own, where no backend has one.
_EXPLICIT = """detach flip expand permute transpose.int slice.Tensor select.int unfold alias narrow diagonal
squeeze.dim unsqueeze squeeze unbind.int split.Tensor constant_pad_nd clone sum.dim_IntList sum zeros_like ones_like
new_zeros new_empty mul.Tensor bmm zero_ fill_.Scalar stack cat index_select index_add mse_loss""".split()


def _autocast(op):
    """The operator in the dtype of autocast."""

    def cast(t):
        half = isinstance(t, torch.Tensor) and t.dtype == torch.float32
        return t.to(torch.get_autocast_dtype("npu")) if half else t

    def run(*args):
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)):
            return op(*map(cast, args))

    return run


def available():
    """Whether this torch can do it."""
    try:
        from torch.utils.backend_registration import _setup_privateuseone_for_python_backend  # noqa: F401
    except ImportError:
        return False
    return True


def install():
    """Makes torch.device("npu") work in this process, and torch.npu what torch_npu would make it."""
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend("npu")
    torch.npu.is_available = lambda: True
    torch.npu.synchronize = lambda *_: None
    torch.npu.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    torch.npu.conv = types.SimpleNamespace(allow_hf32=True)
    torch.npu.reset_peak_memory_stats = lambda *_: None
    torch.npu.memory_allocated = torch.npu.max_memory_allocated = lambda *_: 0
    everything, library = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    _LIBRARIES.extend((everything, library))
    everything.fallback(lambda op, *args, **kwargs: _run(op, *args, **kwargs), "PrivateUse1")
    everything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for name in ("conv3d", "bmm", "mm", "matmul"):
        library.impl(name, _autocast(getattr(aten, name).default), "AutocastPrivateUse1")

    def implement(name, function):
        library.impl(name, function, "PrivateUse1")

    implement("empty.memory_format", lambda size, dtype=None, **_: NpuTensor(torch.empty(size, dtype=dtype)))
    implement("empty_strided", lambda size, _, dtype=None, **__: NpuTensor(torch.empty(size, dtype=dtype)))
    implement("_copy_from", _copy_from)
    implement("view", _reshape)
    implement("_reshape_alias", _reshape)
    implement("_unsafe_view", _reshape)
    implement("as_strided", _as_strided)
    implement("convolution_overrideable", lambda *args: _run(aten.convolution.default, *args))
    implement("convolution_backward_overrideable", _convolution_backward_on)
    for name in _EXPLICIT:
        base, _, overload = name.partition(".")
        op = getattr(getattr(aten, base), overload or "default")
        implement(name, lambda *args, op=op, **kwargs: _run(op, *args, **kwargs))


def operators():
    """Names of what has run since the log was cleared."""
    return [name for name, _ in LOG]
