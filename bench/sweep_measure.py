# SPDX-License-Identifier: Apache-2.0
"""The rows of a sweep: each pass of each problem on all sides, checked, then timed in turn."""

import shared  # noqa: F401, isort: skip

from dataclasses import replace
from math import prod

import numpy
from bench_child import Crash
from bench_perf import backend_of, cropped, interleave
from problem_lines import DTYPES
from sweep_sides import NATIVE, OUTPUTS, TorchPasses

TOLERANCE = {"f32": 1e-4, "f64": 1e-10}  # of an output, relative to its largest entry
_CHECK_LIMIT = 60.0  # seconds of a crop, which is small
_COLUMNS = 1 << 30  # bytes of the columns into which native unfolds a group of a crop in float64


def _columns(problem):
    layer = problem.convolution
    return 8 * layer.n * prod(layer.w_shape[1:]) * prod(layer.y_shape[2:])


def crop(problem):
    """A problem of the same kind, small enough to be computed by native in float64: the largest extents shrink until
    _COLUMNS holds the columns, but no extent below what a window needs inside of its padding."""
    small = cropped(problem)
    axes = ("d", "h", "w")
    windows = [l * (k - 1) + 1 for l, k in zip(problem.dilation, problem.kernel)]
    least = {axis: max(window - 2 * p, p + 1) for axis, window, p in zip(axes, windows, problem.padding)}
    while _columns(small) > _COLUMNS:
        axis = max(axes, key=lambda axis: getattr(small, axis) - least[axis])
        if getattr(small, axis) <= least[axis]:
            break
        small = replace(small, **{axis: getattr(small, axis) - 1})
    return small


def reference(problem):
    """{'y': ..., 'gx': ..., 'gw': ..., 'gb': ...} of native in float64, on the values that the sides have, a group at a
    time: native unfolds all of them at once."""
    conv, x, gy = (part.double() for part in problem.tensors("native"))
    groups = problem.groups
    one = TorchPasses(
        replace(problem, groups=1, cin=problem.cin // groups, cout=problem.cout // groups, dtype="f64"),
        "native", "native", "cpu",
    )  # fmt: skip
    parts = []
    for weight, bias, one_x, one_gy in zip(
        conv.weight.chunk(groups), conv.bias.chunk(groups), x.chunk(groups, 1), gy.chunk(groups, 1)
    ):
        one.conv.weight.data, one.conv.bias.data = weight.detach(), bias.detach()
        one.x, one.gy = one_x.detach().requires_grad_(), one_gy
        parts.append(one.outputs("native"))
    axes = {"y": 1, "gx": 1, "gw": 0, "gb": 0}
    return {name: numpy.concatenate([part[name] for part in parts], axis) for name, axis in axes.items()}


def largest_error(got, want):
    """Of outputs by name, each relative to the largest entry of its own. NaN where one has a NaN."""
    errors = [float(abs(got[name] - want[name]).max() / abs(want[name]).max()) for name in OUTPUTS if name in got]
    return max(errors) if all(error == error for error in errors) else float("nan")


def _check(side, small, want, backend):
    """Marks every pass of the side as failed where its outputs are wrong or do not come. The error, or None."""
    try:
        side.child.build(small)
        error = largest_error(side.child.call("outputs", backend, timeout=_CHECK_LIMIT), want)
    except Crash as crash:
        side.fail(f"check: {crash}")
        return None
    if not error <= TOLERANCE[small.dtype]:
        side.fail(f"wrong: expected an error of at most {TOLERANCE[small.dtype]:.0e}, got {error:.1e}")
    return error


def _begin(sides, problem, auto_backend):
    """Checks the sides on a crop, by the backend of the full size, then builds the problem itself. {kind: error}."""
    small = crop(problem)
    want = reference(small)
    errors = {}
    for kind, side in sides.items():
        backends = {"c": "c", "auto": auto_backend}
        side.failed = {}
        errors[kind] = _check(side, small, want, backends.get(kind, "native"))
        if not side.failed:
            side.build(problem)
    return errors


def _best(results, kinds):
    """(seconds, kind) of the fastest that was measured, or None."""
    return min(((results[kind]["min_s"], kind) for kind in kinds if "min_s" in results.get(kind, {})), default=None)


def compare(row, limit):
    """Adds what the results of a row say of one another: `best_native`; `ratio`, its time over that of the C core, or
    `ratio_at_least` where every native was given up at `limit` seconds; `auto_ratio`, the time of the faster of the
    C core and of native in the layout that auto is given, over that of auto; `rule_ratio`, the same over the time of
    the one that auto took, so that a wrong choice is told from a noisy measurement."""
    results = row["sides"]
    ours, native = results.get("c", {}).get("min_s"), _best(results, NATIVE)
    if native:
        row["best_native"] = native[1]
    if ours and native:
        row["ratio"] = native[0] / ours
    elif ours:
        failed = [results[kind]["crash"] for kind in NATIVE if kind in results]
        if failed and all(why.startswith("timeout") for why in failed):
            row["ratio_at_least"] = limit / ours
    alike = "native_last" if "xndhwc" in row["problem"].split() else "native"
    auto, better = results.get("auto", {}).get("min_s"), _best(results, ("c", alike))
    if auto and better:
        row["auto_ratio"] = better[0] / auto
    took = results.get("c" if row["auto_backend"] == "c" else alike, {}).get("min_s")
    if auto and took:
        row["rule_ratio"] = better[0] / took


def share_of_peak(row, machine):
    """Sets each side's `of_fma`: its GF/s over the FMA peak, half of that for float64."""
    peak = machine["fma_gflops"] / (2 if row["dtype"] == "f64" else 1)
    for result in row["sides"].values():
        if "gflops" in result:
            result["of_fma"] = result["gflops"] / peak


def _row(problem, name, results, auto_backend, machine):
    row = {
        "problem": problem.name,
        "note": problem.note,
        "dtype": problem.dtype,
        "pass": name,
        "flops": problem.flops(name),
        "bytes": problem.bytes(name),
        "auto_backend": auto_backend,
        "sides": results,
    }
    for result in results.values():
        if "min_s" in result:
            result["gflops"] = row["flops"] / result["min_s"] / 1e9
    share_of_peak(row, machine)
    if "c" in results:
        row |= problem.plans(name, machine["threads"])
    return row


def _timed(sides, name, options):
    """{kind: result} of one pass."""
    for side in sides.values():
        side.begin(name)
    interleave(list(sides.values()), options.repeats)
    return {kind: side.result() for kind, side in sides.items()}


def measure(sides, problems, options, machine, progress):
    """The rows of all problems, yielded as they come. Where the rule of ours says the C core, its times are those of
    auto: it is the same code."""
    for count, problem in enumerate(problems, 1):
        at = f"[{count}/{len(problems)}] {problem.name}"
        progress(f"{at}: check")
        rule = backend_of(problem.convolution, "auto", "cpu", DTYPES[problem.dtype])
        here = {kind: side for kind, side in sides.items() if side.refuses(problem) is None}
        same = rule == "c" and "c" in here and here.pop("auto", None) is not None
        errors = _begin(here, problem, rule)
        for name in options.passes:
            progress(f"{at}: {name}")
            results = _timed({kind: side for kind, side in here.items() if side.computes(name)}, name, options)
            if same:
                results["auto"] = dict(results["c"])
            row = _row(problem, name, results, rule, machine)
            compare(row, options.native_timeout / len(options.passes))
            yield {**row, "checked_errors": errors}
