# SPDX-License-Identifier: Apache-2.0
"""What differs between devices when one measures: waiting for them, their memory, and how an NPU rounds float32.

An NPU rounds the factors of float32 convolutions to HF32, of 11 fraction bits, unless torch.npu.conv.allow_hf32 is off.
The library never touches that switch; --no-hf32 does, here and in every child process."""

import contextlib
import resource

import torch

_U_HF32 = 2.0**-12


def _module(device):
    """torch.npu for 'npu:0'; None for the CPU."""
    kind = torch.device(device).type
    return None if kind == "cpu" else getattr(torch, kind)


def synchronise(device):
    """Returns when the device has done what it was asked. An error that waits in its queue is raised here."""
    module = _module(device)
    if module is not None:
        module.synchronize()


# ---- HF32 ----


def hf32(device):
    """Whether float32 convolutions are rounded to HF32; None where there is no such thing."""
    return getattr(getattr(_module(device), "conv", None), "allow_hf32", None)


def forbid_hf32(device):
    if hf32(device) is not None:
        _module(device).conv.allow_hf32 = False


def factor_rounding(device):
    """Relative error of each factor of a float32 convolution before it is multiplied."""
    return _U_HF32 if hf32(device) else 0.0


# ---- memory, in bytes: the device's own, or that of this process ----


def resident(field):
    """VmRSS (now) or VmHWM (highest) of this process."""
    try:
        with open("/proc/self/status") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines[field].split()[0]) * 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def held(device):
    """Bytes in use; forgets the highest so far where it can."""
    module = _module(device)
    if module is not None:
        module.reset_peak_memory_stats()
        return module.memory_allocated()
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return resident("VmRSS")


def highest(device):
    """The most in use since `held`."""
    module = _module(device)
    return resident("VmHWM") if module is None else module.max_memory_allocated()
