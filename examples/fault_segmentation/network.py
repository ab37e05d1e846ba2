# SPDX-License-Identifier: Apache-2.0
"""A small fault segmentation network: a U of two levels, with depthwise kernels of 7 and 9 (ConvNeXt-like blocks)."""

import torch
from torch import nn
from torch.nn.functional import gelu, interpolate


class Block(nn.Module):
    """Depthwise kernel, then two pointwise layers, beside a shortcut (Liu et al. 2022, in three dimensions)."""

    def __init__(self, channels, kernel, conv):
        super().__init__()
        self.spread = conv(channels, channels, kernel, padding=kernel // 2, groups=channels)
        self.norm = nn.GroupNorm(1, channels)
        self.widen = conv(channels, 2 * channels, 1)
        self.narrow = conv(2 * channels, channels, 1)

    def forward(self, x):
        return x + self.narrow(gelu(self.widen(self.norm(self.spread(x)))))


class FaultNet(nn.Module):
    """(n, 1, d, h, w) seismic to (n, 1, d, h, w) logits; sides divisible by 2. conv: the 3-D convolution layer."""

    def __init__(self, conv, width=8):
        super().__init__()
        self.stem = conv(1, width, 3, padding=1)
        self.fine = Block(width, 7, conv)
        self.down = conv(width, 2 * width, 2, stride=2)
        self.coarse = nn.Sequential(Block(2 * width, 9, conv), Block(2 * width, 9, conv))
        self.up = conv(2 * width, width, 1)
        self.merge = Block(width, 7, conv)
        self.head = conv(width, 1, 1)

    def forward(self, x):
        fine = self.fine(self.stem(x))
        coarse = self.up(self.coarse(self.down(fine)))
        coarse = interpolate(coarse, scale_factor=2, mode="trilinear", align_corners=False)
        return self.head(self.merge(fine + coarse))


def bce_dice(logits, target):
    """Binary cross-entropy (faults weighted up, they are rare) plus one minus the soft Dice coefficient."""
    weight = torch.tensor(4.0)
    bce = nn.functional.binary_cross_entropy_with_logits(logits, target, pos_weight=weight)
    p = logits.sigmoid()
    dice = (2 * (p * target).sum() + 1) / (p.sum() + target.sum() + 1)
    return bce + 1 - dice
