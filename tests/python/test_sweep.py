# SPDX-License-Identifier: Apache-2.0
"""The sweep, the comparison of two, the roofline and the end-to-end step: the real scripts on tiny problems."""

import copy
import csv
import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

BENCH = Path(__file__).resolve().parents[2] / "bench"
PROBLEMS = sorted((BENCH / "problems").glob("*.txt"))
sys.path.insert(0, str(BENCH))

import compare  # noqa: E402
import end_to_end  # noqa: E402
import problem_lines  # noqa: E402
import rivals  # noqa: E402
import roofline  # noqa: E402
import sweep  # noqa: E402
import sweep_measure  # noqa: E402
import sweep_report  # noqa: E402
import sweep_sides  # noqa: E402
from bench_passes import PASSES  # noqa: E402
from swap import swap  # noqa: E402

from oil_gas_ops_prospect import conv3d_custom  # noqa: E402

TINY = """# two layers
g2 ci2 co2 i6x7x8 k3 p1      # depthwise

transposed ci4 co2 i4 k3 s2 p1 q0
"""


def run(script, *arguments, status=0):
    command = [sys.executable, BENCH / script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == status, done.stderr
    return done


def write(path, text):
    path.write_text(text)
    return path


# ---- problems ----


@pytest.mark.parametrize("path", PROBLEMS, ids=lambda path: path.stem)
def test_every_problem_of_the_files_is_a_layer_that_fits(path):
    problems = problem_lines.read([path])
    assert problems and all(problem.note for problem in problems if path.stem == "quick")
    for problem in problems:
        assert max(problem.bytes(name) for name in ("forward", "grad_weight")) < 1 << 30, problem.name


@pytest.mark.parametrize("line", [
    "g2 ci2 co4 n2 i5x6x7 k3x2x1 s1x2x1 p1 l1x1x2",
    "forward ci3 co2 i5x6x7 k3 p2 circular",
    "transposed ci4 co6 i3x4x5 k3x2x4 s2x1x3 p1x0x2 q0x0x1 l1x2x1",
    "transposed g2 ci4 co6 n2 i3 k5 s2 p2",
])  # fmt: skip
def test_extents_and_counts_are_those_of_torch(line):
    problem = problem_lines.parse(line)
    conv, x, gy = problem.tensors("native")
    y = conv(x)
    assert y.shape == gy.shape and conv.weight.shape == problem.w_shape
    assert problem.flops("forward_backward") == 3 * problem.flops("forward")
    assert problem.bytes("forward") == 4 * (x.numel() + conv.weight.numel() + y.numel())


def test_work_is_two_operations_for_each_product():
    problem = problem_lines.parse("g2 ci4 co6 i5x6x7 k3 p2 circular")
    conv, x, _ = problem.tensors("native")
    with torch.no_grad():
        conv.weight.fill_(1)
        conv.bias.zero_()
        assert problem.flops("forward") == 2 * conv(torch.ones_like(x)).sum().item()


def test_the_work_of_a_transposed_layer_is_counted_by_its_input():
    problem = problem_lines.parse("transposed g2 ci4 co6 i3x4x5 k2 s2")
    assert problem.flops("forward") == problem.flops("grad_input") == 2 * 4 * 60 * 3 * 8


def test_words_of_a_line_become_a_problem():
    problem = problem_lines.parse("grad_weight f64 reflect ci2 co3 i6 k3 p1 xndhwc yndhwc # a note", "f32")
    assert (problem.name, problem.note) == ("reflect ci2 co3 i6 k3 p1 xndhwc yndhwc", "a note")
    assert (problem.dtype, problem.padding_mode, problem.last) == ("f64", "reflect", ("x", "y"))
    assert problem_lines.parse("i4 k3", "f64").dtype == "f64"


def test_a_problem_is_read_once(tmp_path):
    path = write(tmp_path / "a.txt", "i4 k3 # one\nforward i4 k3 # the same\nf64 i4 k3\n")
    assert [(problem.name, problem.dtype) for problem in problem_lines.read([path, path])] == [
        ("i4 k3", "f32"), ("i4 k3", "f64"),
    ]  # fmt: skip


@pytest.mark.parametrize("line, message", [
    ("i4 z3", "got 'z3'"),
    ("ci4 co4 k3", "expected extents and channels of 1 and more"),
    ("i4 k7", "Kernel size"),
    ("g3 ci4 co3 i4 k3", "divisible by groups"),
    ("i4 k3 p1 q0", "expected q equal to p"),
    ("transposed i4 k3 p1 q2", "expected p - q from 0 to below stride or dilation"),
    ("transposed i4 k3 p1 q0", "expected p - q from 0 to below"),
    ("i99999999999999999999 k3", "got 'i99999999999999999999'"),
])  # fmt: skip
def test_a_bad_line_is_an_error_that_names_file_and_line(line, message, tmp_path, capsys):
    path = write(tmp_path / "bad.txt", f"# first\ni4 k3\n{line}\n")
    with pytest.raises(SystemExit, match="2"):
        sweep.main([str(path)])
    error = capsys.readouterr().err
    assert f"{path}:3: " in error and message in error


@pytest.mark.parametrize("arguments, message", [
    (("no_such.txt",), "no_such.txt"),
    (("--sides", "c,mine"), "--sides: expected some of c, auto, native, native_last, openvino, onnxruntime, got"),
    (("--passes", "backward"), "--passes: expected some of forward"),
    (("--json", "no/such/folder/x.json"), "--json: expected a file in an existing folder"),
    (("--budget", "0"), "expected a number above 0"),
])  # fmt: skip
def test_bad_arguments_are_refused_at_once(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        sweep.main(list(arguments))
    assert message in " ".join(capsys.readouterr().err.split())


# ---- the sweep ----


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """(standard output, standard error, files by kind) of one sweep."""
    folder = tmp_path_factory.mktemp("sweep")
    files = {kind: folder / f"result.{kind}" for kind in ("json", "csv", "png")}
    problems = write(folder / "tiny.txt", TINY)
    arguments = ("--threads", "1", "--repeats", "1", "--budget", "0.01", "--json", files["json"], "--csv", files["csv"])
    done = run("sweep.py", problems, *arguments)
    return done.stdout, done.stderr, files


def test_a_sweep_has_each_pass_of_each_problem(swept):
    text, progress, files = swept
    rows = json.loads(files["json"].read_text())["rows"]
    names = ["g2 ci2 co2 i6x7x8 k3 p1", "transposed ci4 co2 i4 k3 s2 p1 q0"]
    assert [(row["problem"], row["pass"]) for row in rows] == [(name, part) for name in names for part in PASSES]
    assert all(f"\n{name}" in text for name in names) and "# depthwise" in text
    assert f"[2/2] {names[1]}: grad_weight" in progress
    assert "all              " in text and "auto against the faster of C core and native: worst" in text


def test_a_row_says_what_each_side_took(swept):
    for row in json.loads(swept[2]["json"].read_text())["rows"]:
        results = row["sides"]
        assert {"c", "auto", "native", "native_last"} <= set(results)
        core, native, last = (results[side]["min_s"] for side in ("c", "native", "native_last"))
        assert row["ratio"] == pytest.approx(min(native, last) / core)
        assert row["auto_ratio"] == pytest.approx(min(native, core) / results["auto"]["min_s"])
        for result in results.values():
            assert 0 < result["min_s"] <= result["median_s"] and result["calls"] >= 1
            assert result["gflops"] == pytest.approx(row["flops"] / result["min_s"] / 1e9)
        assert all(error <= 1e-4 for error in row["checked_errors"].values())
        part = row["pass"]
        if row["problem"].startswith("transposed"):
            part = {"forward": "grad_input", "grad_input": "forward"}.get(part, part)
        assert row["plan"].split()[0] == ("forward" if part == "forward_backward" else part)


def test_the_csv_has_a_line_for_each_row(swept):
    text, _, files = swept
    lines = files["csv"].read_text().splitlines()
    assert lines[0] == f"# {text.splitlines()[0]}"
    rows = list(csv.DictReader(line for line in lines if line[0] != "#"))
    assert len(rows) == 8 and all(float(row["native_last_min_s"]) > 0 for row in rows)


def test_missing_rivals_are_skipped_with_a_line(swept):
    for name, module in rivals.FORWARDS.items():
        assert (f"{name}: skipped, not installed (pip install" in swept[0]) == (module.missing() is not None)


def test_a_rival_is_missing_without_its_packages(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert rivals.FORWARDS["openvino"].missing() == "pip install openvino"
    assert rivals.FORWARDS["onnxruntime"].missing() == "pip install onnxruntime onnx"


def test_rivals_refuse_what_they_do_not_compute():
    for module in rivals.FORWARDS.values():
        assert module.refuses(problem_lines.parse("i4 k3 p1")) is None
        assert module.refuses(problem_lines.parse("i4 k3 p1 reflect")) == "no padding by reflect"
        assert module.refuses(problem_lines.parse("f64 i4 k3 p1")) == "float32 only"


@pytest.mark.parametrize("name", rivals.FORWARDS)
@pytest.mark.parametrize("line", [
    "n2 g2 ci4 co6 i5x6x7 k3x2x1 s1x2x1 p1x0x0 l1x1x2",
    "ci3 co2 i5x6x7 k3 p1",
    "transposed g2 ci4 co6 i3x4x5 k3 s2 p1 q0",
])  # fmt: skip
def test_a_rival_that_is_installed_computes_what_native_does(name, line):
    if rivals.FORWARDS[name].missing():
        pytest.skip(f"{name} is not installed")
    problem = problem_lines.parse(line)
    got = sweep_sides.ForwardOnly(problem, name).outputs("native")
    assert sweep_measure.largest_error(got, sweep_measure.reference(problem)) < 1e-5


@pytest.mark.parametrize("line", ["ci2 co3 i5 k3 p1 xndhwc yndhwc", "transposed f64 ci2 co3 i5 k3 s2"])
@pytest.mark.parametrize("kind", [*sweep_sides.OURS, *sweep_sides.NATIVE])
def test_outputs_agree_in_every_layout(line, kind):
    problem = problem_lines.parse(line)
    passes = sweep_sides.TorchPasses(problem, kind, "auto", "cpu")
    last = kind == "native_last" or (kind in sweep_sides.OURS and bool(problem.last))
    assert passes.x.is_contiguous(memory_format=torch.channels_last_3d) == last
    error = sweep_measure.largest_error(passes.outputs("c"), sweep_measure.reference(problem))
    assert error < (1e-12 if problem.dtype == "f64" else 1e-5)


def test_wrong_outputs_are_rows_that_say_so(monkeypatch, tmp_path, capsys):
    """The reference is made wrong here; the processes of the sides are right."""
    right = sweep_measure.reference
    monkeypatch.setattr(
        sweep_measure, "reference", lambda problem: {name: 1.01 * value for name, value in right(problem).items()}
    )
    monkeypatch.setattr(sweep.signal, "signal", lambda *_: None)
    path, file = write(tmp_path / "tiny.txt", "i4 k3 p1"), tmp_path / "result.json"
    arguments = ["--sides", "c", "--passes", "forward", "--threads", "1", "--json", str(file)]
    assert sweep.main([str(path), *arguments]) == 1
    (row,) = json.loads(file.read_text())["rows"]
    assert row["sides"]["c"]["crash"].startswith("wrong: expected an error of at most 1e-04, got 9.9e-03")
    assert "c: wrong" in capsys.readouterr().out


@pytest.mark.parametrize("line", [
    "n2 g2 ci4 co6 i5x6x7 k3x2x1 s1x2x1 p1x0x0 l1x1x2",
    "g3 ci3 co6 i5 k3 p2 reflect",
    "transposed g2 ci4 co6 i3x4x5 k3 s2 p1 q0",
])  # fmt: skip
def test_the_reference_is_native_in_float64(line):
    problem = problem_lines.parse(line)
    conv, x, gy = (part.double() for part in problem.tensors("native"))
    x.requires_grad_()
    y = conv(x)
    gradients = torch.autograd.grad(y, [x, conv.weight, conv.bias], gy)
    want = {name: t.detach().numpy() for name, t in zip(sweep_sides.OUTPUTS, (y, *gradients))}
    assert sweep_measure.largest_error(sweep_measure.reference(problem), want) < 1e-12


def test_a_crop_has_columns_that_fit():
    large = problem_lines.parse("g8 ci8 co8 i32 k31 p15")
    small = sweep_measure.crop(large)
    assert sweep_measure._columns(small) <= 1 << 30 < sweep_measure._columns(large)
    assert min(small.d, small.h, small.w) >= 16  # each tap meets the volume somewhere
    tight = sweep_measure.crop(problem_lines.parse("ci20000 co1 i64 k31"))
    assert (tight.d, tight.h, tight.w) == (31, 31, 31)
    assert sweep_measure.crop(problem_lines.parse("i9x40x40 k3 p1")).y_shape[2:] == (9, 10, 26)


def test_a_nan_is_wrong():
    want = {name: torch.ones(2).numpy() for name in sweep_sides.OUTPUTS}
    got = {**want, "gx": torch.tensor([1.0, math.nan]).numpy()}
    assert math.isnan(sweep_measure.largest_error(got, want))


def test_native_that_crawls_is_given_up(tmp_path):
    """A bound on the ratio takes the place of the ratio."""
    file = tmp_path / "result.json"
    problems = write(tmp_path / "tiny.txt", "g8 ci8 co8 i24 k7 p3")
    arguments = ("--sides", "c,native", "--passes", "grad_input", "--threads", "1", "--budget", "0.01")
    done = run("sweep.py", problems, *arguments, "--native-timeout", "0.0001", "--json", file)
    (row,) = json.loads(file.read_text())["rows"]
    assert row["sides"]["native"] == {"crash": "timeout"} and "ratio" not in row
    assert row["ratio_at_least"] == pytest.approx(0.0001 / row["sides"]["c"]["min_s"])
    assert " timeout " in done.stdout


def result(seconds, **machine):
    """A sweep of one problem: {(pass, side): seconds or None where it failed}."""
    rows = {}
    for (name, side), value in seconds.items():
        row = rows.setdefault(name, {
            "problem": "i8 k3", "note": "", "dtype": "f32", "pass": name, "flops": 2e6, "bytes": 1e5,
            "auto_backend": "c", "sides": {},
        })  # fmt: skip
        took = {"crash": "timeout"}
        if value:
            took = {"min_s": value, "median_s": value, "gflops": 2e-3 / value, "of_fma": 0.1}
        row["sides"][side] = took
    facts = {"cpu": "a CPU", "isa": "avx2", "threads": 1, "torch": "2", "fma_gflops": 50.0, "copy_gbytes": 10.0}
    return {"machine": {**facts, **machine}, "sides": ["c"], "rows": list(rows.values())}


def compared(seconds, limit=8.0):
    (row,) = result(seconds)["rows"]
    sweep_measure.compare(row, limit)
    return row


def test_the_ratio_is_to_the_better_layout_and_that_of_auto_to_its_own():
    seconds = {"c": 2.0, "auto": 2.0, "native": 1.5, "native_last": 1.0}
    seconds = {("forward", side): value for side, value in seconds.items()}
    row = compared(seconds)
    assert (row["ratio"], row["best_native"], row["auto_ratio"]) == (0.5, "native_last", 0.75)
    assert row["rule_ratio"] == 0.75
    (row,) = result(seconds)["rows"]
    row["problem"] += " xndhwc"
    sweep_measure.compare(row, 8.0)
    assert row["auto_ratio"] == 0.5


def test_a_ratio_is_bounded_where_both_layouts_were_given_up():
    row = compared({("forward", "c"): 2.0, ("forward", "native"): None, ("forward", "native_last"): None})
    assert row["ratio_at_least"] == 4.0 and "ratio" not in row
    assert sweep_report.ratio(row) == ">4.0x"
    row = compared({("forward", "c"): 2.0, ("forward", "native"): None, ("forward", "native_last"): 3.0})
    assert row["ratio"] == 1.5 and "ratio_at_least" not in row


def test_the_summary_names_the_worst():
    rows = [
        compared({("forward", "c"): 2.0, ("forward", "auto"): 1.1, ("forward", "native"): 1.0}),
        compared({("grad_input", "c"): 2.0, ("grad_input", "auto"): 2.0, ("grad_input", "native"): 4.0}),
        compared({("grad_weight", "c"): 2.0, ("grad_weight", "native"): None}),
    ]
    text = sweep_report.summary(rows)
    assert "  forward          0 of 1 (0%)" in text and "  all              2 of 3 (67%)" in text
    assert "(1 of 1 below 1.0):\n  0.50x  forward" in text
    assert "worst 0.91" in text and "below 0.95: 1 of 2" in text and "took c, itself at 0.50" in text


# ---- comparison and roofline ----


def files(tmp_path, before, after):
    paths = []
    for name, content in (("before", before), ("after", after)):
        paths.append(write(tmp_path / f"{name}.json", json.dumps(content)))
    return map(str, paths)


def test_a_comparison_sorts_marks_and_averages(tmp_path, capsys):
    before = result({("forward", "c"): 2.0, ("grad_input", "c"): 1.0, ("grad_weight", "c"): 1.0})
    after = result({("forward", "c"): 1.0, ("grad_input", "c"): 1.25, ("grad_weight", "c"): 1.01}, isa="avx512")
    assert compare.main([*files(tmp_path, before, after)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "note: isa differs: avx2 before, avx512 after"
    table = [line for line in lines if "i8 k3" in line]
    assert [line.split()[0] for line in table] == ["0.800", "0.990", "2.000"]
    assert [("slower" in line, "faster" in line) for line in table] == [(True, False), (False, False), (False, True)]
    mean = (0.8 * 2 / 1.01) ** (1 / 3)
    assert f"geometric mean all              {mean:.3f}" in lines
    assert "3 compared, 1 slower by more than 3 %" in lines


@pytest.mark.parametrize("limit, status", [("0.7", 0), ("0.9", 1)])
def test_a_comparison_fails_below_a_limit(limit, status, tmp_path):
    before, after = result({("forward", "c"): 1.0}), result({("forward", "c"): 1.25})
    run("compare.py", *files(tmp_path, before, after), "--fail-below", limit, status=status)


def test_a_pass_that_fails_now_is_below_every_limit(tmp_path, capsys):
    before = result({("forward", "c"): 1.0, ("grad_input", "c"): 1.0, ("grad_weight", "c"): 1.0})
    after = result({("forward", "c"): None, ("grad_input", "c"): 1.0})
    assert compare.main([*files(tmp_path, before, after), "--fail-below", "0.1"]) == 1
    text = capsys.readouterr().out
    assert "FAIL" in text and "geometric mean all              1.000" in text and "1 in one file alone" in text


def test_files_that_cannot_be_compared_are_status_2(tmp_path, capsys):
    before, after = files(tmp_path, result({("forward", "c"): 1.0}), {"rows": 1})
    with pytest.raises(SystemExit, match="2"):
        compare.main([before, after])
    assert "after.json: expected the JSON of a sweep" in capsys.readouterr().err
    assert compare.main([before, before, "--side", "auto"]) == 2


def test_the_roofline_is_a_png(swept):
    files = swept[2]
    run("roofline.py", files["json"], files["png"])
    assert files["png"].read_bytes().startswith(b"\x89PNG")


def test_points_of_the_roofline():
    row = compared({("forward", "c"): 2e-4, ("forward", "native"): 1e-4, ("forward", "native_last"): 4e-4})
    assert roofline.points(row) == {"ours": (20.0, pytest.approx(10.0)), "native": (20.0, pytest.approx(20.0))}
    row = compared({("forward", "c"): None, ("forward", "native"): None})
    assert roofline.points(row) == {}


def test_a_roofline_of_nothing_is_refused(tmp_path, capsys):
    path = write(tmp_path / "empty.json", json.dumps({**result({}), "rows": []}))
    assert roofline.main([str(path), str(tmp_path / "out.png")]) == 2
    assert "expected rows with times" in capsys.readouterr().err
    assert roofline.main([]) == 2


# ---- end to end ----


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv3d(1, 4, 3, padding=1, bias=False)
        self.body = nn.Sequential(nn.Conv3d(4, 4, 3, 2, 1, groups=2, padding_mode="reflect"), nn.ReLU())
        self.up = nn.ConvTranspose3d(4, 2, 3, 2, 1, output_padding=1)
        self.again = self.body[0]

    def forward(self, x):
        return self.up(self.body(self.stem(x)))


def test_swap_keeps_weights_and_outputs():
    native = Net().eval()
    ours = copy.deepcopy(native)
    weights = dict(ours.named_parameters())
    assert swap(ours) == 3
    assert all(parameter is weights[name] for name, parameter in ours.named_parameters())
    assert isinstance(ours.stem, conv3d_custom.Conv3d) and isinstance(ours.up, conv3d_custom.ConvTranspose3d)
    assert ours.again is ours.body[0] and not ours.stem.training
    assert list(ours.state_dict()) == list(native.state_dict())
    x = torch.randn(1, 1, 8, 8, 8)
    with conv3d_custom.conv3d_backend("c"):
        torch.testing.assert_close(ours(x), native(x))
    assert swap(ours) == 0


def test_a_step_end_to_end(monkeypatch, tmp_path, capsys):
    file = tmp_path / "result.json"
    monkeypatch.setattr(end_to_end, "NETWORKS", {"net": lambda filters: nn.Sequential(Net())})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    arguments = ["--networks", "net", "--side", "16", "--threads", "1", "--repeats", "2", "--json", str(file)]
    assert end_to_end.main(arguments) == 0
    (row,) = json.loads(file.read_text())["rows"]
    assert row["replaced"] == 3 and row["difference"] <= 1e-4 and row["verdict"] == "PASS"
    assert all(row[side]["min_s"] <= row[side]["median_s"] for side in ("native", "c", "auto"))
    assert "net           3 convolutions" in capsys.readouterr().out


def test_end_to_end_without_monai_says_so(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert end_to_end.main([]) == 2
    assert "expected MONAI to be installed (pip install monai)" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        end_to_end.main(["--side", "40"])
