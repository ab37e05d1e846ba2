# SPDX-License-Identifier: Apache-2.0
"""The smaller questions: a call on few voxels, a call right after a torch operator, and what more threads gain."""

from bench_perf import interleave
from patterns import PATTERNS, SMALL

# Short enough for a pool that still spins to be felt.
AFTER = next(pattern for pattern in PATTERNS if pattern.name == "train04_dw_k7_g7").scaled(0.25)


def small_calls(sides, options):
    """Rows of one call on (1,1,4,4,4), kernel 3: seconds of ours and native. Many short batches: a long one is hardly
    ever left alone by a busy machine, and then measures how the side's threads wait for each other."""
    rows = []
    for side in sides.values():
        side.build(SMALL)
    for name in ("forward", "forward_backward"):
        for side in sides.values():
            side.begin(name)
            side.step(calls=100)
            side.seconds.clear()
        interleave(list(sides.values()), 20 * options.repeats, calls=50)
        row = {"pass": name, **{kind: side.result() for kind, side in sides.items()}}
        if all("min_s" in row.get(kind, {}) for kind in ("ours", "native")):
            row["ratio"] = row["ours"]["min_s"] / row["native"]["min_s"]
        rows.append(row)
    return rows


def after_operator(side, options):
    """Seconds of x.mul(1.0), of the convolution, and of the one right after the other: a sum unless thread pools fight
    over the cores."""
    pattern = AFTER.scaled(options.scale)
    names = ("operator", "forward", "after_operator")
    best = dict.fromkeys(names, float("inf"))
    side.build(pattern)
    for _ in range(2 * options.repeats):
        for name in names:
            best[name] = min(best[name], side.child.run(name)[0])
    return {"pattern": pattern.name, **best, "ratio": best["after_operator"] / (best["operator"] + best["forward"])}


def scaling(side, patterns, options, fma, progress):
    """Rows: what all threads gain over one, for ours and for the pure FMA loop, taken in turn."""
    for pattern in patterns:
        side.build(pattern)
        for name in options.passes:
            progress(f"{pattern.name}: {name} on 1 and {options.threads} threads")
            yield {"pattern": pattern.name, "pass": name, **_gains(side.child, name, options, fma)}


def _gains(child, name, options, fma):
    few, many = 1, options.threads
    seconds, peaks = {few: [], many: []}, {few: [], many: []}
    for _ in range(options.repeats):
        for count in (few, many):
            child.threads(count)
            seconds[count].append(child.run(name)[0])
            peaks[count].append(fma.gflops(count))
    one, all_threads = min(seconds[few]), min(seconds[many])
    gain, fma_gain = one / all_threads, max(peaks[many]) / max(peaks[few])
    gains = {"one_s": one, "all_s": all_threads, "gain": gain}
    return {**gains, "fma_source": fma.source, "fma_gain": fma_gain, "ratio": gain / fma_gain}
