# SPDX-License-Identifier: Apache-2.0
"""Two sweeps side by side: the minimum of each pass before and after, the slowest change first.

  python3 bench/compare.py BEFORE.json AFTER.json
  python3 bench/compare.py BEFORE.json AFTER.json --side auto --threshold 0.05 --fail-below 0.9

ratio: the time before over the time after, so that above 1 is faster. A line below 1 - threshold is marked. Exit
status: 1 with --fail-below where a ratio is below it, or where a pass that ran before now fails; 2 for files that
cannot be compared."""

import argparse
import json
import math
import sys

_FACTS = ("cpu", "isa", "threads", "torch")


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", metavar="BEFORE.json")
    parser.add_argument("after", metavar="AFTER.json")
    parser.add_argument("--side", default="c", help="which side of the sweeps (default: %(default)s)")
    parser.add_argument("--threshold", type=float, default=0.03, help="of a marked change (default: %(default)s)")
    parser.add_argument("--fail-below", type=float, metavar="R", help="exit status 1 where a ratio is below")
    return parser.parse_args(arguments)


def load(path):
    """A sweep's result. SystemExit 2 with a message for a file that holds none."""
    try:
        with open(path) as file:
            result = json.load(file)
        result["rows"], result["machine"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{path}: expected the JSON of a sweep, got {type(error).__name__}: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    return result


def times(result, side):
    """{(problem, dtype, pass): seconds} of a side; infinity where it failed."""
    return {
        (row["problem"], row["dtype"], row["pass"]): row["sides"][side].get("min_s", math.inf)
        for row in result["rows"]
        if side in row["sides"]
    }


def ratios(before, after):
    """[(ratio, key, seconds before, seconds after)], the slowest change first, of what ran before and was tried after.
    0 where it now fails."""
    both = [(before[key] / after[key], key, before[key], after[key]) for key in before if key in after]
    return sorted(change for change in both if math.isfinite(change[2]))


def geometric_mean(values):
    """Of positive numbers; NaN of none."""
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def _differences(before, after):
    """Lines on what else differs between the runs."""
    for fact in _FACTS:
        a, b = before["machine"].get(fact), after["machine"].get(fact)
        if a != b:
            yield f"note: {fact} differs: {a} before, {b} after"
    peaks = [result["machine"].get("fma_gflops") for result in (before, after)]
    if all(peaks):
        yield f"FMA peak {peaks[0]:.0f} GF/s before, {peaks[1]:.0f} after"


def _line(change, threshold):
    ratio, (problem, dtype, name), before, after = change
    now = f"{after * 1e3:>11.3f}" if math.isfinite(after) else f"{'FAIL':>11}"
    mark = "slower" if ratio < 1 - threshold else "faster" if ratio > 1 + threshold else ""
    return f"{ratio:>7.3f} {before * 1e3:>11.3f} {now} {mark:<7} {dtype} {name:<17}{problem}"


def _table(changes, threshold):
    yield f"{'ratio':>7} {'before ms':>11} {'after ms':>11}"
    yield from (_line(change, threshold) for change in changes)


def _passes(changes):
    """The geometric mean of each pass, and of all."""
    for name in dict.fromkeys(key[2] for _, key, _, _ in changes):
        mean = geometric_mean(ratio for ratio, key, _, _ in changes if key[2] == name and ratio > 0)
        yield f"geometric mean {name:<17}{mean:.3f}"
    yield f"geometric mean {'all':<17}{geometric_mean(ratio for ratio, *_ in changes if ratio > 0):.3f}"


def main(arguments=None):
    options = _options(arguments)
    before, after = load(options.before), load(options.after)
    old, new = times(before, options.side), times(after, options.side)
    changes = ratios(old, new)
    if not changes:
        print(f"no pass of side {options.side!r} is in both files", file=sys.stderr)
        return 2
    print(*_differences(before, after), *_table(changes, options.threshold), *_passes(changes), sep="\n")
    slower = sum(ratio < 1 - options.threshold for ratio, *_ in changes)
    print(f"{len(changes)} compared, {slower} slower by more than {options.threshold * 100:.0f} %")
    alone = len(old.keys() ^ new.keys())
    if alone:
        print(f"{alone} in one file alone")
    limit = options.fail_below
    return int(limit is not None and changes[0][0] < limit)


if __name__ == "__main__":
    sys.exit(main())
