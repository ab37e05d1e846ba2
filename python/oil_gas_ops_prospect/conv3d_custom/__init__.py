# SPDX-License-Identifier: Apache-2.0
"""Conv3d and ConvTranspose3d for training on large volumes: drop-ins for those of torch.nn, right, bounded in memory, and fast where the
native backward crawls or crashes.

    from oil_gas_ops_prospect.conv3d_custom import Conv3d, ConvTranspose3d
    from oil_gas_ops_prospect.conv3d_custom.functional import conv3d, conv_transpose3d
"""

from .conv3d import Conv3d, LazyConv3d
from .conv_transpose3d import ConvTranspose3d, LazyConvTranspose3d
from .device import conv3d_backend, npu_available
from .npu_check import check_model
from .npu_explain import explain

__all__ = [
    "Conv3d",
    "ConvTranspose3d",
    "LazyConv3d",
    "LazyConvTranspose3d",
    "check_model",
    "conv3d_backend",
    "explain",
    "npu_available",
]
