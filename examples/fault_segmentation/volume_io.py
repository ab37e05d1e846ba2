# SPDX-License-Identifier: Apache-2.0
"""Reading volumes. Arrays are (depth, inline, crossline)."""

from pathlib import Path

import numpy as np


def _read_npy(path):
    return np.load(path, allow_pickle=False)


def _read_segy(path):
    try:
        import segyio
    except ImportError:
        raise RuntimeError(f"{path}: reading SEG-Y needs the package segyio: pip install segyio") from None
    return np.moveaxis(segyio.tools.cube(str(path)), 2, 0)


_READERS = {".npy": _read_npy, ".sgy": _read_segy, ".segy": _read_segy}


def _read(path):
    path = Path(path)
    if path.suffix.lower() not in _READERS:
        raise ValueError(f"{path}: expected a file {', '.join(_READERS)}, got '{path.suffix}'")
    volume = _READERS[path.suffix.lower()](path)
    if volume.ndim != 3 or volume.dtype.kind not in "biuf":
        raise ValueError(
            f"{path}: expected real numbers on three axes (depth, inline, crossline), got {volume.dtype} of shape "
            f"{volume.shape}"
        )
    return volume


def read_pair(volume, labels):
    """(seismic, labels) from two files of one shape: float32 of mean 0 and deviation 1, and bool, true where the file is
    not 0. A .npy file holds (depth, inline, crossline); a SEG-Y file is a post-stack cube with inline and crossline numbers
    in its headers.

    Errors: ValueError for what is no volume, for shapes that differ, for values that are not finite; RuntimeError for
    SEG-Y without segyio; OSError where a file cannot be read."""
    seismic, marks = _read(volume).astype(np.float32), _read(labels) != 0
    if seismic.shape != marks.shape:
        raise ValueError(f"{labels}: expected the shape of {volume}, {seismic.shape}, got {marks.shape}")
    deviation = seismic.std(dtype=np.float64)
    if not 0 < deviation < np.inf:
        raise ValueError(f"{volume}: expected finite values that differ, got a standard deviation of {deviation}")
    return (seismic - np.float32(seismic.mean(dtype=np.float64))) / np.float32(deviation), marks
