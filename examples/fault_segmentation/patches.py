# SPDX-License-Identifier: Apache-2.0
"""From volumes to patches and back."""

from itertools import product

import numpy as np
import torch


def _patch_shape(shape, patch):
    return tuple(min(extent, patch) for extent in shape)


def random_patch(rng, volumes, patch):
    """(seismic, labels) float32 tensors (1, 1, d, h, w), cut at random from one of the `volumes`, pairs (seismic, labels);
    `patch` a side, or less where the volume is smaller. Mirrored and turned at random about the vertical: a fault stays
    one however one looks at it, while up and down differ."""
    seismic, labels = volumes[rng.integers(len(volumes))]
    shape = _patch_shape(seismic.shape, patch)
    corner = [rng.integers(extent - side + 1) for extent, side in zip(seismic.shape, shape)]
    window = tuple(slice(first, first + side) for first, side in zip(corner, shape))
    flips = [axis for axis in (1, 2) if rng.random() < 0.5]
    turned = rng.random() < 0.5

    def cut(volume):
        part = np.flip(volume[window], flips)
        part = part.swapaxes(1, 2) if turned else part
        return torch.from_numpy(np.ascontiguousarray(part, dtype=np.float32))[None, None]

    return cut(seismic), cut(labels)


def _starts(extent, side):
    """Where windows of `side` begin that cover an axis, neighbours sharing a quarter or more."""
    count = 1 + max(0, -(-(extent - side) * 4 // (3 * side)))
    return np.linspace(0, extent - side, count).round().astype(int)


def _weight(shape):
    """Of a window's voxels in the average of overlapping windows: high in the middle, low at the rim."""
    d, h, w = (np.minimum(np.arange(side) + 1, side - np.arange(side)).astype(np.float32) for side in shape)
    return d[:, None, None] * h[:, None] * w


@torch.inference_mode()
def predict(network, seismic, patch):
    """The probability of a fault at each voxel of `seismic`: float32 of its shape. Overlapping windows of `patch` a side
    are averaged, so that a volume of any size needs the memory of one patch."""
    network.eval()
    shape = _patch_shape(seismic.shape, patch)
    weight = _weight(shape)
    total, weights = np.zeros(seismic.shape, np.float32), np.zeros(seismic.shape, np.float32)
    for corner in product(*map(_starts, seismic.shape, shape)):
        window = tuple(slice(first, first + side) for first, side in zip(corner, shape))
        logits = network(torch.from_numpy(np.ascontiguousarray(seismic[window]))[None, None])
        total[window] += weight * logits[0, 0].sigmoid().numpy()
        weights[window] += weight
    return total / weights
