# SPDX-License-Identifier: Apache-2.0
"""Drop-in 3-D convolution: `from oil_gas_ops_prospect.conv3d_custom import Conv3d`."""

from . import functional
from .conv3d import Conv3d
from .device import conv3d_backend, npu_available

__all__ = ["Conv3d", "conv3d_backend", "functional", "npu_available"]
