# SPDX-License-Identifier: Apache-2.0
"""What fills the tensors of a benchmark: white noise, or volumes like those that a seismic network sees."""

import math

import torch


def _ricker(frequency):
    """A Ricker wavelet, (1 - 2a) exp(-a) with a = (pi f t)^2, sampled at integers; frequency in cycles a sample."""
    a = (math.pi * frequency * torch.arange(-16.0, 17.0)) ** 2
    return (1 - 2 * a) * torch.exp(-a)


def _traces(shape):
    """Reflectivity of dipping layers, a few of them strong, convolved with a wavelet: (d, h, w)."""
    d, h, w = shape
    reflectivity = torch.randn(d + 32) * (torch.rand(d + 32) < 0.3)
    reflectivity[torch.randint(0, d + 32, (1 + d // 60,))] *= 8
    trace = torch.nn.functional.conv1d(reflectivity[None, None], _ricker(0.08)[None, None], padding=16)[0, 0]
    across, along = torch.arange(h).view(1, h, 1), torch.arange(w).view(1, 1, w)
    dip = (6 * torch.sin(across / 40) + along / 12).long() % 32
    return trace[torch.arange(d).view(d, 1, 1) + dip]


def seismic(shape):
    """(n, c, d, h, w), float32: dipping reflectors whose amplitude falls to a hundredth over the depth, on a noise
    floor of a thousandth, above them a slanted mute of exact zeros, another section in each channel."""
    volume = torch.empty(shape)
    d, h, w = shape[2:]
    depth = torch.arange(d).view(d, 1, 1)
    decay = 10 ** (-2.0 * depth / d)
    mute = depth < d // 10 + (torch.arange(w).view(1, 1, w) * d) // (6 * w)
    for section in volume.flatten(0, 1):
        section.copy_(_traces((d, h, w)).mul_(decay).add_(torch.randn(d, h, w), alpha=1e-3).masked_fill_(mute, 0))
    return volume


VOLUMES = {"noise": torch.randn, "seismic": seismic}
