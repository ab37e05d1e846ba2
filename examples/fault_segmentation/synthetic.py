# SPDX-License-Identifier: Apache-2.0
"""Synthetic seismic volumes with known faults.

A volume is built backwards in geological time. Each voxel is traced from where it lies today to the layer it was laid
down in: the faults are undone from the youngest to the oldest, then the folds, and what is left is a depth in a flat
stack of layers. So younger faults cut and move the older ones, as in the ground. The reflectivity of the layers at those
depths, convolved in depth with a Ricker wavelet, plus noise of the same band, is the image.

Axes are (depth, inline, crossline), depth downwards; lengths are voxels.
"""

from dataclasses import dataclass

import numpy as np

FAULT_HALF_WIDTH = 1.5  # of the labels
VISIBLE_SLIP = 2.0  # a fault that moves the layers by less is not labelled
WAVELET_RADIUS = 12


@dataclass(frozen=True)
class Fault:
    """A curved surface through `centre`, along which the block above it has slipped. Inside an ellipse around the centre
    the slip falls from `slip` to zero at the rim; negative slip is a reverse fault."""

    centre: tuple[float, float, float]
    azimuth: float  # of the horizontal direction in which the fault dips, radians
    dip: float  # from the horizontal, radians
    slip: float
    half_length: float  # of the ellipse, along strike
    half_height: float  # of the ellipse, down dip
    bend: tuple[float, float]  # curvature along strike and down dip, 1 / voxels

    def directions(self):
        """Unit vectors: across the fault, along strike, down dip."""
        horizontal = np.array([0, np.cos(self.azimuth), np.sin(self.azimuth)])
        vertical = np.array([1.0, 0, 0])
        across = np.sin(self.dip) * horizontal - np.cos(self.dip) * vertical
        along = np.array([0, -np.sin(self.azimuth), np.cos(self.azimuth)])
        down = np.cos(self.dip) * horizontal + np.sin(self.dip) * vertical
        return across, along, down

    def undo(self, at):
        """Where the points `at`, three arrays, lay before this fault moved them; and which of them are on it."""
        across, along, down = (direction.astype(np.float32) for direction in self.directions())
        offsets = [p - np.float32(c) for p, c in zip(at, self.centre)]
        distance, strike, descent = (sum(u * p for u, p in zip(unit, offsets)) for unit in (across, along, down))
        distance -= np.float32(self.bend[0] / 2) * strike**2 + np.float32(self.bend[1] / 2) * descent**2
        inside = 1 - (strike / np.float32(self.half_length)) ** 2 - (descent / np.float32(self.half_height)) ** 2
        slip = np.float32(self.slip) * np.maximum(inside, 0)
        on_fault = (np.abs(distance) <= FAULT_HALF_WIDTH) & (np.abs(slip) >= VISIBLE_SLIP)
        moved = slip * (distance > 0)
        return [p - u * moved for u, p in zip(down, at)], on_fault


def random_fault(rng, shape, trend):
    """A fault somewhere in the middle of a volume, steep, of a slip that shows; it dips along `trend` or against it, within
    some 25 degrees."""
    size = max(shape)
    return Fault(
        centre=tuple(rng.uniform(0.1, 0.9) * extent for extent in shape),
        azimuth=trend + rng.choice([0, np.pi]) + rng.normal(0, np.radians(25)),
        dip=np.radians(rng.uniform(58, 80)),
        slip=rng.uniform(5, 14) * rng.choice([1, 1, 1, -1]),
        half_length=rng.uniform(0.5, 1.2) * size,
        half_height=rng.uniform(0.5, 1.2) * size,
        bend=tuple(rng.uniform(-0.3, 0.3, 2) / size),
    )


