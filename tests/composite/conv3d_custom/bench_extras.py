# SPDX-License-Identifier: Apache-2.0
"""The smaller questions: a call on few voxels, a call right after a torch operator, and what more threads gain."""

from bench_passes import PASSES
from bench_perf import Side, interleave
from patterns import Pattern

_ONES = (1, 1, 1)
SMALL = Pattern("small_k3_4x4x4", 1, 1, (3, 3, 3), _ONES, _ONES, _ONES, 1, "zeros", 1, 4, 4, 4)


def small_calls(options):
    """Rows of one call on (1,1,4,4,4), kernel 3: seconds of ours and native."""
    sides = {"ours": Side("ours", options)}
    if options.native:
        sides["native"] = Side("native", options, options.native_timeout)
    rows = []
    try:
        for side in sides.values():
            side.build(SMALL, options.threads)
        for name in ("forward", "forward_backward"):
            for side in sides.values():
                side.begin(name)
                side.step(200)
                side.seconds.clear()
            interleave(list(sides.values()), 5, calls=500)
            rows.append({"pass": name, **{key: side.result() for key, side in sides.items()}})
    finally:
        for side in sides.values():
            side.child.stop()
    return rows


def after_operator(pattern, options):
    """Seconds of x.mul(1.0), of the convolution, and of the one right after the other: a sum unless thread pools fight
    over the cores."""
    child = Side("ours", options).child
    names = ("operator", "forward", "after_operator")
    best = dict.fromkeys(names, float("inf"))
    try:
        child.build(pattern, options.threads)
        for _ in range(options.repeats + 1):
            for name in names:
                best[name] = min(best[name], child.run(name)[0])
    finally:
        child.stop()
    return {"pattern": pattern.name, **best, "ratio": best["after_operator"] / (best["operator"] + best["forward"])}


def scaling(patterns, options, fma, progress):
    """Rows: what all threads gain over one, for ours and for the pure FMA loop, taken in turn."""
    side = Side("ours", options)
    counts = (1, options.threads)
    try:
        for pattern in patterns:
            side.build(pattern, options.threads)
            for name in PASSES:
                progress(f"{pattern.name}: {name} on 1 and {options.threads} threads")
                seconds, peaks = {c: [] for c in counts}, {c: [] for c in counts}
                for _ in range(options.repeats):
                    for count in counts:
                        side.child.threads(count)
                        seconds[count].append(side.child.run(name)[0])
                        if fma.available:
                            peaks[count].append(fma.gflops(count))
                one, all_threads = (min(seconds[count]) for count in counts)
                row = {"pattern": pattern.name, "pass": name, "one_s": one, "all_s": all_threads}
                row["gain"] = one / all_threads
                if fma.available:
                    row["fma_gain"] = max(peaks[counts[1]]) / max(peaks[1])
                    row["ratio"] = row["gain"] / row["fma_gain"]
                yield row
    finally:
        side.child.stop()
