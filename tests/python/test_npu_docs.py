# SPDX-License-Identifier: Apache-2.0
"""The table of refusals in docs/npu.md and its twin, cell by cell, by the stand-in's formula and by the package's."""

import re
from pathlib import Path

import fake_npu
import pytest

from oil_gas_ops_prospect.conv3d_custom import npu
from oil_gas_ops_prospect.conv3d_custom.problem import problem_of

DOCS = Path(__file__).resolve().parents[2] / "docs"
FEW, MORE = (96, 128, 168, 224, 296, 400), (168, 296, 400)
FLOAT16 = 2


def passes(k, width, channels):
    x, w = (1, channels, 99, 99, width), (channels, 1, k, k, k)
    try:
        fake_npu.guard_grad_input(x, w, x, FLOAT16, (1, 1, 1), (1, 1, 1), channels)
    except fake_npu.Refused:
        return False
    return True


def largest(k, channels):
    return max((width for width in range(17, 4097) if passes(k, width, channels)), default=0)


def row(k, words):
    few, more = ([words[passes(k, width, c)] for width in widths] for widths, c in ((FEW, 16), (MORE, 17)))
    return [str(k), *few, str(largest(k, 16)), *more, str(largest(k, 17))]


@pytest.mark.parametrize("page, words", [
    ("npu.md", {True: "passes", False: "**refused**"}),
    ("zh/npu.md", {True: "通过", False: "**拒绝**"}),
])  # fmt: skip
def test_the_table(page, words):
    text = (DOCS / page).read_text(encoding="utf-8")
    rows = [re.split(r" *\| *", line.strip("| \n")) for line in re.findall(r"^\| \d+ \|.*$", text, re.M)]
    assert [int(cells[0]) for cells in rows] == [3, 5, 6, 7, 8, 9, 11, 13, 15, 21, 31]
    for cells in rows:
        assert cells == row(int(cells[0]), words)


def native_passes(k, width, channels):
    shapes = (1, channels, 99, 99, width), (channels, 1, k, k, k)
    problem = problem_of(1, "same", 1, channels, "zeros", None, *shapes, None, False, False)
    return not {v.operator: v for v in npu.native_verdicts(problem, FLOAT16)}["grad input"].why


@pytest.mark.parametrize("k", [3, 6, 7, 9, 13, 31])
def test_the_package_agrees_with_the_stand_in(k):
    for channels in (1, 8, 16, 17, 64):
        for width in (17, 53, 54, 75, 76, 167, 168, 213, 214, 278, 279, 296, 400, 976, 977, 1948, 1949, 3999):
            assert native_passes(k, width, channels) == passes(k, width, channels), (k, width, channels)


def test_the_twins_name_the_same_things():
    """Code, numbers and switches are those of the other language."""
    pages = [(DOCS / page).read_text(encoding="utf-8") for page in ("npu.md", "zh/npu.md")]
    switches = [set(re.findall(r"OGP_\w+|--\w+|aclnn\w+|\b50701\d\b|\b561002\b|\b524288\b", page)) for page in pages]
    assert switches[0] == switches[1] and len(switches[0]) > 8
    assert len({page.count("\n## ") for page in pages}) == len({page.count("\n| ") for page in pages}) == 1
