# SPDX-License-Identifier: Apache-2.0
"""The fault segmentation example: its parts, and a small run of all of it."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from oil_gas_ops_prospect.conv3d_custom import Conv3d

FOLDER = Path(__file__).parents[2] / "examples" / "fault_segmentation"


@pytest.fixture(scope="module", autouse=True)
def example_modules():
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))


def test_volumes_are_seeded_and_normalised():
    from synthetic import make_volume

    seismic, labels = make_volume(3, extent=24)
    again, other = make_volume(3, extent=24), make_volume(4, extent=24)
    assert seismic.dtype == np.float32 and seismic.shape == labels.shape == (24, 24, 24)
    assert np.array_equal(seismic, again[0]) and np.array_equal(labels, again[1])
    assert not np.array_equal(seismic, other[0])
    assert abs(seismic.std() - 1) < 1e-3 and np.isfinite(seismic).all()
    assert 0.005 < labels.mean() < 0.4 and set(np.unique(labels)) == {0, 1}


def test_faults_break_the_layers():
    """Traces differ more across a fault than beside it."""
    from synthetic import make_volume

    seismic, labels = make_volume(1, extent=48, noise=0)
    step = np.abs(np.diff(seismic, axis=0))
    at_fault = (labels[1:] | labels[:-1]).astype(bool)
    assert step[at_fault].mean() > 1.3 * step[~at_fault].mean()


def test_ricker_has_its_peak_frequency():
    from synthetic import ricker

    spectrum = np.abs(np.fft.rfft(ricker(0.1, 100), 2000))
    assert abs(spectrum.argmax() / 2000 - 0.1) < 0.002


def test_reading(tmp_path):
    from volume_io import read_pair, read_volume

    rng = np.random.default_rng(0)
    np.save(tmp_path / "v.npy", 5 + 2 * rng.normal(size=(8, 9, 10)))
    np.save(tmp_path / "l.npy", rng.random((8, 9, 10)) < 0.1)
    seismic, labels = read_pair(tmp_path / "v.npy", tmp_path / "l.npy", 8)
    assert abs(seismic.mean()) < 1e-5 and abs(seismic.std() - 1) < 1e-5 and labels.dtype == np.uint8
    np.save(tmp_path / "flat.npy", np.zeros((3, 3)))
    for path, words in (("none.npy", "no such file"), ("flat.npy", "three axes")):
        with pytest.raises(SystemExit, match=words):
            read_volume(tmp_path / path)
    with pytest.raises(SystemExit, match="--patch"):
        read_pair(tmp_path / "v.npy", tmp_path / "l.npy", 16)


def test_overlap():
    from metrics import overlap

    a, b = torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False])
    assert overlap(a, b) == (0.5, 1 / 3)
    assert overlap(a, a) == (1.0, 1.0) and overlap(a & False, a & False) == (1.0, 1.0)


def test_every_convolution_is_ours():
    from network import FaultNet

    net = FaultNet(Conv3d)
    layers = [m for m in net.modules() if isinstance(m, torch.nn.Conv3d)]
    assert layers and all(type(m) is Conv3d for m in layers)
    assert {m.kernel_size[0] for m in layers if m.groups > 1} == {7, 9}


def test_a_small_run(tmp_path, capsys):
    import train

    train.main(["--epochs", "3", "--volumes", "3", "--extent", "24", "--patch", "16", "--patches", "6", "--width", "4",
                "--output", str(tmp_path)])
    said = capsys.readouterr().out
    losses = [float(line.split("loss")[1].split()[0]) for line in said.splitlines() if line.startswith("epoch")]
    assert len(losses) == 3 and losses[-1] < losses[0]
    assert "Dice" in said and "IoU" in said and "torch.nn.Conv3d" in said
    for name in ("section.png", "loss.png", "weights.pt"):
        assert (tmp_path / name).stat().st_size > 1000


def test_bad_arguments_are_refused():
    import train

    for bad in (["--volume", "x.npy"], ["--patch", "15"], ["--epochs", "0"]):
        with pytest.raises(SystemExit):
            train.arguments(bad)
