# SPDX-License-Identifier: Apache-2.0
"""Synthetic seismic volumes with known faults.

A volume is built backwards: each voxel is traced through the faults, from the latest to the earliest, and through the
folding, to the depth at which its layer was laid down; the reflectivity there is convolved with a Ricker wavelet along
the depth, and band-limited noise is added. Axes are (inline, crossline, depth), all in samples."""

import numpy as np


def ricker(frequency, half):
    """The Ricker wavelet of a peak frequency in cycles a sample, at -half .. half (Ricker 1953)."""
    a = (np.pi * frequency * np.arange(-half, half + 1)) ** 2
    return (1 - 2 * a) * np.exp(-a)


def _along_depth(volume, wavelet):
    """Convolution of every trace with the wavelet, of the traces' length."""
    n = volume.shape[-1] + wavelet.size - 1
    spectrum = np.fft.rfft(volume, n) * np.fft.rfft(wavelet, n)
    half = wavelet.size // 2
    return np.fft.irfft(spectrum, n)[..., half : half + volume.shape[-1]]


def _reflectivity(rng, depth):
    """A layered earth: sparse strong reflectors over weak ones."""
    layers = rng.normal(size=depth) * (rng.random(depth) < 0.25)
    return layers + 0.15 * rng.normal(size=depth)


def _folding(rng, x, y, extent):
    """Smooth uplift of the layers: a dipping plane and some bumps and bowls."""
    shift = rng.uniform(-0.15, 0.15) * x + rng.uniform(-0.15, 0.15) * y
    for _ in range(4):
        cx, cy = rng.uniform(0, extent, 2)
        width = rng.uniform(0.2, 0.5) * extent
        shift = shift + rng.uniform(-6, 6) * np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / (2 * width**2))
    return shift


def _fault(rng, x, y, z, extent):
    """Signed distance to a slightly curved fault, in samples."""
    azimuth, dip = rng.uniform(0, 2 * np.pi), np.deg2rad(rng.uniform(55, 80))
    centre = rng.uniform(0.2, 0.8, 3) * extent
    across = np.cos(azimuth) * (x - centre[0]) + np.sin(azimuth) * (y - centre[1])
    along = -np.sin(azimuth) * (x - centre[0]) + np.cos(azimuth) * (y - centre[1])
    bend = rng.uniform(-3, 3) * np.sin(2 * np.pi * along / (1.5 * extent))
    return np.sin(dip) * (across + bend) + np.cos(dip) * (z - centre[2])


def make_volume(seed, extent=64, faults=4, noise=0.25):
    """(seismic, labels), both (extent, extent, extent): float32 of zero mean and unit variance, and uint8 that is 1 on
    the faults. noise: its share of the standard deviation of the signal."""
    rng = np.random.default_rng(seed)
    axis = np.arange(extent, dtype=np.float64)
    x, y, z = np.meshgrid(axis, axis, axis, indexing="ij")
    labels = np.zeros((extent,) * 3, dtype=np.uint8)
    depth = z.copy()
    for _ in range(faults):
        distance = _fault(rng, x, y, depth, extent)
        throw = rng.choice([-1, 1]) * rng.uniform(4, 12)
        labels |= np.abs(distance) < 1
        depth = depth + np.where(distance > 0, throw, 0)
    depth = depth + _folding(rng, x, y, extent)
    margin = 64  # layers above and below, for what throw and folding bring in
    column = np.arange(-margin, extent + margin)
    layers = np.interp(depth.ravel(), column, _reflectivity(rng, column.size)).reshape(depth.shape)
    wavelet = ricker(rng.uniform(0.10, 0.16), 12)
    signal = _along_depth(layers, wavelet)
    hiss = _along_depth(rng.normal(size=depth.shape), wavelet)
    seismic = signal / signal.std() + noise * hiss / hiss.std()
    return (seismic / seismic.std()).astype(np.float32), labels
