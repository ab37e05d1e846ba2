# SPDX-License-Identifier: Apache-2.0
"""The passes of one pattern as timed calls, on tensors built once, by ours or by native."""

import time

import torch
from bench_device import held, highest, synchronise
from torch import nn

from oil_gas_ops_prospect.conv3d_custom import Conv3d, conv3d_backend

PASSES = ("forward", "grad_input", "grad_weight", "forward_backward")


def layer(pattern, kind):
    """The module of a pattern. kind: 'ours' or 'native'."""
    cls = {"ours": Conv3d, "native": nn.Conv3d}[kind]
    return cls(
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


class Passes:
    """Tensors of a pattern and its passes. Same seed, same values on every side."""

    names = PASSES

    def __init__(self, pattern, kind, backend, device):
        torch.manual_seed(0)
        self.device = device
        self.backend = backend
        self.conv = layer(pattern, kind).to(device)
        self.x = torch.randn(pattern.x_shape, device=device, requires_grad=True)
        self.gy = torch.randn(pattern.y_shape, device=device)
        self.y = None

    def prepare(self, name):
        """What a pass needs from before its clock starts: a gradient alone needs the graph of a forward."""
        if name in ("grad_input", "grad_weight") and self.y is None:
            with conv3d_backend(self.backend):
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
        with conv3d_backend(self.backend):
            return timed(self._call(name), calls, self.device)
