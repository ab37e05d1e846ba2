# SPDX-License-Identifier: Apache-2.0
"""A training step (forward, loss, backward) of MONAI's MedNeXt and SegResNet: native against the same network with its
convolutions replaced by ours, on the C core and by our rule, interleaved in one run.

  python3 bench/end_to_end.py                                     all networks, 16 filters, 64 a side
  python3 bench/end_to_end.py --networks mednext_k5 --side 32 --threads 1

Needs MONAI: pip install monai"""

import shared  # noqa: F401, isort: skip

import argparse
import copy
import importlib.util
import statistics
import sys
import time

import bench_report
import torch
from bench_options import Progress, check_file, listed, positive
from swap import swap

from oil_gas_ops_prospect.conv3d_custom import conv3d_backend

TOLERANCE = 1e-3  # of a loss, and of the norm of all gradients, relative
_BACKENDS = {"native": "native", "c": "c", "auto": "auto"}


def _mednext(kernel, filters):
    from monai.networks.nets import MedNeXt

    return MedNeXt(spatial_dims=3, init_filters=filters, in_channels=1, out_channels=2, kernel_size=kernel)


def _segresnet(filters):
    from monai.networks.nets import SegResNet

    return SegResNet(spatial_dims=3, init_filters=filters, in_channels=1, out_channels=2, upsample_mode="deconv")


NETWORKS = {
    "mednext_k3": lambda filters: _mednext(3, filters),
    "mednext_k5": lambda filters: _mednext(5, filters),
    "mednext_k7": lambda filters: _mednext(7, filters),
    "segresnet": _segresnet,
}


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--networks", metavar="NAME[,NAME]", default=",".join(NETWORKS), help="some of %(default)s")
    add("--filters", type=positive(int), default=16)
    add("--side", type=positive(int), default=64, help="of the volume; a multiple of 16")
    add("--threads", type=positive(int), default=torch.get_num_threads())
    add("--repeats", type=positive(int), default=3, help="steps of each that are timed")
    add("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    options.networks = listed(parser, "networks", options.networks, NETWORKS)
    check_file(parser, "json", options.json)
    if options.side % 16:
        parser.error(f"--side: expected a multiple of 16, which the networks halve four times, got {options.side}")
    return options


class Step:
    """A training step of one network by one backend, without the update: every step is of the same weights."""

    def __init__(self, network, backend, x, target):
        self._network, self._backend, self._x, self._target = network, backend, x, target
        self.seconds = []

    def run(self):
        """(loss, norm of all gradients); the time goes to `seconds`."""
        self._network.zero_grad()
        with conv3d_backend(self._backend):
            start = time.perf_counter()
            loss = torch.nn.functional.cross_entropy(self._network(self._x), self._target)
            loss.backward()
            self.seconds.append(time.perf_counter() - start)
        gradients = [parameter.grad.norm() for parameter in self._network.parameters() if parameter.grad is not None]
        return loss.item(), torch.stack(gradients).norm().item()


def _steps(name, options):
    """{'native': Step, 'c': Step, 'auto': Step} of equal weights and data, and the number of convolutions replaced."""
    torch.manual_seed(0)
    native = NETWORKS[name](options.filters)
    ours = copy.deepcopy(native)
    replaced = swap(ours)
    x = torch.randn(1, 1, *(options.side,) * 3)
    target = torch.randint(0, 2, (1, *(options.side,) * 3))
    networks = {"native": native, "c": ours, "auto": ours}
    return {side: Step(networks[side], _BACKENDS[side], x, target) for side in _BACKENDS}, replaced


def _difference(values, native):
    return max(abs(a - b) / max(abs(b), 1e-30) for a, b in zip(values, native))


def measure(name, options, progress):
    """A row: times of each side, the largest relative difference of loss and gradient norm from native, the verdict."""
    steps, replaced = _steps(name, options)
    values = {}
    for turn in range(options.repeats + 1):
        for side, step in steps.items():
            progress(f"{name}: {side}, step {turn} of {options.repeats}")
            values[side] = step.run()
    row = {"network": name, "replaced": replaced, "loss": {side: loss for side, (loss, _) in values.items()}}
    for side, step in steps.items():
        kept = step.seconds[1:]  # the first starts what starts once
        row[side] = {"min_s": min(kept), "median_s": statistics.median(kept)}
    for side in ("c", "auto"):
        row[side]["speedup"] = row["native"]["min_s"] / row[side]["min_s"]
    row["difference"] = max(_difference(values[side], values["native"]) for side in ("c", "auto"))
    row["verdict"] = "PASS" if row["difference"] <= TOLERANCE else "FAIL"
    return row


def line(row):
    cells = [f"{row['network']:<12}{row['replaced']:>3} convolutions"]
    for side in _BACKENDS:
        cells.append(f"{side} {row[side]['min_s']:.3f} s ({row[side]['median_s']:.3f})")
        if "speedup" in row[side]:
            cells[-1] += f" {row[side]['speedup']:.2f}x"
    cells += [f"loss {row['loss']['native']:.6f}", f"differs {row['difference']:.1e}: {row['verdict']}"]
    return "  ".join(cells)


def main(arguments=None):
    """Exit status: 1 where a loss or the gradients differ, 2 without MONAI."""
    options = _options(arguments)
    if importlib.util.find_spec("monai") is None:
        print("end_to_end: expected MONAI to be installed (pip install monai)", file=sys.stderr)
        return 2
    torch.set_num_threads(options.threads)
    progress = Progress()
    result = {"threads": options.threads, "side": options.side, "filters": options.filters, "rows": []}
    sizes = f"{options.threads} threads, {options.filters} filters, {options.side} a side"
    progress.show(f"one step, {sizes}, minimum (median)")
    try:
        for name in options.networks:
            result["rows"].append(measure(name, options, progress))
            progress.show(line(result["rows"][-1]))
    finally:
        if options.json:
            bench_report.write_json(options.json, result)
    return int(any(row["verdict"] == "FAIL" for row in result["rows"]))


if __name__ == "__main__":
    sys.exit(main())
