# SPDX-License-Identifier: Apache-2.0
"""Perf mode: every pass of every pattern, ours and native in turn, each in a process of its own."""

import contextlib
import functools
import statistics
from dataclasses import replace

import torch
from bench_child import Child, Crash
from bench_device import factor_rounding
from bench_passes import PASSES, Passes, layer

from oil_gas_ops_prospect import _core
from oil_gas_ops_prospect.conv3d_custom import conv3d_backend
from oil_gas_ops_prospect.conv3d_custom.device import module_backend
from oil_gas_ops_prospect.conv3d_custom.problem import PADDING_MODES, PRECISIONS

_PARTS = {"forward_backward": ("forward", "grad_input", "grad_weight")}
_NEEDS = {**_PARTS, "grad_input": ("forward",), "grad_weight": ("forward",)}
BUDGET = 4.0  # seconds that repeats of one pass may take on one side, beyond the second
LONG = 10.0  # seconds of a call that is not worth a second


class Side:
    """One side of a pattern: its process, its times of the pass at hand, and what stopped it."""

    def __init__(self, child, timeout=None):
        self.child, self.timeout, self.failed = child, timeout, {}

    def build(self, pattern):
        self.failed = {}
        try:
            self.child.build(pattern)
        except Crash as crash:
            self.failed = dict.fromkeys(PASSES, str(crash))

    def begin(self, name):
        self.name, self.seconds, self.peak = name, [], 0
        for part in _NEEDS.get(name, ()):
            if self.failed.get(part) == "timeout":
                self.failed.setdefault(name, f"timeout already in {part}")

    def wants_more(self, repeats):
        spent, done = sum(self.seconds), len(self.seconds)
        if self.name in self.failed or done >= repeats:
            return False
        return done == 0 or (done == 1 and spent < LONG) or spent + spent / done < BUDGET

    def step(self, calls=1):
        try:
            seconds, peak = self.child.run(self.name, calls, self.timeout)
            self.seconds.append(seconds)
            self.peak = max(self.peak, peak)
        except Crash as crash:
            self.failed[self.name] = str(crash)

    def result(self):
        if self.name in self.failed:
            return {"crash": self.failed[self.name]}
        return {
            "min_s": min(self.seconds),
            "median_s": statistics.median(self.seconds),
            "repeats": len(self.seconds),
            "peak_bytes": self.peak,
        }


def interleave(sides, repeats, calls=1):
    """Steps the sides in turn until none wants more."""
    while True:
        eager = [side for side in sides if side.wants_more(repeats)]
        if not eager:
            return
        for side in eager:
            side.step(calls)


def backend_of(pattern, backend, device, dtype=torch.float32):
    """What ours runs on at this size where `backend` is asked for: the rule goes by shapes too."""
    with conv3d_backend(backend):
        return module_backend(torch.device(device).type, dtype, pattern.x_shape, pattern.w_shape, pattern.stride)


def cropped(pattern):
    """A pattern of the same kind, small enough to be computed by native whatever it does."""

    def least(axis, extent):
        window = pattern.dilation[axis] * (pattern.kernel[axis] - 1) + 1
        return min(extent, window + 4 * pattern.stride[axis] + 3)

    return replace(pattern, d=least(0, pattern.d), h=least(1, pattern.h), w=min(pattern.w, least(2, pattern.w) + 16))


def verify(pattern, backend, device):
    """The largest error of ours against native in float64 on a crop, of y, gx, gw and gb, each relative to the largest
    entry. RuntimeError above 1e-4, or with HF32 above 8 roundings of a factor: random errors of a sum's products stay
    below two roundings of its norm. backend: that of the full size, which the crop alone might not get."""
    tolerance = max(1e-4, 8 * factor_rounding(device))
    small = cropped(pattern)
    torch.manual_seed(1)
    ours = layer(small, "ours").to(device)
    native = layer(small, "native").double()
    native.load_state_dict({name: value.cpu() for name, value in ours.state_dict().items()})
    x, gy = torch.randn(small.x_shape), torch.randn(small.y_shape)
    with conv3d_backend(backend):
        got = _all_passes(ours, x.to(device), gy.to(device))
    want = _all_passes(native, x.double(), gy.double())
    worst = max(float((g.cpu() - w).abs().max() / w.abs().max()) for g, w in zip(got, want))
    if not worst <= tolerance:
        text = f"expected ours to agree with native within {tolerance:.0e}, got {worst:.1e}"
        raise RuntimeError(f"{pattern.name}: {text}")
    return worst


