# SPDX-License-Identifier: Apache-2.0
"""A sweep as a table, as CSV, and as a summary."""

import shared  # noqa: F401, isort: skip

import bench_report

GOAL_AUTO = 0.95  # of the time of the faster of C core and native over that of auto
_WORST = 10
_WIDTH = 12


def columns(kinds):
    """The head of the table; times in ms, each the minimum."""
    cells = "".join(f"{kind:>{_WIDTH}}" for kind in kinds)
    return f"  {'pass':<17}{cells}{'(c median)':>12}{'c GF/s':>9}{'of FMA':>8}{'ratio':>9}{'auto':>7}"


def heading(row):
    note = f"  # {row['note']}" if row["note"] else ""
    return f"{row['problem']}{' f64' if row['dtype'] == 'f64' else ''}{note}  (auto: {row['auto_backend']})"


def _ms(result):
    if "crash" in result:
        return "timeout" if result["crash"].startswith("timeout") else "FAIL"
    return f"{result['min_s'] * 1e3:.2f}" if "min_s" in result else "-"


def ratio(row):
    """Native over the C core, as text."""
    if "ratio" in row:
        return f"{row['ratio']:.2f}x"
    return f">{row['ratio_at_least']:.1f}x" if "ratio_at_least" in row else "-"


def line(row, kinds):
    """A pass of a problem as a line. A side that failed, but for one that was given up, says why at its end."""
    results = row["sides"]
    core = results.get("c", {})
    text = f"  {row['pass']:<17}" + "".join(f"{_ms(results.get(kind, {})):>{_WIDTH}}" for kind in kinds)
    median = f"({core['median_s'] * 1e3:.2f})" if "min_s" in core else "-"
    gflops = f"{core['gflops']:.0f}" if "min_s" in core else "-"
    share = f"{core['of_fma'] * 100:.0f}%" if "min_s" in core else "-"
    auto = f"{row['auto_ratio']:.2f}" if "auto_ratio" in row else "-"
    text += f"{median:>12}{gflops:>9}{share:>8}{ratio(row):>9}{auto:>7}"
    for kind, result in results.items():
        if not result.get("crash", "timeout").startswith("timeout"):
            text += f"  {kind}: {result['crash']}"
    return text


def _lower_bound(row):
    return row.get("ratio", row.get("ratio_at_least"))


def _share(rows):
    judged = [row for row in rows if _lower_bound(row) is not None]
    good = sum(_lower_bound(row) >= 1 for row in judged)
    return f"{good} of {len(judged)} ({good / len(judged) * 100:.0f}%)" if judged else "none judged"


def _named(row):
    return f"{row['pass']:<17}{row['problem']}{' f64' if row['dtype'] == 'f64' else ''}"


def _core_lines(rows):
    yield "C core forced, at least as fast as the better of the native layouts:"
    for name in dict.fromkeys(row["pass"] for row in rows):
        yield f"  {name:<17}{_share([row for row in rows if row['pass'] == name])}"
    yield f"  {'all':<17}{_share(rows)}"
    failed = [row for row in rows if _lower_bound(row) is None and "min_s" in row["sides"].get("c", {})]
    if failed and any("native" in row["sides"] or "native_last" in row["sides"] for row in failed):
        yield f"  native failed: {len(failed)}"
    slow = sorted((row for row in rows if row.get("ratio", 1) < 1), key=lambda row: row["ratio"])
    if slow:
        yield f"slowest against native ({min(len(slow), _WORST)} of {len(slow)} below 1.0):"
        yield from (f"  {row['ratio']:.2f}x  {_named(row)}" for row in slow[:_WORST])


def _taken(row):
    itself = f", itself at {row['rule_ratio']:.2f}" if "rule_ratio" in row else ""
    return f"{row['auto_backend']}{itself}"


def _auto_lines(rows):
    judged = sorted((row for row in rows if "auto_ratio" in row), key=lambda row: row["auto_ratio"])
    if not judged:
        return
    below = [row for row in judged if row["auto_ratio"] < GOAL_AUTO]
    worst = judged[0]
    yield f"auto against the faster of C core and native: worst {worst['auto_ratio']:.2f} ({_named(worst).strip()})"
    yield f"  below {GOAL_AUTO}: {len(below)} of {len(judged)}"
    yield from (f"  {row['auto_ratio']:.2f}  {_named(row)}, took {_taken(row)}" for row in below[:_WORST])


def summary(rows):
    return "\n".join(["", *_core_lines(rows), *_auto_lines(rows)])


def write_csv(path, rows, machine):
    """One line per row; columns side_name. Of the errors and of the plans, JSON alone has all."""
    flat = [{key: value for key, value in row.items() if key != "sides"} | row["sides"] for row in rows]
    bench_report.write_csv(path, flat, machine)
