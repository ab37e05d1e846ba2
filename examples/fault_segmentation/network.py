# SPDX-License-Identifier: Apache-2.0
"""The network: a U-Net of three levels whose blocks are those of ConvNeXt, with large depthwise kernels."""

from torch import nn
from torch.nn.functional import interpolate

from oil_gas_ops_prospect.conv3d_custom import Conv3d

KERNELS = (7, 9, 9)  # of the depthwise layers, from full resolution down


class Block(nn.Module):
    """x + a correction: each channel is filtered by its own large kernel, then the channels of a voxel are mixed."""

    def __init__(self, channels, kernel, conv):
        super().__init__()
        self.correction = nn.Sequential(
            conv(channels, channels, kernel, padding=kernel // 2, groups=channels),
            nn.GroupNorm(1, channels),
            conv(channels, 2 * channels, 1),
            nn.ReLU(inplace=True),
            conv(2 * channels, channels, 1),
        )

    def forward(self, x):
        return x + self.correction(x)


class FaultNet(nn.Module):
    """(N, 1, D, H, W) seismic -> (N, 1, D, H, W) logits of being on a fault. Extents are 4 or more each.

    width: channels at full resolution, doubled at each level below.
    conv: the class of all convolutions; anything that takes what torch.nn.Conv3d takes.
    """

    def __init__(self, width, conv=Conv3d):
        super().__init__()
        self.width = width
        channels = [width << level for level in range(len(KERNELS))]
        self.stem = conv(1, width, 3, padding=1)
        self.encoder = nn.ModuleList(Block(c, k, conv) for c, k in zip(channels, KERNELS))
        self.down = nn.ModuleList(conv(c, 2 * c, 2, stride=2) for c in channels[:-1])
        self.up = nn.ModuleList(conv(2 * c, c, 1) for c in channels[:-1])
        self.decoder = nn.ModuleList(Block(c, k, conv) for c, k in zip(channels[:-1], KERNELS))
        self.head = conv(width, 1, 1)

    def forward(self, seismic):
        x = self.stem(seismic)
        skips = []
        for block, down in zip(self.encoder, self.down):
            x = block(x)
            skips.append(x)
            x = down(x)
        x = self.encoder[-1](x)
        for skip, up, block in reversed([*zip(skips, self.up, self.decoder)]):
            x = block(skip + interpolate(up(x), size=skip.shape[2:], mode="trilinear"))
        return self.head(x)
