# SPDX-License-Identifier: Apache-2.0
"""The benchmark: its counts, its float64 reference, its verdicts, and the script itself on tiny volumes."""

import csv
import importlib.util
import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

FOLDER = Path(__file__).resolve().parents[1] / "composite" / "conv3d_custom"
SCRIPT = FOLDER / "bench_conv3d_custom_perf.py"
sys.path.insert(0, str(FOLDER))

import bench_child  # noqa: E402
import bench_conv3d_custom_perf as bench  # noqa: E402
import bench_device  # noqa: E402
import bench_machine  # noqa: E402
import bench_passes  # noqa: E402
import bench_perf  # noqa: E402
import bench_precision  # noqa: E402
import bench_reference  # noqa: E402
import bench_volumes  # noqa: E402
from patterns import PATTERNS, SMALL, Pattern  # noqa: E402


def run(*arguments, status=0):
    command = [sys.executable, SCRIPT, "--threads", "1", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stderr
    return done


def small(mode="zeros", stride=1, dilation=1, groups=2, padding=2):
    triples = ((v,) * 3 for v in (stride, padding, dilation))
    return Pattern("small", 4, 6, (3, 2, 3), *triples, groups, mode, 2, 6, 5, 7)


def native_values(pattern):
    """x, w, b, gy and native's y, gx, gw, gb of them, in float64."""
    torch.manual_seed(0)
    conv = bench_passes.layer(pattern, "native").double()
    x = torch.randn(pattern.x_shape, dtype=torch.float64, requires_grad=True)
    y = conv(x)
    assert y.shape == pattern.y_shape
    gy = torch.randn_like(y)
    gradients = torch.autograd.grad(y, [x, conv.weight, conv.bias], gy)
    return x.detach(), conv.weight.detach(), conv.bias.detach(), gy, y.detach(), *gradients


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("stride, dilation", [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_the_reference_is_native_in_float64_at_every_position(mode, stride, dilation):
    pattern = small(mode, stride, dilation)
    x, w, b, gy, y, gx, gw, gb = native_values(pattern)
    at = {
        "y": (y, lambda at: bench_reference.y_at(pattern, x, w, b, at)),
        "gx": (gx, lambda at: bench_reference.gx_at(pattern, gy, w, at)),
        "gw": (gw, lambda at: bench_reference.gw_at(pattern, x, gy, at)),
        "gb": (gb, lambda at: bench_reference.gb_at(pattern, gy, at[0])),
    }
    for name, (tensor, sums) in at.items():
        for position in torch.cartesian_prod(*map(torch.arange, tensor.shape)).view(-1, tensor.dim())[::7].tolist():
            value, mass = sums(position)
            assert abs(value - float(tensor[tuple(position)])) <= 1e-12, (name, position)
            assert mass >= abs(value) - 1e-12


def test_a_wrong_value_fails_precision():
    sums = [(1.0, 4.0), (2.0, 5.0)]
    assert bench_precision._judge(PATTERNS[0], "y", [1.0, 2.0], sums, 27)["verdict"] == "PASS"
    assert bench_precision._judge(PATTERNS[0], "y", [1.0, 2.0001], sums, 27)["verdict"] == "FAIL"
    assert bench_precision._judge(PATTERNS[0], "y", [1.0, float("nan")], sums, 27)["verdict"] == "FAIL"


@pytest.mark.parametrize("backend, longest", [("c", 1024), ("composite", 25 * 25 * 168)])
def test_the_tolerance_is_that_of_what_ran(backend, longest):
    options = SimpleNamespace(backend=backend, device="cpu")
    pointwise = PATTERNS[1].scaled(25 / 296)
    rows = {row["tensor"]: row for row in bench_precision.measure([pointwise], options, lambda text: None)}
    assert {row["backend"] for row in rows.values()} == {backend}
    assert {row["verdict"] for row in rows.values()} == {"PASS"}
    assert rows["gw"]["norm_tolerance"] == pytest.approx(2**-24 * (longest**0.5 + 4))


def test_wrong_outputs_are_not_timed(monkeypatch):
    assert bench_perf.verify(PATTERNS[3], "auto", "cpu") <= 1e-5
    ours = bench_passes.Conv3d.forward
    monkeypatch.setattr(bench_passes.Conv3d, "forward", lambda self, x: ours(self, x) * 1.001)
    with pytest.raises(RuntimeError, match="train04_dw_k7_g7: expected ours to agree"):
        bench_perf.verify(PATTERNS[3], "auto", "cpu")


def test_the_crop_is_verified_on_the_backend_of_the_full_size(monkeypatch):
    def by_size(device_type, dtype, x_shape, w_shape, stride):
        return "c" if x_shape[-3] > 100 else "native"

    options = SimpleNamespace(backend="auto", device="cpu", passes=())
    monkeypatch.setattr(bench_perf, "module_backend", by_size)
    seen = []
    monkeypatch.setattr(bench_perf, "verify", lambda pattern, backend, device: seen.append(backend))
    list(bench_perf.measure({}, [PATTERNS[1]], options, {}, lambda text: None))
    list(bench_perf.measure({}, [PATTERNS[1].scaled(0.1)], options, {}, lambda text: None))
    assert seen == ["c", "native"]


def test_a_wrong_pattern_is_a_row_that_says_so_and_the_next_one_is_measured(monkeypatch, tmp_path):
    ours = bench_passes.Conv3d.forward
    monkeypatch.setattr(bench_passes.Conv3d, "forward", lambda conv, x: ours(conv, x) * (1 + (conv.groups == 7) * 1e-3))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    file = tmp_path / "result.json"
    arguments = ["--scale", "0.02", "--threads", "1", "--repeats", "1", "--passes", "forward", "--no-native"]
    assert bench.main([*arguments, "--pattern", "train05,train06", "--json", str(file)]) == 1
    wrong, right = json.loads(file.read_text())["rows"]
    assert wrong["pass"] == "verify" and "train05_dw_k9_g7: expected ours to agree" in wrong["ours"]["crash"]
    assert right["pass"] == "forward" and right["ours"]["min_s"] > 0


def test_the_peak_is_a_matrix_product_where_there_is_no_compiler(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    peak = bench_machine.FmaPeak("baseline")
    assert peak.source.startswith("torch.mm") and peak.gflops(1) > 0


def test_memory_is_counted_above_the_tensors():
    child = bench_child.Child("ours", threads=1)
    try:
        child.build(PATTERNS[2].scaled(0.3))
        for name in bench_passes.PASSES:
            assert child.run(name)[1] < 6 << 20 < 4 * torch.Size(PATTERNS[2].scaled(0.3).y_shape).numel()
    finally:
        child.stop()


def test_the_patterns_are_eleven_and_their_extents_those_of_torch():
    assert len({pattern.name for pattern in PATTERNS}) == 11
    for pattern in PATTERNS:
        tiny = pattern.scaled(0.05)
        with torch.device("meta"):
            assert bench_passes.layer(tiny, "native")(torch.empty(tiny.x_shape)).shape == tiny.y_shape


def test_work_is_counted_as_the_direct_computation():
    pattern = small()
    assert bench_perf.flops(pattern, "forward") == 2 * torch.Size(pattern.y_shape).numel() * 2 * 18
    assert bench_perf.flops(pattern, "forward_backward") == 3 * bench_perf.flops(pattern, "forward")


def test_elementwise_precision_is_direct():
    k9 = PATTERNS[4]
    for precision, config in (("auto", "fourier"), ("elementwise", "direct-rows")):
        pattern = replace(k9, precision=precision)
        assert bench_passes.layer(pattern, "ours").precision == precision
        assert config in bench_perf.plans(pattern, "forward", threads=1)["plan"]


def test_a_seismic_volume_is_timed_warm_and_its_chunks_sent_direct_are_counted(tmp_path):
    file = tmp_path / "result.json"
    done = run(
        "--scale", "0.2", "--repeats", "2", "--pattern", "train05", "--backend", "c", "--no-native", "--passes",
        "forward,grad_weight", "--data", "seismic", "--warm", "--json", file,
    )  # fmt: skip
    for row in json.loads(file.read_text())["rows"]:
        assert 0 <= row["sent_direct"] < row["chunks"]
        assert row["warm_s"] > 0 and row["warm_of_fresh"] == pytest.approx(row["warm_s"] / row["ours"]["min_s"])
        assert f"{row['sent_direct']} of {row['chunks']} chunks direct" in done.stdout
    assert "ogp:" not in done.stderr


def test_a_seismic_volume_is_muted_on_top_and_falls_off_with_depth():
    volume = bench_volumes.seismic((1, 2, 96, 20, 30))[0]
    assert not volume[:, :9].any() and volume[:, 30:].all()
    assert volume[:, 30:50].std() > 2 * volume[:, 76:].std() > 0
    assert not torch.equal(volume[0], volume[1])


def test_perf_mode_writes_table_json_csv_and_plot(tmp_path):
    files = {kind: tmp_path / f"result.{kind}" for kind in ("json", "csv", "png")}
    done = run(
        "--scale", "0.02", "--repeats", "2", "--pattern", "train01,train10", "--backend", "c", "--json", files["json"],
        "--csv", files["csv"], "--plot", files["png"],
    )  # fmt: skip
    result = json.loads(files["json"].read_text())
    assert [(row["pattern"], row["pass"]) for row in result["rows"]] == [
        (name, part) for name in ("train01_stem_k3_g1", "train10_refl_k7_g14") for part in bench_passes.PASSES
    ]
    for row in result["rows"]:
        assert row["backend"] == "c"
        assert row["speedup"] == pytest.approx(row["native"]["min_s"] / row["ours"]["min_s"])
        assert row["ours"]["min_s"] <= row["ours"]["median_s"]
        assert 0 < row["scratch_bytes"] <= 64 << 20
        parts = ["forward", "grad_input", "grad_weight"] if row["pass"] == "forward_backward" else [row["pass"]]
        assert [plan.split()[0] for plan in row["plan"].split("; ")] == parts
        assert row["pattern"] in done.stdout
    assert "one call on (1,1,4,4,4)" in done.stdout and "right after a torch operator" in done.stdout
    for row in result["small_calls"]:
        assert row["ratio"] == pytest.approx(row["ours"]["min_s"] / row["native"]["min_s"])
    assert done.stdout.count("x native's time") == 2
    assert "train01_stem_k3_g1: forward" in done.stderr
    lines = files["csv"].read_text().splitlines()
    assert lines[0] == f"# {done.stdout.splitlines()[0]}"
    assert len(list(csv.DictReader(line for line in lines if line[0] != "#"))) == 8
    assert files["png"].read_bytes().startswith(b"\x89PNG")


# ---- on an NPU: a dry run on the stand-in ----


@pytest.fixture
def on_npu(tmp_path):
    """Runs the script there; (standard output, result)."""
    fake_npu = pytest.importorskip("fake_npu")
    if not fake_npu.available():
        pytest.skip("this torch has no spare device for Python")

    def run(*arguments, status=0):
        file = tmp_path / "result.json"
        script = Path(__file__).with_name("fake_npu_bench.py")
        command = [sys.executable, script, "--threads", "1", "--json", file, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == status, done.stderr
        return done.stdout, json.loads(file.read_text())

    return run


def test_perf_mode_on_an_npu_contains_what_native_does_there(on_npu):
    """train05 is refused: ours has its times, native's row says why, and the next pattern has both."""
    text, result = on_npu("--scale", "0.035", "--repeats", "1", "--pattern", "train05,train02")
    assert "device npu, HF32 on" in text and result["machine"]["hf32"] is True
    assert {row["backend"] for row in result["rows"]} == {"composite"}
    rows = {(row["pattern"][:7], row["pass"]): row for row in result["rows"]}
    assert all(row["ours"]["min_s"] > 0 and row["ours"]["peak_bytes"] == 0 for row in rows.values())
    for name in ("grad_input", "forward_backward"):
        assert "do not fit L1" in rows["train05", name]["native"]["crash"]
    for name in ("forward", "grad_weight"):
        assert rows["train05", name]["native"]["min_s"] > 0
    assert all(row["native"]["min_s"] > 0 for (name, _), row in rows.items() if name == "train02")
    assert "nativeCRASH (grad input" in text and 1e-5 < rows["train02", "forward"]["checked_error"] < 2e-3


def test_precision_mode_on_an_npu_has_tolerances_for_both_roundings(on_npu):
    errors = {}
    for switch in ((), ("--no-hf32",)):
        patterns = "train06" if switch else "train04,train06,train10"
        text, result = on_npu("--mode", "precision", "--scale", "0.035", "--pattern", patterns, *switch)
        assert f"device npu, HF32 {'off' if switch else 'on'}" in text
        assert {row["verdict"] for row in result["rows"]} == {result["training"]["verdict"]} == {"PASS"}
        errors[switch] = {row["tensor"]: row["norm_error"] for row in result["rows"]}
    for tensor in ("y", "gx", "gw"):
        assert 2**-14 < errors[()][tensor] < 2**-11 and errors["--no-hf32",][tensor] < 2**-18
    assert errors[()]["gb"] < 2**-18


def test_scaling_mode_runs_on_an_npu(on_npu):
    text, result = on_npu("--scaling", "--scale", "0.02", "--repeats", "1", "--pattern", "train02", "--passes=forward")
    assert text.count("gain") == 1 and result["rows"][0]["one_s"] > 0


def test_there_is_no_hf32_on_a_cpu():
    bench_device.forbid_hf32("cpu")
    assert bench_device.hf32("cpu") is None and bench_device.factor_rounding("cpu") == 0
    done = run("--scale", "0.02", "--pattern", "train02", "--repeats", "1", "--no-native", "--no-hf32")
    assert "HF32" not in done.stdout


def test_a_native_timeout_is_a_row_that_says_so(tmp_path):
    file = tmp_path / "result.json"
    done = run(
        "--scale", "0.02", "--repeats", "1", "--pattern", "train05", "--passes", "forward,forward_backward",
        "--native-timeout", "0.0001", "--json", file,
    )  # fmt: skip
    forward, both = json.loads(file.read_text())["rows"]
    assert "nativeCRASH (timeout)" in done.stdout
    assert forward["native"] == {"crash": "timeout"} and both["native"] == {"crash": "timeout already in forward"}
    for row in (forward, both):
        assert row["speedup_at_least"] == pytest.approx(0.0001 / row["ours"]["min_s"])


def test_hunger_for_memory_is_contained_and_named():
    child = bench_child.Child("native", threads=1, memory_limit=100 << 20)
    try:
        with pytest.raises(bench_child.Crash, match="^out of memory$"):
            child.build(PATTERNS[1])
        child.build(SMALL)
        assert child.run("forward")[0] > 0
    finally:
        child.stop()


def test_a_run_that_is_ended_early_leaves_what_it_has(tmp_path):
    file = tmp_path / "result.json"
    command = [sys.executable, SCRIPT, "--threads", "1", "--scale", "0.1", "--no-native", "--json", file]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        for line in process.stdout:
            if line.startswith("train01"):
                process.terminate()
                break
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGTERM
    assert json.loads(file.read_text())["rows"][0]["pattern"] == "train01_stem_k3_g1"


def test_scaling_mode_compares_with_the_fma_loop():
    done = run(
        "--scaling", "--scale", "0.02", "--repeats", "1", "--pattern", "train04", "--passes", "forward,grad_weight",
        "--threads", "2",
    )  # fmt: skip
    assert done.stdout.count("gain") == done.stdout.count("FMA loop") - 1 == 2


def test_precision_mode_passes_and_trains(tmp_path):
    file = tmp_path / "result.json"
    done = run("--mode", "precision", "--scale", "0.02", "--pattern", "train06,train10", "--json", file)
    result = json.loads(file.read_text())
    assert [row["tensor"] for row in result["rows"]] == ["y", "gx", "gw", "gb"] * 2
    assert len(result["training"]["ours"]) == len(result["training"]["native"]) == 20
    assert "ours on c" in done.stdout
    assert "ours converges" in done.stdout and "native converges" in done.stdout


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--pattern", "train99"), "--pattern: expected one of train01_stem_k3_g1"),
        (("--passes", "backward"), "--passes: expected some of forward, grad_input, grad_weight, forward_backward"),
        (("--json", "no/such/folder/x.json"), "--json: expected a file in an existing folder"),
        (("--plot", "x.png", "--scaling"), "--plot: expected perf mode without --scaling"),
        (("--scale", "0"), "expected a number above 0, got 0"),
    ],
)
def test_bad_arguments_are_refused_at_once(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        bench.main(list(arguments))
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_plot_without_matplotlib_is_refused_at_once(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="2"):
        bench.main(["--plot", "x.png"])
    assert "expected matplotlib to be installed" in capsys.readouterr().err
