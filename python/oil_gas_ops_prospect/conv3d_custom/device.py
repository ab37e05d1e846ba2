# SPDX-License-Identifier: Apache-2.0
"""The one rule that says which backend computes a convolution.

Backends: "native" (torch's own F.conv3d), "composite" (bounded steps in torch operators), "c" (the C core). The
environment variable OGP_CONV3D, read at import, or `conv3d_backend` force one; "auto" decides by device and dtype."""

import os
import warnings
from contextlib import contextmanager
from contextvars import ContextVar

import torch

BACKENDS = ("auto", "native", "composite", "c")


def _checked(name, origin):
    if name not in BACKENDS:
        raise ValueError(f"{origin}: expected one of {', '.join(BACKENDS)}, got {name!r}")
    return name


_forced = ContextVar("ogp_conv3d", default=_checked(os.environ.get("OGP_CONV3D") or "auto", "OGP_CONV3D"))

try:
    from .. import _core  # noqa: F401
    CORE_AVAILABLE = True
except ImportError as error:
    CORE_AVAILABLE = False
    warnings.warn(f"oil_gas_ops_prospect: the C core cannot be loaded ({error}); torch's operators are used instead",
                  RuntimeWarning, stacklevel=2)

_CORE_DTYPES = (torch.float32, torch.float64)


@contextmanager
def conv3d_backend(name):
    """Forces a backend ("auto", "native", "composite" or "c") within a `with` block, for the current thread or task.

    Raises ValueError for another name."""
    token = _forced.set(_checked(name, "conv3d_backend"))
    try:
        yield
    finally:
        _forced.reset(token)


def forced():
    """The backend that is forced now, or "auto"."""
    return _forced.get()


def npu_available():
    """Whether torch knows an NPU and one is there. Never imports anything, never raises."""
    try:
        return bool(torch.npu.is_available())
    except Exception:
        return False


def core_takes(device_type, dtype):
    """Whether the C core can compute on tensors of this device and dtype."""
    return CORE_AVAILABLE and device_type == "cpu" and dtype in _CORE_DTYPES


def steps_backend(device_type, dtype):
    """"c" or "composite", for a convolution whose forward and backward are ours.

    Raises RuntimeError where "c" is forced and the core cannot take the tensors."""
    choice = _forced.get()
    if choice == "composite":
        return "composite"
    if core_takes(device_type, dtype):
        return "c"
    if choice == "c":
        raise RuntimeError(f"conv3d(): the C core is forced, but it takes float32 and float64 CPU tensors"
                           f"{'' if CORE_AVAILABLE else ' and could not be loaded'}, got {dtype} on {device_type}")
    return "composite"


def module_backend(device_type, dtype):
    """"native", "composite" or "c", for a Conv3d module: NPU tensors go to the composite where torch's NPU support
    is loaded; CPU tensors to the C core where it takes them (it was the faster on every measured pattern); all else
    to the native operator."""
    choice = _forced.get()
    if choice == "native":
        return "native"
    if choice in ("composite", "c"):
        return steps_backend(device_type, dtype)
    if device_type == "npu" and npu_available():
        return "composite"
    return "c" if core_takes(device_type, dtype) else "native"
