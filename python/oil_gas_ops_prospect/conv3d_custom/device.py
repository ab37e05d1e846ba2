# SPDX-License-Identifier: Apache-2.0
"""Which implementation a call takes: the one place of that rule.

OGP_CONV3D, read once at import, or `conv3d_backend` for a part of a program:

  auto       the rule below (default)
  c          the C core; RuntimeError for what it cannot take
  composite  torch operators in bounded steps
  native     torch.nn.functional.conv3d, untouched; on an NPU only where its backward is not refused

An NPU is what torch calls so: nothing is imported, asked or set to find out. OGP_NPU_L1_BUDGET and
OGP_NPU_VOLUME_BUDGET, read once at import, are the bytes that a step of the composite may take there, of L1 and of
memory.
"""

import os
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from . import core, npu, steps

BACKENDS = ("auto", "native", "composite", "c")


def _known(name, value):
    if value not in BACKENDS:
        raise ValueError(f"{name}: expected one of {BACKENDS}, got {value!r}")
    return value


def _bytes(name, value, default):
    """A count of bytes from what the caller or the environment gave as `name`; default for None."""
    if value is None:
        return default
    try:
        count = value if isinstance(value, int) else int(str(value))
    except ValueError:
        count = -1
    if count < 0:
        raise ValueError(f"{name}: expected a count of bytes, 0 or more, got {value!r}")
    return count


def _budget_of_environment():
    l1, volume = "OGP_NPU_L1_BUDGET", "OGP_NPU_VOLUME_BUDGET"
    base = steps.Budget()
    return steps.Budget(_bytes(l1, os.environ.get(l1), base.l1), _bytes(volume, os.environ.get(volume), base.volume))


_forced = ContextVar("conv3d_backend", default=_known("OGP_CONV3D", os.environ.get("OGP_CONV3D", "auto")))
_forced_budget = ContextVar("conv3d_budget", default=None)
_default_budget = _budget_of_environment()


@contextmanager
def conv3d_backend(name, *, l1_budget=None, volume_budget=None):
    """Within the block, conv3d and Conv3d take this implementation: 'auto', 'native', 'composite' or 'c'. Holds for the
    current thread or task; a backward runs on what its forward took.

    l1_budget, volume_budget: bytes of L1 and of memory that a step of the composite may take, on any device. None:
    those of a block around this one, else those of the environment, which hold on NPUs alone.

    Errors: ValueError for another name, or for budgets that are no counts of bytes."""
    budget = _forced_budget.get()
    if l1_budget is not None or volume_budget is not None:
        base = budget or _default_budget
        l1, volume = _bytes("l1_budget", l1_budget, base.l1), _bytes("volume_budget", volume_budget, base.volume)
        budget = steps.Budget(l1, volume)
    token, budget_token = _forced.set(_known("conv3d_backend", name)), _forced_budget.set(budget)
    try:
        yield
    finally:
        _forced_budget.reset(budget_token)
        _forced.reset(token)


def planning(device_type):
    """(limits, budget) that steps on this device keep to, or None where nothing limits them."""
    budget = _forced_budget.get()
    limits = npu.LIMITS.get(device_type, None if budget is None else npu.A2)
    return None if limits is None else (limits, budget or _default_budget)


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


def _core_is_faster_on_few_voxels(single, voxels, channels, ci, taps):
    if ci == 1 and channels >= 16:  # depthwise
        return single or voxels > 8
    if not single:
        return voxels > 8 and ci >= 4 and taps >= 125
    if taps < 125:
        return voxels > 32 and 16 <= ci <= 64
    return ci <= 16 or (voxels > 8 and taps >= 343)


def _core_is_faster(dtype, x_shape, w_shape, stride):
    """Forward plus backward against native, measured on 2 cores with AVX-512 (docs/crossover.md)."""
    if len(x_shape) < 4 or len(w_shape) != 5:
        return True  # these fail later, with their message
    voxels = x_shape[-1] * x_shape[-2] * x_shape[-3]
    ci, taps = w_shape[1], w_shape[2] * w_shape[3] * w_shape[4]
    single = dtype == torch.float32
    if x_shape[-3:] == w_shape[2:] and len(x_shape) == 5 and x_shape[0] >= 16:
        return True  # one output a sample: a product of matrices
    if taps == 1:
        least = 2**19 if single else 2**17
        return voxels >= 2**13 and max(x_shape[-4], w_shape[0]) * voxels >= least
    if voxels <= 64:
        return _core_is_faster_on_few_voxels(single, voxels, x_shape[-4], ci, taps)
    if ci < 4:  # patches: a first layer, whose input needs no gradient
        co = w_shape[0] * ci // max(1, x_shape[-4])  # of a group
        return co < 64 or taps < 64
    if voxels >= 2**15:
        return True
    if taps < 125:
        most, large = (192, 2**12) if stride in (1, (1, 1, 1)) else (128, 2**13)
        return ci < most or voxels >= large
    least = min(ci, w_shape[0])
    return not single or least < 16 or (least >= 32 and voxels >= 2**12)


def module_backend(device_type, dtype, x_shape=None, w_shape=None, stride=(1, 1, 1)):
    """'c', 'composite' or 'native' for a call of Conv3d: custom where that is the faster or the only one that runs. Without
    shapes, by device and dtype alone."""
    forced = _forced.get()
    if forced != "auto":
        return forced
    if device_type == "cpu":
        faster = x_shape is None or _core_is_faster(dtype, x_shape, w_shape, stride)
        return "c" if core.takes(dtype) and faster else "native"
    return "composite" if device_type in npu.LIMITS else "native"


def module_runs_native(device_type, *call):
    """Whether such a call of Conv3d is torch's own operator, whoever looks on. Arguments: those of module_backend."""
    return module_backend(device_type, *call) == "native" and planning(device_type) is None
