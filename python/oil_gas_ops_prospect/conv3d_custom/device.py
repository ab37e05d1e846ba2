# SPDX-License-Identifier: Apache-2.0
"""Which implementation a call takes: the one place of that rule.

OGP_CONV3D, read once at import, or `conv3d_backend` for a part of a program:

  auto       the rule below (default)
  c          the C core; RuntimeError for what it cannot take
  composite  torch operators in bounded steps
  native     torch.nn.functional.conv3d, untouched
"""

import os
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from . import core

BACKENDS = ("auto", "native", "composite", "c")


def _known(name, value):
    if value not in BACKENDS:
        raise ValueError(f"{name}: expected one of {BACKENDS}, got {value!r}")
    return value


_forced = ContextVar("conv3d_backend", default=_known("OGP_CONV3D", os.environ.get("OGP_CONV3D", "auto")))


@contextmanager
def conv3d_backend(name):
    """Within the block, conv3d and Conv3d take this implementation: 'auto', 'native', 'composite' or 'c'. Holds for the
    current thread or task; a backward runs on what its forward took. ValueError for another name."""
    token = _forced.set(_known("conv3d_backend", name))
    try:
        yield
    finally:
        _forced.reset(token)


def npu_available():
    """Whether torch_npu has been imported and finds a device. Never imports it, never raises."""
    try:
        return bool(torch.npu.is_available())
    except Exception:
        return False


def function_backend(device_type, dtype):
    """'c', 'composite' or 'native' for a call of functional.conv3d: custom wherever nothing else is forced."""
    forced = _forced.get()
    if forced != "auto":
        return forced
    return "c" if device_type == "cpu" and core.takes(dtype) else "composite"


def _core_is_faster(dtype, x_shape, w_shape):
    """Forward plus backward against native, measured on 2 cores with AVX-512 (docs/crossover.md). Depthwise layers and few
    channels: the core, by far. Native is the faster for pointwise kernels on small volumes, for volumes of a few voxels, and
    in float32 for 16 and more channels a group where oneDNN takes the problem."""
    voxels = x_shape[-1] * x_shape[-2] * x_shape[-3]
    ci, taps = w_shape[1], w_shape[2] * w_shape[3] * w_shape[4]
    if ci < 4:
        return True
    if taps == 1:
        return voxels >= 2**18
    if voxels <= 64:
        return False
    if dtype != torch.float32 or min(ci, w_shape[0]) < 16:
        return True
    return taps < 125 and ci < 128 and x_shape[-4] * voxels < 2**20


def module_backend(device_type, dtype, x_shape=None, w_shape=None):
    """'c', 'composite' or 'native' for a call of Conv3d: custom where that is the faster or the only one that runs. Without
    shapes, by device and dtype alone."""
    forced = _forced.get()
    if forced != "auto":
        return forced
    if device_type == "cpu":
        faster = x_shape is None or _core_is_faster(dtype, x_shape, w_shape)
        return "c" if core.takes(dtype) and faster else "native"
    return "composite" if device_type == "npu" and npu_available() else "native"
