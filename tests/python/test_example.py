# SPDX-License-Identifier: Apache-2.0
"""The fault segmentation example: its volumes, its readers, its measures, and a short run."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

EXAMPLE = Path(__file__).parents[2] / "examples" / "fault_segmentation"
sys.path.insert(0, str(EXAMPLE))

from metrics import dice_and_iou, loss_of  # noqa: E402
from network import FaultNet  # noqa: E402
from patches import predict, random_patch  # noqa: E402
from synthetic import Fault, make_volume, ricker  # noqa: E402
from train import main, parse  # noqa: E402
from volume_io import read_pair  # noqa: E402

FLAT = Fault((20.0, 20.0, 20.0), 0.7, np.radians(65), 6.0, 30.0, 40.0, (0.0, 0.0))


# ---- synthetic volumes ----


def test_volume_is_seeded_normalised_and_labelled():
    seismic, labels = make_volume((40, 44, 48), 3)
    again, same = make_volume((40, 44, 48), 3)
    assert np.array_equal(seismic, again) and np.array_equal(labels, same)
    assert seismic.shape == labels.shape == (40, 44, 48)
    assert seismic.dtype == np.float32 and labels.dtype == bool
    assert abs(seismic.mean()) < 1e-3 and abs(seismic.std() - 1) < 1e-3
    assert 0.01 < labels.mean() < 0.4
    assert not np.array_equal(seismic, make_volume((40, 44, 48), 4)[0])


def test_volume_without_faults_has_no_labels():
    assert not make_volume((16, 16, 16), 0, faults=0)[1].any()


def test_fault_moves_the_block_above_it_by_its_slip():
    across, along, down = (unit.astype(np.float32) for unit in FLAT.directions())
    assert np.allclose(np.stack([across, along, down]) @ np.stack([across, along, down]).T, np.eye(3), atol=1e-6)
    centre = np.array(FLAT.centre, np.float32)
    at = [np.stack([c + 3 * u, c - 3 * u]) for c, u in zip(centre, across)]  # above, below
    origin, on_fault = FLAT.undo(at)
    moved = np.stack([p - o for p, o in zip(at, origin)], axis=1)
    assert np.allclose(moved, [FLAT.slip * down, 0 * down], atol=1e-4)
    assert not on_fault.any()


def test_fault_is_labelled_on_its_surface_and_ends_at_its_rim():
    _, along, _ = (unit.astype(np.float32) for unit in FLAT.directions())
    strike = np.array([0.0, 20.0, 29.9, 35.0], np.float32)
    origin, on_fault = FLAT.undo([c + strike * u for c, u in zip(FLAT.centre, along)])
    assert on_fault.tolist() == [True, True, False, False]


def test_ricker_is_symmetric_peaks_at_its_frequency_and_has_no_mean():
    wavelet = ricker(0.1, 40)
    assert np.array_equal(wavelet, wavelet[::-1]) and wavelet[40] == 1
    assert abs(wavelet.sum()) < 1e-4
    spectrum = np.abs(np.fft.rfft(wavelet, 1000))
    assert abs(spectrum.argmax() / 1000 - 0.1) < 2e-3


# ---- patches ----


def test_patches_keep_seismic_and_labels_together():
    rng = np.random.default_rng(0)
    depth = np.arange(12.0, dtype=np.float32)[:, None, None] + np.zeros((12, 10, 9), np.float32)
    code = np.random.default_rng(1).standard_normal((12, 10, 9)).astype(np.float32)
    for _ in range(20):
        seismic, labels = random_patch(rng, [(code, code > 0)], 6)
        assert seismic.shape == labels.shape == (1, 1, 6, 6, 6)
        assert torch.equal(labels, (seismic > 0).float())
        upright, _ = random_patch(rng, [(depth, depth > 0)], 6)
        assert torch.equal(upright.diff(dim=2), torch.ones(1, 1, 5, 6, 6))


def test_patch_is_no_larger_than_its_volume():
    volume = np.zeros((5, 20, 20), np.float32)
    assert random_patch(np.random.default_rng(0), [(volume, volume > 0)], 8)[0].shape[2:] == (5, 8, 8)


@pytest.mark.parametrize("shape", [(8, 8, 8), (8, 9, 25), (3, 17, 16)])
def test_windows_of_a_pointwise_network_tile_the_volume(shape):
    seismic = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    assert np.allclose(predict(torch.nn.Identity(), seismic, 8), 1 / (1 + np.exp(-seismic)), atol=1e-6)


# ---- measures ----


def test_dice_and_iou():
    a, b = np.array([1, 1, 1, 0], bool), np.array([0, 1, 1, 1], bool)
    assert dice_and_iou(a, b) == (2 * 2 / 6, 2 / 4)
    assert dice_and_iou(a, a) == (1, 1) and dice_and_iou(a, ~a) == (0, 0)
    assert dice_and_iou(a & False, b & False) == (1, 1)


def test_loss_falls_with_agreement():
    labels = torch.tensor([1.0, 0, 0, 1])
    good, unsure, bad = (loss_of(sign * (2 * labels - 1), labels).item() for sign in (9, 0, -9))
    assert good < 0.01 < unsure < 1.7 < bad


# ---- the network ----


def test_network_takes_any_extents_and_exchanges_weights_with_native():
    torch.manual_seed(0)
    ours, native = FaultNet(2), FaultNet(2, torch.nn.Conv3d)
    native.load_state_dict(ours.state_dict())
    x = torch.randn(1, 1, 9, 10, 7)
    y = ours(x)
    assert y.shape == x.shape
    torch.testing.assert_close(y, native(x), rtol=1e-4, atol=1e-5)


# ---- reading ----


def _survey(folder, seismic, labels):
    for name, array in (("s.npy", seismic), ("l.npy", labels)):
        np.save(folder / name, array)
    return folder / "s.npy", folder / "l.npy"


def test_npy_is_normalised(tmp_path):
    raw = 7 + 3 * np.random.default_rng(0).standard_normal((4, 5, 6))
    seismic, labels = read_pair(*_survey(tmp_path, raw, raw.astype(np.int16)))
    assert seismic.dtype == np.float32 and abs(seismic.mean()) < 1e-5 and abs(seismic.std() - 1) < 1e-5
    assert np.allclose(seismic, (raw - raw.mean()) / raw.std(), atol=1e-5)
    assert np.array_equal(labels, raw.astype(np.int16) != 0)


def test_segy_is_depth_first(tmp_path):
    segyio = pytest.importorskip("segyio")
    cube = np.random.default_rng(0).standard_normal((4, 5, 6)).astype(np.float32)  # inline, crossline, depth
    segyio.tools.from_array3D(str(tmp_path / "s.sgy"), cube, format=segyio.SegySampleFormat.IEEE_FLOAT_4_BYTE)
    np.save(tmp_path / "l.npy", np.moveaxis(cube, 2, 0) > 0)
    seismic, labels = read_pair(tmp_path / "s.sgy", tmp_path / "l.npy")
    assert np.allclose(seismic, np.moveaxis((cube - cube.mean()) / cube.std(), 2, 0), atol=1e-5)
    assert labels.shape == (6, 4, 5)


def test_segy_without_segyio_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "segyio", None)
    with pytest.raises(RuntimeError, match="pip install segyio"):
        read_pair(tmp_path / "s.sgy", tmp_path / "l.npy")


def test_reader_says_what_is_wrong(tmp_path):
    good = np.arange(24.0).reshape(2, 3, 4)
    for seismic, labels, message in (
        (good[0], good, r"s\.npy.*three axes.*\(3, 4\)"),
        (good, good[:1], r"l\.npy.*\(2, 3, 4\).*\(1, 3, 4\)"),
        (good * np.nan, good, "finite values"),
        (good * 0, good, "finite values that differ"),
        (good.astype(complex), good, "real numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            read_pair(*_survey(tmp_path, seismic, labels))
    with pytest.raises(ValueError, match=r"expected a file \.npy.*got '\.txt'"):
        read_pair(tmp_path / "s.txt", tmp_path / "l.npy")
    with pytest.raises(FileNotFoundError):
        read_pair(tmp_path / "none.npy", tmp_path / "l.npy")


# ---- the script ----

SHORT = "--epochs 3 --steps 5 --patch 16 --width 2 --volumes 2 --extent 24 --rate 0.02".split()


def _run(folder, capsys, *more):
    threads = torch.get_num_threads()
    try:
        main([*SHORT, *more, "--output", str(folder)])
    finally:
        torch.set_num_threads(threads)
    return capsys.readouterr().out


def _epochs(said):
    return [line.rsplit("  ", 1)[0] for line in said.replace("\r", "\n").splitlines() if line.startswith("epoch")]


def test_short_run_learns_repeats_itself_and_leaves_its_results(tmp_path, capsys):
    said = _run(tmp_path / "a", capsys)
    epochs = _epochs(said)
    losses = [float(line.split("loss")[1].split()[0]) for line in epochs]
    assert len(losses) == 3 and losses[-1] < losses[0]
    assert "torch.nn.Conv3d" in said and "held-out Dice" in said and "IoU" in said
    for picture in ("section.png", "loss.png"):
        assert (tmp_path / "a" / picture).read_bytes().startswith(b"\x89PNG")
    FaultNet(2).load_state_dict(torch.load(tmp_path / "a" / "weights.pt"))
    assert _epochs(_run(tmp_path / "b", capsys)) == epochs


def test_short_run_on_files(tmp_path, capsys):
    files = _survey(tmp_path, *make_volume((20, 40, 16), 0))
    said = _run(tmp_path / "out", capsys, "--volume", str(files[0]), "--labels", str(files[1]))
    assert len(_epochs(said)) == 3


def test_bad_arguments_are_refused(tmp_path, capsys):
    for wrong, message in (
        (["--volume", "s.npy"], "--volume and --labels go together"),
        (["--epochs", "0"], "expected 1 or more, got 0"),
        (["--patch", "4"], "expected 8 or more"),
    ):
        with pytest.raises(SystemExit):
            parse(wrong)
        assert message in capsys.readouterr().err
    files = _survey(tmp_path, np.random.default_rng(0).standard_normal((8, 12, 8)), np.ones((8, 12, 8)))
    with pytest.raises(SystemExit, match="32 inlines"):
        main(["--volume", str(files[0]), "--labels", str(files[1]), "--output", str(tmp_path / "out")])
