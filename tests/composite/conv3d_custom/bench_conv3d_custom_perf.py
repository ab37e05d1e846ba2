# SPDX-License-Identifier: Apache-2.0
"""Benchmark of conv3d_custom against native: speed (default) or precision, on the eleven call patterns.

  python3 bench_conv3d_custom_perf.py                              all passes of all patterns, full size
  python3 bench_conv3d_custom_perf.py --pattern train04 --scale 0.25
  python3 bench_conv3d_custom_perf.py --scaling --pattern train04,train05
  python3 bench_conv3d_custom_perf.py --precision elementwise --pattern train04,train05
  python3 bench_conv3d_custom_perf.py --data seismic --warm --pattern train05
  python3 bench_conv3d_custom_perf.py --mode precision
  python3 bench_conv3d_custom_perf.py --device npu --no-hf32       the default device where torch_npu finds one
"""

import argparse
import importlib.util
import signal
import sys
from dataclasses import replace

import bench_device
import bench_extras
import bench_machine
import bench_perf
import bench_precision
import bench_report
import bench_training
import torch
from bench_options import Progress, check_file, half_of_memory, listed, positive
from bench_passes import PASSES
from bench_volumes import VOLUMES
from patterns import PATTERNS

from oil_gas_ops_prospect.conv3d_custom import npu_available
from oil_gas_ops_prospect.conv3d_custom.problem import PRECISIONS


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--mode", choices=("perf", "precision"), default="perf")
    add("--scaling", action="store_true", help="perf: 1 thread and all threads, beside the pure FMA loop")
    add("--pattern", metavar="NAME[,NAME]", help="only these; the beginning of a name is enough")
    add("--passes", metavar="PASS[,PASS]", default=",".join(PASSES), help="perf: only these of %(default)s")
    add("--scale", type=positive(float), default=1.0, help="shrinks depth and height by this factor")
    add("--threads", type=positive(int), default=torch.get_num_threads())
    add("--repeats", type=positive(int), default=7, help="at most; slow passes are run less often")
    add("--device", default="npu" if npu_available() else "cpu")
    add("--no-hf32", dest="hf32", action="store_false", help="NPU: no rounding of float32 convolutions to HF32")
    add("--backend", choices=("auto", "c", "composite"), default="auto", help="what ours runs on")
    add("--precision", choices=PRECISIONS, default="auto", help="of ours; elementwise: its direct kernels alone")
    add("--data", choices=VOLUMES, default="noise", help="perf: what fills the tensors")
    add("--warm", action="store_true", help="perf: also time the C core into outputs that are there already")
    add("--no-native", dest="native", action="store_false", help="ours alone")
    add("--native-timeout", type=positive(float), default=240.0, metavar="SECONDS", help="of one native call")
    add("--native-memory", type=positive(float), default=half_of_memory(), metavar="GIB", help="that native may take")
    add("--json", metavar="FILE")
    add("--csv", metavar="FILE")
    add("--plot", metavar="FILE", help="perf: PNG bar chart; needs matplotlib")
    options = parser.parse_args(arguments)
    patterns = _chosen(parser, options.pattern, options.scale)
    options.patterns = [replace(pattern, precision=options.precision) for pattern in patterns]
    options.passes = listed(parser, "passes", options.passes, PASSES)
    _check_files(parser, options)
    return options


def _check_files(parser, options):
    for name in ("json", "csv", "plot"):
        check_file(parser, name, getattr(options, name))
    if options.plot and (options.mode != "perf" or options.scaling):
        parser.error("--plot: expected perf mode without --scaling, which alone has speedups to draw")
    if options.plot and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plot: expected matplotlib to be installed (pip install matplotlib)")


def _chosen(parser, names, scale):
    if names is None:
        chosen = PATTERNS
    else:
        for name in names.split(","):
            if not any(pattern.name.startswith(name) for pattern in PATTERNS):
                parser.error(f"--pattern: expected one of {', '.join(p.name for p in PATTERNS)}, got {name!r}")
        chosen = [pattern for pattern in PATTERNS if pattern.name.startswith(tuple(names.split(",")))]
    return [pattern.scaled(scale) for pattern in chosen]


def _perf(options, result, fma, progress):
    progress.show(bench_report.columns())
    with bench_perf.both(options) as sides:
        for row in bench_perf.measure(sides, options.patterns, options, result["machine"], progress):
            result["rows"].append(row)
            progress.show(bench_report.line(row))
        progress("small calls")
        result["small_calls"] = bench_extras.small_calls(sides, options)
        result["after_operator"] = bench_extras.after_operator(sides["ours"], options)
    progress.show(bench_report.extras(result["small_calls"], result["after_operator"]))


def _scaling(options, result, fma, progress):
    options.native = False
    with bench_perf.both(options) as sides:
        for row in bench_extras.scaling(sides["ours"], options.patterns, options, fma, progress):
            result["rows"].append(row)
            progress.show(bench_report.scaling_line(row, options.threads))


def _precision(options, result, fma, progress):
    progress.show(bench_precision.columns())
    for row in bench_precision.measure(options.patterns, options, progress):
        result["rows"].append(row)
        progress.show(bench_precision.line(row))
    progress.show(bench_precision.summary(result["rows"]))
    progress("training")
    result["training"] = bench_training.train(options)
    progress.show(bench_training.text(result["training"]))


def _write(options, result):
    if options.json:
        bench_report.write_json(options.json, result)
    if options.csv:
        bench_report.write_csv(options.csv, result["rows"], result["machine"])
    if options.plot and result["rows"]:
        bench_report.plot(options.plot, result["rows"], result["machine"])


def main(arguments=None):
    """Exit status: 1 where precision fails or ours crashes. The files hold what there is when a run is ended early."""
    options = _options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    torch.set_num_threads(options.threads)
    if not options.hf32:
        bench_device.forbid_hf32(options.device)
    progress = Progress()
    progress("FMA peak and copy bandwidth")
    fma = bench_machine.FmaPeak(bench_machine.isa_in_use())
    machine = bench_machine.describe(options.threads, options.device, fma)
    progress.show(bench_report.header(machine))
    run = _precision if options.mode == "precision" else _scaling if options.scaling else _perf
    result = {"mode": options.mode, "scale": options.scale, "machine": machine, "rows": []}
    try:
        run(options, result, fma, progress)
    finally:
        _write(options, result)
    judged = [*result["rows"], result.get("training", {})]
    return int(any(row.get("verdict") == "FAIL" or "crash" in row.get("ours", {}) for row in judged))


if __name__ == "__main__":
    sys.exit(main())
