# SPDX-License-Identifier: Apache-2.0
"""ConvTranspose3d as a module."""

import torch
import torch.nn.functional as F
from torch import nn
from torch._compile import _disable_dynamo
from torch.overrides import handle_torch_function, has_torch_function_variadic

from . import device
from .call import run
from .module import WithPrecision
from .transposed import TRANSPOSED, output_extents


class ConvTranspose3d(WithPrecision, nn.ConvTranspose3d):
    """A torch.nn.ConvTranspose3d: the same arguments, parameters, initialisation, state_dict and repr, and an instance
    of it.

    input (N, CI, D, H, W) or (CI, D, H, W) -> (N, CO, OD, OH, OW) or (CO, OD, OH, OW), differentiable any number of
    times. Where it runs is the rule of Conv3d for the convolution that it transposes.

    precision, keyword only: as in functional.conv3d.

    Errors: those of nn.ConvTranspose3d, in classes and occasion; ValueError for an unknown precision.
    """

    def forward(self, input, output_size=None):
        """output_size: the last three, or all, extents of the result, which then take the place of output_padding."""
        if self.padding_mode != "zeros":
            raise ValueError(f"ConvTranspose3d: expected padding_mode 'zeros', got {self.padding_mode!r}")
        output_padding = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, 3, self.dilation
        )
        return self._transpose_forward(input, self.weight, self.bias, output_padding)

    def _transpose_forward(self, input, weight, bias, output_padding):
        if has_torch_function_variadic(input, weight, bias):
            arguments = self, input, weight, bias, output_padding
            return handle_torch_function(ConvTranspose3d._transpose_forward, (input, weight, bias), *arguments)
        run_it = _outside_graph if torch.compiler.is_compiling() else _eager
        return run_it(self, input, weight, bias, output_padding)


def _eager(conv, input, weight, bias, output_padding):
    arguments = conv.stride, conv.padding, output_padding, conv.groups, conv.dilation

    def native(x, w, b):
        return F.conv_transpose3d(x, w, b, *arguments)

    def rule(x, w):
        if x.dim() < 4 or w.dim() != 5:  # these fail later, with their message
            return device.module_backend(x.device.type, x.dtype)
        axes = conv.stride, conv.padding, output_padding, conv.dilation
        y_shape = x.shape[:-3] + output_extents(x.shape[-3:], w.shape[2:], *axes)
        return device.module_backend(x.device.type, x.dtype, y_shape, w.shape, conv.stride)

    return run(TRANSPOSED, rule, native, input, weight, bias, arguments, conv.precision)


_outside_graph = _disable_dynamo(_eager)


class LazyConvTranspose3d(nn.LazyConvTranspose3d):
    """A torch.nn.LazyConvTranspose3d that becomes a ConvTranspose3d of this package when it first sees an input."""

    cls_to_become = ConvTranspose3d
