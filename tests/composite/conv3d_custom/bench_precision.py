# SPDX-License-Identifier: Apache-2.0
"""Precision mode: f32 at full size against float64 at sampled positions.

A float32 sum of m terms, u = 2^-24 the unit roundoff, errs by at most about m u sum|terms|. No running sum of the C
core exceeds 1024 terms, longer ones are added in blocks: there m = min(terms, 1024). Where ours takes torch's
operators instead, which promise no such thing, m = terms, and the row says what ran. Each sample must satisfy

    |error| <= (m + 4) u sum|terms|

which is rigorous and slack. Rounding errors are random in sign: over random data the partial sums grow as sqrt(j), and
the expected norm-wise error is u sqrt(m) / sqrt(6), whatever the number of blocks. Over all samples of a tensor

    ||error|| / ||reference|| <= u (sqrt(m) + 4)

leaves a factor of two and a half, and roundings of the final value. A tensor passes if both hold.

An NPU that rounds both factors of a product to HF32, each by a relative v = 2^-12, adds 2 v sum|terms| to the first
and, its errors being as random, 2 v to the second: three times what is expected. Bias gradients are plain sums and get
neither."""

import math
import random

import bench_reference as reference
import torch
from bench_device import factor_rounding
from bench_passes import layer
from bench_perf import backend_of

from oil_gas_ops_prospect.conv3d_custom import conv3d_backend

_U = 2.0**-24
_BLOCK = 1024
SAMPLES = 300  # of y and of gx
TAPS = 24  # of gw: each is a sum over the whole volume


def _positions(shape, count, chance):
    """Random positions; a third of their coordinates lie within a few of a border, where the padding is."""

    def coordinate(extent):
        if chance.random() < 1 / 3:
            return chance.choice((0, extent - 1)) if extent < 8 else chance.choice((0, 1, 2, 3, -3, -2, -1)) % extent
        return chance.randrange(extent)

    return [[coordinate(extent) for extent in shape] for _ in range(count)]


def _longest_sum(terms, backend):
    return min(terms, _BLOCK) if backend == "c" else terms


def _judge(pattern, tensor, got, sums, m, v=0.0):
    """The row of one tensor. sums: (value, mass) of each sample; m: terms of the longest running sum; v: rounding of
    each factor."""
    values, masses = (torch.tensor(column, dtype=torch.float64) for column in zip(*sums))
    error = (torch.tensor(got, dtype=torch.float64) - values).abs()
    row = {
        "pattern": pattern.name,
        "tensor": tensor,
        "samples": len(sums),
        "max_error": float(error.max()),
        "of_bound": float((error / (((m + 4) * _U + 2 * v) * masses)).nan_to_num(nan=0.0, posinf=math.inf).max()),
        "norm_error": float(error.norm() / values.norm()),
        "norm_tolerance": _U * (math.sqrt(m) + 4) + 2 * v,
    }
    passed = row["of_bound"] <= 1 and row["norm_error"] <= row["norm_tolerance"]
    return {**row, "verdict": "PASS" if passed else "FAIL"}


def _tensors(pattern, options):
    torch.manual_seed(2)
    conv = layer(pattern, "ours").to(options.device)
    x = torch.randn(pattern.x_shape)
    gy = torch.randn(pattern.y_shape)
    with conv3d_backend(options.backend):
        leaf = x.to(options.device).detach().requires_grad_()
        y = conv(leaf)
        gx, gw, gb = torch.autograd.grad(y, [leaf, conv.weight, conv.bias], gy.to(options.device))
    w, b = conv.weight.detach().cpu(), conv.bias.detach().cpu()
    return x, w, b, gy, y.detach().cpu(), gx.cpu(), gw.cpu(), gb.cpu()


def measure(patterns, options, progress):
    """Rows of y, gx, gw and gb of every pattern, yielded as they come."""
    for pattern in patterns:
        progress(f"{pattern.name}: passes")
        x, w, b, gy, y, gx, gw, gb = _tensors(pattern, options)
        backend = backend_of(pattern, options.backend, options.device)
        chance = random.Random(pattern.name)
        volume = math.prod((pattern.n, *pattern.y_shape[2:]))
        taps = math.prod(pattern.kernel)
        progress(f"{pattern.name}: float64 reference of samples")
        of_y = _positions(pattern.y_shape, SAMPLES, chance)
        of_gx = _positions(pattern.x_shape, SAMPLES, chance)
        of_gw = _positions(pattern.w_shape, TAPS, chance)
        plan = (
            ("y", y, of_y, lambda at: reference.y_at(pattern, x, w, b, at), taps * pattern.w_shape[1] + 1),
            ("gx", gx, of_gx, lambda at: reference.gx_at(pattern, gy, w, at), taps * pattern.cout // pattern.groups),
            ("gw", gw, of_gw, lambda at: reference.gw_at(pattern, x, gy, at), volume),
            ("gb", gb, [[co] for co in range(pattern.cout)], lambda at: reference.gb_at(pattern, gy, at[0]), volume),
        )
        for name, tensor, positions, sums, terms in plan:
            got = [float(tensor[tuple(at)]) for at in positions]
            v = 0.0 if name == "gb" else factor_rounding(options.device)
            row = _judge(pattern, name, got, [sums(at) for at in positions], _longest_sum(terms, backend), v)
            yield {**row, "backend": backend}


_FORMAT = "{:<20} {:<6} {:<9} {:>7} {:>10} {:>9} {:>10} {:>10}  {}"


def columns():
    names = ("pattern", "tensor", "ran on", "samples", "max error", "of bound", "norm-wise", "tolerance", "")
    return _FORMAT.format(*names)


def line(row):
    return _FORMAT.format(
        row["pattern"], row["tensor"], row["backend"], row["samples"], f"{row['max_error']:.2e}",
        f"{row['of_bound']:.1e}", f"{row['norm_error']:.2e}", f"{row['norm_tolerance']:.2e}", row["verdict"],
    )  # fmt: skip


def summary(rows):
    """PASS or FAIL of every pattern: all four tensors."""
    lines = [""]
    for pattern in dict.fromkeys(row["pattern"] for row in rows):
        verdicts = [row["verdict"] for row in rows if row["pattern"] == pattern]
        lines.append(f"{pattern:<20} {'FAIL' if 'FAIL' in verdicts else 'PASS'}")
    return "\n".join(lines)
