# SPDX-License-Identifier: Apache-2.0
"""Results as a text table, JSON, CSV and a bar chart."""

import csv
import json

_COLUMNS = ("pattern", "pass", "ours ms", "(median)", "native ms", "speedup", "GF/s", "of FMA", "of copy", "scratch",
            "peak ours", "peak native")  # fmt: skip
_FORMAT = "{:<20} {:<16} {:>9} {:>10} {:>10} {:>9} {:>7} {:>7} {:>8} {:>9} {:>9} {:>11}"


def header(machine):
    """Two lines that say where and how the figures came about."""
    fma = "FMA peak not measured"
    if machine["fma_gflops"]:
        peak, one = machine["fma_gflops"], machine["fma_gflops_1"]
        fma = f"{machine['fma_source']} {peak:.0f} GF/s f32 on all threads, {one:.0f} on one"
    hf32 = "" if machine["hf32"] is None else f", HF32 {'on' if machine['hf32'] else 'off'}"
    return (
        f"{machine['cpu']} | {machine['isa']} | {machine['threads']} threads ({machine['threads_runtime']}) | "
        f"device {machine['device']}{hf32} | torch {machine['torch']} | "
        f"libogp {machine['library']} ({machine['compiler'] or 'compiler unknown'}) | {machine['date']}\n"
        f"{fma} | copy, read plus written, {machine['copy_gbytes']:.1f} GB/s on all threads, "
        f"{machine['copy_gbytes_1']:.1f} on one | peak: memory above the tensors"
    )


def _ms(seconds):
    return "-" if seconds is None else f"{seconds * 1e3:.2f}"


def _mib(count):
    return "-" if count is None else f"{count / 2**20:.1f}M"


def _percent(share):
    return "-" if share is None else f"{share * 100:.0f}%"


def _speedup(row):
    if "speedup" in row:
        return f"{row['speedup']:.2f}x"
    return f">{row['speedup_at_least']:.0f}x" if "speedup_at_least" in row else "-"


def columns():
    return _FORMAT.format(*_COLUMNS)


def line(row):
    """One pass of one pattern as a line of the table. A side that failed says why at its end."""
    ours, native = row["ours"], row.get("native", {})
    gflops = f"{row['gflops']:.0f}" if "gflops" in row else "-"
    median = f"({_ms(ours['median_s'])})" if "median_s" in ours else "-"
    text = _FORMAT.format(
        row["pattern"], row["pass"], _ms(ours.get("min_s")), median, _ms(native.get("min_s")), _speedup(row), gflops,
        _percent(row.get("of_fma")), _percent(row.get("of_copy")), _mib(row.get("scratch_bytes")),
        _mib(ours.get("peak_bytes")), _mib(native.get("peak_bytes")),
    )  # fmt: skip
    if "warm_s" in row:
        text += f"  warm {_ms(row['warm_s'])} ms ({row['gflops'] / row['warm_of_fresh']:.0f} GF/s)"
    if row.get("chunks"):
        text += f"  {row['sent_direct']} of {row['chunks']} chunks direct"
    if row.get("backend") == "native":
        text += "  ours takes native here"
    for side, result in (("ours", ours), ("native", native)):
        if "crash" in result:
            text += f"  {side}CRASH ({result['crash']})"
    return text


def _small(side, result):
    if "crash" in result:
        return f"{side}CRASH ({result['crash']})"
    return f"{side} {result['min_s'] * 1e6:.1f} ({result['median_s'] * 1e6:.1f})"


def extras(rows, after):
    """Lines on small calls and on the call after a torch operator."""
    lines = ["", "one call on (1,1,4,4,4), kernel 3, in us (median):"]
    for row in rows:
        parts = [_small(side, row[side]) for side in ("ours", "native") if side in row]
        ratio = f": {row['ratio']:.2f} x native's time" if "ratio" in row else ""
        lines.append(f"  {row['pass']:<16} {', '.join(parts)}{ratio}")
    lines.append(
        f"right after a torch operator ({after['pattern']}): x.mul(1.0) {_ms(after['operator'])} ms, forward alone "
        f"{_ms(after['forward'])} ms, forward after x.mul(1.0) {_ms(after['after_operator'])} ms together = "
        f"{after['ratio']:.2f} x their sum"
    )
    return "\n".join(lines)


def scaling_line(row, threads):
    text = (
        f"{row['pattern']:<20} {row['pass']:<16} 1 thread {_ms(row['one_s'])} ms, {threads} threads "
        f"{_ms(row['all_s'])} ms: gain {row['gain']:.3f}"
    )
    return f"{text}, {row['fma_source']} {row['fma_gain']:.3f}, ratio {row['ratio']:.3f}"


def write_json(path, result):
    with open(path, "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


def _flat(row, prefix=""):
    for key, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}_")
        else:
            yield prefix + key, value


def write_csv(path, rows, machine):
    """The header as comment lines, then one line per row; nested results become columns side_name."""
    flat = [dict(_flat(row)) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    with open(path, "w", newline="") as file:
        file.writelines(f"# {text}\n" for text in header(machine).splitlines())
        writer = csv.DictWriter(file, names, restval="")
        writer.writeheader()
        writer.writerows(flat)


def plot(path, rows, machine):
    """Bar chart (PNG) of speedups over native, logarithmic; a hatched bar is a lower bound where native failed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    patterns = list(dict.fromkeys(row["pattern"] for row in rows))
    passes = list(dict.fromkeys(row["pass"] for row in rows))
    figure, axes = pyplot.subplots(figsize=(12, 5), layout="constrained")
    width = 0.8 / len(passes)
    for j, name in enumerate(passes):
        for row in (row for row in rows if row["pass"] == name):
            bound = "speedup" not in row
            height = row.get("speedup", row.get("speedup_at_least"))
            if height is not None:
                at = patterns.index(row["pattern"]) + (j - (len(passes) - 1) / 2) * width
                axes.bar(at, height - 1, width, bottom=1, color=f"C{j}", hatch="///" if bound else None)
        axes.bar(0, 0, 0, bottom=1, color=f"C{j}", label=name)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_xticks(range(len(patterns)), patterns, rotation=30, ha="right")
    axes.set_ylabel("speedup over native")
    axes.set_title(f"{machine['cpu']}, {machine['isa']}, {machine['threads']} threads, torch {machine['torch']}")
    axes.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
