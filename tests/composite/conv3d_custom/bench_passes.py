# SPDX-License-Identifier: Apache-2.0
"""The passes of one pattern as timed calls, on tensors built once, by ours or by native."""

import contextlib
import os
import re
import tempfile
import time
from functools import partial
from unittest import mock

import torch
from bench_device import held, highest, synchronise
from bench_volumes import VOLUMES
from torch import nn

from oil_gas_ops_prospect.conv3d_custom import Conv3d, conv3d_backend, core

PASSES = ("forward", "grad_input", "grad_weight", "forward_backward")


def layer(pattern, kind):
    """The module of a pattern. kind: 'ours' or 'native'."""
    make = {"ours": partial(Conv3d, precision=pattern.precision), "native": nn.Conv3d}[kind]
    return make(
        pattern.cin,
        pattern.cout,
        pattern.kernel,
        pattern.stride,
        pattern.padding,
        pattern.dilation,
        pattern.groups,
        padding_mode=pattern.padding_mode,
    )


def timed(call, calls, device):
    """(seconds of one call, bytes by which the device's memory grew beyond the tensors that a call returns)."""
    before = held(device)
    synchronise(device)
    start = time.perf_counter()
    for _ in range(calls):
        result = call()
    synchronise(device)
    seconds = (time.perf_counter() - start) / calls
    returned = sum(tensor.nbytes for tensor in (result if isinstance(result, tuple) else (result,)))
    return seconds, max(0, highest(device) - before - returned)


def _kept():
    """In place of core's fresh outputs: the same tensor for every call of the same shape."""
    tensors = {}

    def empty(like, shape, layout):
        key = (tuple(shape), like.dtype, layout)
        if key not in tensors:
            tensors[key] = torch.zeros(shape, dtype=like.dtype).contiguous(memory_format=layout)
        return tensors[key]

    return empty


@contextlib.contextmanager
def _errors_in(file):
    """What the process writes to its standard error, C code included, goes to `file`."""
    before = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


@contextlib.contextmanager
def _quiet():
    """Keeps the lines of OGP_VERBOSE away."""
    if "OGP_VERBOSE" not in os.environ:
        yield
        return
    with open(os.devnull, "w") as nowhere, _errors_in(nowhere):
        yield


class Passes:
    """Tensors of a pattern and its passes. Same seed, same values on every side. data: a name of VOLUMES."""

    names = PASSES

    def __init__(self, pattern, kind, backend, device, data="noise"):
        torch.manual_seed(0)
        self.device = device
        self.backend = backend
        self.conv = layer(pattern, kind).to(device)
        self.x = VOLUMES[data](pattern.x_shape).to(device).requires_grad_()
        self.gy = VOLUMES[data](pattern.y_shape).to(device)
        self.y = None

    def prepare(self, name):
        """What a pass needs from before its clock starts: a gradient alone needs the graph of a forward."""
        if name in ("grad_input", "grad_weight") and self.y is None:
            with _quiet(), conv3d_backend(self.backend):
                self.y = self.conv(self.x)

    def _call(self, name):
        conv, x = self.conv, self.x
        if name == "forward":
            return lambda: self._without_grad(conv, x)
        if name == "after_operator":
            return lambda: self._without_grad(conv, x.mul(1.0))
        if name == "operator":
            return lambda: self._without_grad(torch.mul, x, 1.0)
        if name == "forward_backward":
            return self._forward_backward
        wanted = {"grad_input": x, "grad_weight": conv.weight}[name]
        return lambda: torch.autograd.grad(self.y, wanted, self.gy, retain_graph=True)

    def _forward_backward(self):
        y = self.conv(self.x)
        return y, *torch.autograd.grad(y, [self.x, self.conv.weight, self.conv.bias], self.gy)

    @staticmethod
    def _without_grad(function, *args):
        with torch.no_grad():
            return function(*args)

    def run(self, name, calls=1):
        """(seconds of one call, bytes by which the device's memory, for the CPU that of the process, grew at its
        highest beyond the tensors that it returns). On small volumes a process's bytes are too few: the allocator
        reuses what it kept. `calls` calls are timed together. The pass is prepared."""
        with _quiet(), conv3d_backend(self.backend):
            return timed(self._call(name), calls, self.device)

    def warm(self, name, calls):
        """Least seconds of `calls` calls on the C core into the same outputs, which the first call has made resident."""
        with mock.patch.object(core, "_empty", _kept()), _quiet(), conv3d_backend("c"):
            call = self._call(name)
            call()
            return min(timed(call, 1, self.device)[0] for _ in range(calls))

    def sent_direct(self, name):
        """(chunks that no transform served, all chunks) of a call on the C core, (0, 0) where no transform was
        planned. Needs a process that was started with OGP_VERBOSE=1."""
        with tempfile.TemporaryFile() as file:
            with _errors_in(file), conv3d_backend("c"):
                self._call(name)()
            file.seek(0)
            counts = re.findall(rb"direct (\d+) of (\d+) chunks", file.read())
        return tuple(sum(int(count[k]) for count in counts) for k in (0, 1))