def _unfold(rng, at, shape):
    """The depths of the points before folding: a regional dip, and domes and basins that grow with depth."""
    depth, inline, crossline = at
    dip = rng.uniform(-0.12, 0.12, 2).astype(np.float32)
    flat = depth - dip[0] * (inline - shape[1] / 2) - dip[1] * (crossline - shape[2] / 2)
    lift = np.zeros_like(depth)
    for _ in range(5):
        centre = (rng.uniform(-0.1, 1.1, 2) * shape[1:]).astype(np.float32)
        radius = rng.uniform(0.15, 0.45) * max(shape[1:])
        height = rng.uniform(-0.25, 0.25) * radius
        squared = (inline - centre[0]) ** 2 + (crossline - centre[1]) ** 2
        lift += np.float32(height) * np.exp(squared * np.float32(-0.5 / radius**2))
    return flat - lift * (0.4 + 0.6 * depth / shape[0])


def _reflectivity(rng, at):
    """Reflection coefficients of a random stack of layers at the depths `at`. Each boundary is a pulse just wide enough
    for the grid to hold."""
    step, width = 0.25, 0.7
    grid = np.arange(at.min() - 4, at.max() + 4, step)
    boundaries = grid[0] + np.cumsum(rng.uniform(1.5, 7, size=int(len(grid) * step)))
    strength = rng.normal(size=len(boundaries))
    spikes = np.histogram(boundaries, bins=np.append(grid, grid[-1] + step), weights=strength)[0]
    offsets = np.arange(-3 * width, 3 * width + step, step)
    curve = np.convolve(spikes, np.exp(-0.5 * (offsets / width) ** 2), mode="same")
    return np.interp(at, grid, curve).astype(np.float32)


def ricker(frequency, radius=WAVELET_RADIUS):
    """The Ricker wavelet of a peak frequency in cycles per voxel, at -radius .. radius."""
    squared = (np.pi * frequency * np.arange(-radius, radius + 1)) ** 2
    return ((1 - 2 * squared) * np.exp(-squared)).astype(np.float32)


def _convolve_depth(volume, wavelet):
    """Convolution in depth of a volume that is len(wavelet) - 1 samples deeper than the result."""
    depth = len(volume) - len(wavelet) + 1
    return sum(tap * volume[t : t + depth] for t, tap in enumerate(wavelet[::-1]))


def _blur(volume, side):
    """A short weighted average across inlines and crosslines, one voxel less on each side: the resolution of an image."""
    middle, before, after = slice(1, -1), slice(None, -2), slice(2, None)
    volume = (1 - 2 * side) * volume[:, middle] + side * (volume[:, before] + volume[:, after])
    return (1 - 2 * side) * volume[..., middle] + side * (volume[..., before] + volume[..., after])


def make_volume(shape, seed, faults=None):
    """(seismic, labels) of `shape` (depth, inline, crossline): float32 of mean 0 and deviation 1, and bool, true on
    faults. The same seed gives the same volume. `faults`: how many; 4 to 7 by default."""
    rng = np.random.default_rng(seed)
    if faults is None:
        faults = rng.integers(4, 8)
    rims = (WAVELET_RADIUS, 1, 1)  # what the wavelet and the blur need beyond the volume
    axes = [np.arange(-rim, extent + rim, dtype=np.float32) for rim, extent in zip(rims, shape)]
    at = np.meshgrid(*axes, indexing="ij")

    labels = np.zeros(at[0].shape, bool)
    trend = rng.uniform(0, 2 * np.pi)
    for _ in range(faults):
        at, on_fault = random_fault(rng, shape, trend).undo(at)
        labels |= on_fault
    reflectivity = _reflectivity(rng, _unfold(rng, at, shape))

    wavelet = ricker(rng.uniform(0.07, 0.12))
    white = rng.standard_normal(reflectivity.shape, dtype=np.float32)
    signal = _blur(_convolve_depth(reflectivity, wavelet), 0.15)
    noise = _blur(_convolve_depth(white, wavelet), 0.25)
    seismic = signal / signal.std() + np.float32(rng.uniform(0.15, 0.45)) * noise / noise.std()
    inner = tuple(slice(rim, -rim) for rim in rims)
    return (seismic - seismic.mean()) / seismic.std(), labels[inner]
