# SPDX-License-Identifier: Apache-2.0
"""The roofline of a sweep: python3 bench/roofline.py RESULT.json OUT.png

GF/s, counted as direct work, against operations per byte of a pass's tensors read or written once. The roof is the
FMA peak and the copy bandwidth of the same run, for float64 half of that peak; transforms may pass through it, since
they do less than the direct work. One marker for each pass; ours is the C core, native the faster of its layouts."""

import sys

from compare import load

_MARKERS = {"forward": "o", "grad_input": "s", "grad_weight": "^", "forward_backward": "D"}
_COLOURS = {"ours": "C0", "native": "C1"}


def points(row):
    """{'ours': (operations per byte, GF/s), 'native': ...} of what was measured."""
    results = row["sides"]
    took = {"ours": results.get("c", {}), "native": results.get(row.get("best_native"), {})}
    intensity = row["flops"] / row["bytes"]
    return {who: (intensity, result["gflops"]) for who, result in took.items() if "gflops" in result}


def _roof(axes, machine, span, halves):
    """halves: for each roof, whether it is the one of float64, of half the lanes."""
    copy = machine["copy_gbytes"]
    for half in halves:
        peak = machine["fma_gflops"] / (2 if half else 1)
        at = sorted({*span, min(max(peak / copy, span[0]), span[1])})
        axes.plot(at, [min(peak, copy * x) for x in at], color="black", linewidth=1)
        axes.annotate(f"FMA peak {peak:.0f} GF/s{' f64' if half else ''}", (span[1], peak), ha="right", va="bottom")
    axes.annotate(f"copy {copy:.1f} GB/s", (span[0], copy * span[0]), rotation=30, va="bottom")


def _legend(axes, seen):
    for name in seen:
        axes.plot([], [], _MARKERS[name], color="grey", label=name)
    for who, colour in _COLOURS.items():
        axes.plot([], [], "o", color=colour, label=who)
    axes.legend(loc="lower right")


def draw(result, path):
    """Writes the plot. ValueError where nothing of ours or native was measured."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawn = [(row["pass"], who, at) for row in result["rows"] for who, at in points(row).items()]
    if not drawn:
        raise ValueError("expected rows with times of c, native or native_last, got none")
    figure, axes = pyplot.subplots(figsize=(10, 7), layout="constrained")
    for name, who, at in drawn:
        axes.plot(*at, _MARKERS[name], color=_COLOURS[who], alpha=0.7)
    intensities = [x for _, _, (x, _) in drawn]
    halves = {row["dtype"] == "f64" for row in result["rows"]}
    _roof(axes, result["machine"], (min(intensities) / 1.5, max(intensities) * 1.5), halves)
    _legend(axes, dict.fromkeys(name for name, _, _ in drawn))
    axes.set(xscale="log", yscale="log")
    axes.set(xlabel="operations per byte of tensors touched once", ylabel="GF/s, direct work")
    machine = result["machine"]
    axes.set_title(f"{machine['cpu']}, {machine['isa']}, {machine['threads']} threads, torch {machine['torch']}")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main(arguments=None):
    """Exit status: 2 for a wrong command line or a file that holds no sweep."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        draw(load(arguments[0]), arguments[1])
    except ImportError:
        print("roofline: expected matplotlib to be installed (pip install matplotlib)", file=sys.stderr)
        return 2
    except (ValueError, OSError) as error:
        print(f"roofline: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
