# SPDX-License-Identifier: Apache-2.0
"""The sides of the sweep, each in a process of its own: ours on the C core, ours by its rule, torch in two layouts, and
the forwards of other libraries."""

import shared  # noqa: F401, isort: skip

import contextlib
import statistics

import rivals
import torch
from bench_child import Child
from bench_passes import PASSES, Passes, timed
from bench_perf import Side
from problem_lines import parse

from oil_gas_ops_prospect.conv3d_custom import conv3d_backend

OURS = ("c", "auto")
NATIVE = ("native", "native_last")
KINDS = (*OURS, *NATIVE, *rivals.FORWARDS)
OUTPUTS = ("y", "gx", "gw", "gb")
_BATCH = 0.02  # seconds that the calls of one step take together, at least: a clock is read twice for them
_ALL_LAST = ("x", "w", "y")


def _laid_out(tensor, name, last):
    return tensor.to(memory_format=torch.channels_last_3d) if name in last else tensor


class TorchPasses(Passes):
    """The passes of a Problem by modules: of ours (kind 'c' or 'auto') or of torch, whose x, w and gy are NCDHW
    ('native') or channels_last_3d ('native_last')."""

    def __init__(self, problem, kind, backend, device):
        conv, x, gy = problem.tensors("ours" if kind in OURS else "native")
        last = problem.last if kind in OURS else _ALL_LAST if kind == "native_last" else ()
        conv.weight.data = _laid_out(conv.weight.data, "w", last)
        self.conv, self.backend, self.device = conv, backend, device
        self.x, self.gy = _laid_out(x, "x", last).requires_grad_(), _laid_out(gy, "y", last)
        self.y = None

    def outputs(self, backend):
        """{'y': ..., 'gx': ..., 'gw': ..., 'gb': ...} as arrays, computed where `backend` says."""
        with conv3d_backend(backend):
            y, *gradients = self._forward_backward()
        return {name: t.detach().contiguous().numpy() for name, t in zip(OUTPUTS, (y, *gradients))}


class ForwardOnly:
    """The forward of another library, as Passes has it."""

    names = ("forward",)

    def __init__(self, problem, kind):
        conv, x, _ = problem.tensors("native")
        self._call = rivals.FORWARDS[kind].prepare(problem, conv, x, torch.get_num_threads())

    def prepare(self, name):
        pass

    def run(self, name, calls=1):
        return timed(self._call, calls, "cpu")

    def outputs(self, backend):
        return {"y": self._call().copy()}


def make(problem, kind, backend, device):
    """What runs in the process of a side."""
    return ForwardOnly(problem, kind) if kind in rivals.FORWARDS else TorchPasses(problem, kind, backend, device)


class SweepSide(Side):
    """Times steps of as many calls as make _BATCH, for `budget` seconds of a pass, and leaves out the first step where
    others followed. limit: seconds, or None, that a pass may take before it is given up; a call is, and a pass whose
    calls have been."""

    def __init__(self, kind, options, limit):
        native = kind in NATIVE
        super().__init__(
            Child(
                kind, options.threads, "c" if kind == "c" else "auto", make=make, small=parse("i4 k3 p1"),
                memory_limit=int(options.native_memory * 2**30) if native else 0,
            ),
            limit,
        )  # fmt: skip
        self.kind, self.budget = kind, options.budget

    def refuses(self, problem):
        """None, or why this side does not compute a problem."""
        return rivals.FORWARDS[self.kind].refuses(problem) if self.kind in rivals.FORWARDS else None

    def computes(self, name):
        return self.kind not in rivals.FORWARDS or name in ForwardOnly.names

    def fail(self, why):
        """Of every pass of the problem at hand."""
        self.failed = dict.fromkeys(PASSES, why)

    def begin(self, name):
        super().begin(name)
        self.calls, self.spent = 1, 0.0

    def wants_more(self, repeats):
        done = len(self.seconds)
        if self.name in self.failed or done > repeats:
            return False
        if done < 2:
            return done == 0 or self.spent < 2 * self.budget
        return self.spent + self.seconds[-1] * self.calls < self.budget

    def step(self, calls=1):
        super().step(self.calls)
        if self.name not in self.failed:
            self.spent += self.seconds[-1] * self.calls
            self.calls = max(1, round(_BATCH / self.seconds[-1]))

    def result(self):
        if self.name in self.failed:
            return {"crash": self.failed[self.name]}
        kept = self.seconds[1:] or self.seconds
        return {
            "min_s": min(kept),
            "median_s": statistics.median(kept),
            "repeats": len(kept),
            "calls": self.calls,
            "peak_bytes": self.peak,
        }


def missing(kind):
    """None, or what to install before a side can run."""
    return rivals.FORWARDS[kind].missing() if kind in rivals.FORWARDS else None


@contextlib.contextmanager
def started(kinds, options):
    """{kind: SweepSide}. Ends their processes."""
    limit = options.native_timeout / len(options.passes)
    sides = {kind: SweepSide(kind, options, limit if kind not in OURS else None) for kind in kinds}
    try:
        yield sides
    finally:
        for side in sides.values():
            side.child.stop()
