# SPDX-License-Identifier: Apache-2.0
"""Conv3d: torch.nn.Conv3d with the convolution of this package where it is the better one."""

import torch

from .device import module_backend
from .functional import _conv3d


class Conv3d(torch.nn.Conv3d):
    """3-D convolution layer: arguments, parameters, initialisation, state_dict and errors of torch.nn.Conv3d.

    Input (n, ci, d, h, w) or (ci, d, h, w); output accordingly. The backend is chosen for each call by the input's
    device and dtype (device.module_backend): NPU tensors take the composite steps, float32 and float64 CPU tensors the
    C core, all others the native operator. OGP_CONV3D=auto|native|composite|c forces one."""

    def _conv_forward(self, input, weight, bias):
        if module_backend(input.device.type, input.dtype) == "native":
            return super()._conv_forward(input, weight, bias)
        return _conv3d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups, self.padding_mode)
