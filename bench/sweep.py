# SPDX-License-Identifier: Apache-2.0
"""Sweep over layers of 3-D networks: ours on the C core, ours by its rule, and rivals, interleaved in one run.

  python3 bench/sweep.py                                    the layers of bench/problems/quick.txt
  python3 bench/sweep.py bench/problems/*.txt --json all.json
  python3 bench/sweep.py mine.txt --threads 1 --passes forward --sides c,native

A FILE has one problem a line in the text form of ogp/conv3d.h; what follows a # is a note. Its pass is not looked at,
its dtype comes before --dtype. xndhwc, wndhwc and yndhwc are the layouts of ours. A line that begins with `transposed`
is a transposed layer, its words those of the layer itself: ci and i of its input, co of its output, q = p - output
padding:

  g32 ci32 co32 i64 k5 p2                  # depthwise
  transposed ci64 co32 i32 k2 s2           # (1, 64, 32, 32, 32) to (1, 32, 64, 64, 64)
  transposed ci8 co8 g8 i16 k3 s2 p1 q0    # output padding 1

Sides: c (ours, C core forced), auto (ours by its rule; where that is the C core, the times of c), native and
native_last (torch on NCDHW and on channels_last_3d), openvino and onnxruntime (forward, where installed). GF/s count
the direct computation. ratio: the time of the faster native over that of c. auto: the time of the faster of c and of
native in the layout that ours is given, over that of auto."""

import shared  # noqa: F401, isort: skip

import argparse
import signal
import sys
from pathlib import Path

import bench_machine
import bench_report
import problem_lines
import sweep_measure
import sweep_report
import sweep_sides
import torch
from bench_options import Progress, check_file, half_of_memory, listed, positive
from bench_passes import PASSES

_QUICK = Path(__file__).with_name("problems") / "quick.txt"


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", default=[_QUICK], help="problems (default: those of quick.txt)")
    add("--dtype", choices=problem_lines.DTYPES, default="f32")
    add("--passes", metavar="PASS[,PASS]", default=",".join(PASSES), help="some of %(default)s")
    add("--sides", metavar="SIDE[,SIDE]", default=",".join(sweep_sides.KINDS), help="some of %(default)s")
    add("--threads", type=positive(int), default=torch.get_num_threads())
    add("--repeats", type=positive(int), default=7, help="at most; slow passes are run less often")
    add("--budget", type=positive(float), default=1.0, metavar="SECONDS", help="of one pass of a problem on one side")
    add("--native-timeout", type=positive(float), default=80.0, metavar="SECONDS",
        help="that a native side may take for one problem; each pass has an equal part, and a call that takes longer "
        "is given up")  # fmt: skip
    add("--native-memory", type=positive(float), default=half_of_memory(), metavar="GIB", help="that native may take")
    add("--json", metavar="FILE")
    add("--csv", metavar="FILE")
    options = parser.parse_args(arguments)
    options.passes = listed(parser, "passes", options.passes, PASSES)
    options.sides = listed(parser, "sides", options.sides, sweep_sides.KINDS)
    for name in ("json", "csv"):
        check_file(parser, name, getattr(options, name))
    try:
        options.problems = problem_lines.read(options.files, options.dtype)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    return options


def _present(kinds, progress):
    """Those sides that can run here; a line for each of the others."""
    wants = {kind: sweep_sides.missing(kind) for kind in kinds}
    for kind, want in wants.items():
        if want:
            progress.show(f"{kind}: skipped, not installed ({want})")
    return [kind for kind, want in wants.items() if not want]


def _raise_roof(machine, fma):
    """Measures the FMA peak and the copy bandwidth again: another program may have been in the way before."""
    threads = machine["threads"]
    machine["fma_gflops"] = max(machine["fma_gflops"], fma.best(threads))
    machine["copy_gbytes"] = max(machine["copy_gbytes"], bench_machine.copy_bandwidth(threads))


def _sweep(options, result, progress):
    rows, kinds = result["rows"], result["sides"]
    progress.show(sweep_report.columns(kinds))
    with sweep_sides.started(kinds, options) as sides:
        problem = None
        for row in sweep_measure.measure(sides, options.problems, options, result["machine"], progress):
            rows.append(row)
            if (row["problem"], row["dtype"]) != problem:
                problem = row["problem"], row["dtype"]
                progress.show(sweep_report.heading(row))
            progress.show(sweep_report.line(row, kinds))


def _write(options, result):
    if options.json:
        bench_report.write_json(options.json, result)
    if options.csv:
        sweep_report.write_csv(options.csv, result["rows"], result["machine"])


def main(arguments=None):
    """Exit status: 1 where ours fails or is wrong. The files hold what there is when a run is ended early."""
    options = _options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    torch.set_num_threads(options.threads)
    progress = Progress()
    progress("FMA peak and copy bandwidth")
    fma = bench_machine.FmaPeak(bench_machine.isa_in_use())
    machine = bench_machine.describe(options.threads, "cpu", fma)
    progress.show(bench_report.header(machine))
    result = {"machine": machine, "sides": _present(options.sides, progress), "rows": []}
    try:
        _sweep(options, result, progress)
        _raise_roof(machine, fma)
        for row in result["rows"]:
            sweep_measure.share_of_peak(row, machine)
    finally:
        _write(options, result)
    progress.show(sweep_report.summary(result["rows"]))
    peak, copy = machine["fma_gflops"], machine["copy_gbytes"]
    progress.show(f"FMA peak {peak:.0f} GF/s, copy {copy:.1f} GB/s, at their highest")
    return int(any("crash" in row["sides"].get(kind, {}) for row in result["rows"] for kind in sweep_sides.OURS))


if __name__ == "__main__":
    sys.exit(main())
