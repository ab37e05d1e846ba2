# SPDX-License-Identifier: Apache-2.0
"""Conv3d as a module."""

import torch
from torch import nn
from torch._compile import _disable_dynamo
from torch.overrides import handle_torch_function, has_torch_function_variadic

from . import device
from .call import run
from .functional import CONVOLUTION
from .module import WithPrecision


class Conv3d(WithPrecision, nn.Conv3d):
    """A torch.nn.Conv3d: the same arguments, parameters, initialisation, state_dict and repr, and an instance of it.

    input (N, CI, D, H, W) or (CI, D, H, W) -> (N, CO, OD, OH, OW) or (CO, OD, OH, OW), differentiable any number of
    times. Where it runs is the rule of the `device` module: the C core for float32 and float64 on the CPU, torch
    operators in bounded steps on an NPU, torch.nn.functional.conv3d for the rest.

    precision, keyword only: as in functional.conv3d.

    Errors: those of nn.Conv3d, in classes and occasion; ValueError for an unknown precision.
    """

    def _conv_forward(self, input, weight, bias):
        if has_torch_function_variadic(input, weight, bias):
            return handle_torch_function(Conv3d._conv_forward, (input, weight, bias), self, input, weight, bias)
        run_it = _outside_graph if torch.compiler.is_compiling() else _eager
        return run_it(self, input, weight, bias)


def _eager(conv, input, weight, bias):
    # tiny layers are many and short: where native runs, this question is all that they may cost
    if isinstance(input, torch.Tensor):
        kind = input.device.type
        if device.module_runs_native(kind, input.dtype, input.shape, weight.shape, conv.stride):
            return nn.Conv3d._conv_forward(conv, input, weight, bias)

    def native(x, w, b):
        return nn.Conv3d._conv_forward(conv, x, w, b)

    def rule(x, w):
        return device.module_backend(x.device.type, x.dtype, x.shape, w.shape, conv.stride)

    arguments = conv.stride, conv.padding, conv.dilation, conv.groups, conv.padding_mode
    return run(CONVOLUTION, rule, native, input, weight, bias, arguments, conv.precision)


_outside_graph = _disable_dynamo(_eager)


class LazyConv3d(nn.LazyConv3d):
    """A torch.nn.LazyConv3d that becomes a Conv3d of this package when it first sees an input."""

    cls_to_become = Conv3d
