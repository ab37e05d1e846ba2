# SPDX-License-Identifier: Apache-2.0
"""Reading the user's own volumes."""

from pathlib import Path

import numpy as np


def _read_segy(path):
    try:
        import segyio
    except ImportError:
        raise SystemExit(f"{path}: reading SEG-Y needs the package segyio: pip install segyio") from None
    return segyio.tools.cube(str(path))


def read_volume(path):
    """A 3-D array from FILE.npy, FILE.sgy or FILE.segy. SystemExit with a clear message for anything else."""
    path = Path(path)
    if not path.is_file():
        raise SystemExit(f"{path}: no such file")
    if path.suffix == ".npy":
        volume = np.load(path)
    elif path.suffix in (".sgy", ".segy"):
        volume = _read_segy(path)
    else:
        raise SystemExit(f"{path}: expected .npy, .sgy or .segy")
    if volume.ndim != 3:
        raise SystemExit(f"{path}: expected three axes (inline, crossline, depth), got shape {volume.shape}")
    return volume


def read_pair(volume_path, labels_path, patch):
    """(seismic, labels) of one survey: float32 of zero mean and unit variance, and uint8. SystemExit where their shapes
    differ or a side is shorter than a patch."""
    seismic, labels = read_volume(volume_path).astype(np.float32), read_volume(labels_path)
    if seismic.shape != labels.shape:
        raise SystemExit(f"--labels: expected the shape of the volume {seismic.shape}, got {labels.shape}")
    if min(seismic.shape) < patch:
        raise SystemExit(f"--patch: expected at most the shortest side {min(seismic.shape)}, got {patch}")
    spread = seismic.std()
    return (seismic - seismic.mean()) / (spread if spread > 0 else 1), (labels > 0).astype(np.uint8)