def _all_passes(conv, x, gy):
    x.requires_grad_()
    y = conv(x)
    return [y.detach(), *torch.autograd.grad(y, [x, conv.weight, conv.bias], gy)]


# ---- what a pass costs, counted ----


def flops(pattern, name):
    """Of the direct computation: two for each multiply-add."""
    n, co, *out = pattern.y_shape
    terms = pattern.w_shape[1]
    for extent in (*out, *pattern.kernel):
        terms *= extent
    return 2 * n * co * terms * len(_PARTS.get(name, (name,)))


def tensor_bytes(pattern, name, itemsize=4):
    """Each of the pass's three tensors once."""
    sizes = [torch.Size(shape).numel() for shape in (pattern.x_shape, pattern.w_shape, pattern.y_shape)]
    return itemsize * sum(sizes) * len(_PARTS.get(name, (name,)))


def plans(pattern, name, threads, dtype=0):
    """What the C core does: the most workspace of the pass's parts, and their plans as they describe themselves.
    dtype: 0 for f32, 1 for f64."""
    codes = (PADDING_MODES.index(pattern.padding_mode), PRECISIONS.index(pattern.precision))
    geometry = (pattern.stride, pattern.padding, pattern.padding, pattern.dilation, pattern.groups, *codes)
    problem = (geometry, dtype, pattern.x_shape, pattern.w_shape)
    parts = _PARTS.get(name, (name,))
    return {
        "scratch_bytes": max(_core.workspace_bytes(*problem, part, threads) for part in parts),
        "plan": "; ".join(_core.describe(*problem, part) for part in parts),
    }


def _side(kind, options):
    native = kind == "native"
    limit = int(options.native_memory * 2**30) if native and options.device == "cpu" else 0
    make = functools.partial(Passes, data=options.data)
    aloud = {} if options.data == "noise" else {"OGP_VERBOSE": "1"}
    child = Child(
        kind, options.threads, options.backend, options.device, limit, options.hf32, make, environment=aloud
    )
    return Side(child, options.native_timeout if native else None)


@contextlib.contextmanager
def both(options):
    """{'ours': Side, 'native': Side}, or ours alone where native is not wanted. Ends their processes."""
    kinds = ("ours", "native") if options.native else ("ours",)
    sides = {kind: _side(kind, options) for kind in kinds}
    try:
        yield sides
    finally:
        for side in sides.values():
            side.child.stop()


def _row(pattern, name, sides, machine, backend):
    row = {"pattern": pattern.name, "pass": name, "backend": backend}
    row |= {side: sides[side].result() for side in sides}
    ours, native = row["ours"], row.get("native", {})
    if "min_s" in ours:
        seconds = ours["min_s"]
        row["gflops"] = flops(pattern, name) / seconds / 1e9
        row["gbytes"] = tensor_bytes(pattern, name) / seconds / 1e9
        row["of_copy"] = row["gbytes"] / machine["copy_gbytes"]
        if machine["fma_gflops"]:
            row["of_fma"] = row["gflops"] / machine["fma_gflops"]
        if backend == "c":
            row |= plans(pattern, name, machine["threads"])
        if "min_s" in native:
            row["speedup"] = native["min_s"] / seconds
        elif native.get("crash", "").startswith("timeout"):
            row["speedup_at_least"] = sides["native"].timeout / seconds
    return row


def _on_the_core(row, child, options):
    """What else there is to know of a pass on the C core, as options ask."""
    known = {}
    if "crash" in row["ours"]:
        return known
    if options.warm:
        known["warm_s"] = child.call("warm", row["pass"], options.repeats)
        known["warm_of_fresh"] = known["warm_s"] / row["ours"]["min_s"]
    if options.data != "noise":
        known["sent_direct"], known["chunks"] = child.call("sent_direct", row["pass"])
    return known


def measure(sides, patterns, options, machine, progress):
    """The rows of all patterns, yielded as they come. A pattern that ours does not compute right is not timed."""
    for pattern in patterns:
        progress(f"{pattern.name}: verify")
        try:
            backend = backend_of(pattern, options.backend, options.device)
            checked = verify(pattern, backend, options.device)
        except RuntimeError as error:
            yield {"pattern": pattern.name, "pass": "verify", "ours": {"crash": str(error)}}
            continue
        for side in sides.values():
            side.build(pattern)
        for name in options.passes:
            progress(f"{pattern.name}: {name}")
            for side in sides.values():
                side.begin(name)
            interleave(list(sides.values()), options.repeats)
            row = {**_row(pattern, name, sides, machine, backend), "checked_error": checked}
            yield row | (_on_the_core(row, sides["ours"].child, options) if backend == "c" else {})
