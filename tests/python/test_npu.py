# SPDX-License-Identifier: Apache-2.0
"""The limits of an NPU: loads at the boundary cases, and plans that keep to them. Integers alone."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oil_gas_ops_prospect.conv3d_custom import npu, steps
from oil_gas_ops_prospect.conv3d_custom.problem import problem_of

L1 = 524_288
HALF, FLOAT = 2, 4


def problem(k, width, channels=7, groups=None, stride=1, padding="same", dilation=1, size=(20, 24), n=1, mode="zeros"):
    k = k if isinstance(k, tuple) else (k,) * 3
    g = channels if groups is None else groups
    shapes = (n, channels, *size, width), (channels, channels // g, *k)
    return problem_of(stride, padding, dilation, g, mode, None, *shapes, None, False, False)


def verdicts(problem, itemsize):
    return {v.operator: v for v in npu.native_verdicts(problem, itemsize)}


# kernel, last axis, channels, groups, dilation, bytes of an element -> bytes that the grad input loads, refused
BOUNDARY = [
    (6, 296, 7, 7, 1, HALF, 7 * 296 * 6 * 32 + 36 * 512 + 512, False),
    (7, 296, 7, 7, 1, HALF, 556_032, True),
    (7, 296, 7, 7, 1, FLOAT, 555_520, True),
    (8, 168, 7, 7, 1, HALF, 9 * 168 * 8 * 32 + 64 * 512 + 512, False),
    (9, 168, 7, 7, 1, HALF, 525_824, True),
    (9, 168, 7, 7, 1, FLOAT, 525_312, True),
    (7, 168, 7, 7, 1, HALF, 8 * 168 * 7 * 32 + 49 * 512 + 512, False),
    (7, 168, 7, 7, 2, HALF, 14 * 168 * 7 * 32 + 49 * 512 + 512, True),
    (7, 296, 16, 16, 1, HALF, 556_032, True),
    (7, 296, 17, 17, 1, HALF, 8 * 296 * 32 + 49 * 512 + 512, False),
    (7, 296, 8, 8, 1, FLOAT, 555_520, True),
    (7, 296, 9, 9, 1, FLOAT, 8 * 296 * 32 + 49 * 512, False),
    (7, 296, 7, 1, 1, FLOAT, 555_520, True),  # dense: float32 is checked, half is not
    (7, 296, 7, 1, 1, HALF, 556_032, False),
    (1, 4096, 7, 7, 1, HALF, 2 * 4096 * 32 + 512 + 512, False),
    (1, 4097, 7, 7, 1, HALF, 2 * 4097 * 32 + 512 + 512, True),  # the last axis itself
]


@pytest.mark.parametrize("k, width, channels, groups, dilation, itemsize, load, refused", BOUNDARY)
def test_grad_input_at_the_boundary(k, width, channels, groups, dilation, itemsize, load, refused):
    p = problem(k, width, channels, groups, dilation=dilation)
    verdict = verdicts(p, itemsize)["grad input"]
    assert (verdict.load, bool(verdict.why)) == (load, refused)
    assert npu.native_refusal(p, itemsize) is None or refused
    if refused and width <= 4096:
        assert f"{load} bytes against {L1} of L1" in npu.native_refusal(p, itemsize)


def test_depth_and_height_change_nothing():
    loads = {verdicts(problem(7, 296, size=size), HALF)["grad input"].load for size in [(8, 9), (20, 24), (296, 296)]}
    assert loads == {556_032}


def test_stride_and_few_rows():
    p = problem(7, 168, padding=3, stride=2)
    assert verdicts(p, FLOAT)["grad input"].load == 8 * (84 * 2) * (3 + 1) * 32 + 49 * 512
    flat = problem((7, 7, 7), 168, padding=(3, 0, 3), size=(20, 8))
    assert verdicts(flat, FLOAT)["grad input"].load == 2 * 168 * 7 * 32 + 49 * 512
    assert verdicts(problem((7, 1, 1), 168, size=(3, 9)), FLOAT)["grad input"].load == 2 * 168 * 3 * 32 + 512


def test_a_padding_mode_widens_what_the_operator_sees():
    p = problem(7, 296, padding=3, mode="reflect")
    assert verdicts(p, HALF)["forward"].load == 8 * 302 * 32
    assert verdicts(p, HALF)["grad input"].load == 556_032


@pytest.mark.parametrize("k, width, itemsize, refused", [
    (7, 2044, HALF, []),
    (7, 2045, HALF, ["grad weight"]),  # a KiB more than forward
    (7, 2048, HALF, ["grad weight"]),
    (7, 2049, HALF, ["forward", "grad weight"]),
    (7, 1022, FLOAT, []),
    (7, 1023, FLOAT, ["grad weight"]),
    (31, 255, FLOAT, []),
    (31, 256, FLOAT, ["grad weight"]),
    ((1, 64, 64), 70, HALF, ["forward"]),  # 64 x 64 x 16 weights
    ((1, 63, 65), 70, HALF, []),
    ((1, 1, 256), 300, HALF, ["grad weight"]),
    ((1, 1, 512), 600, HALF, ["forward", "grad weight"]),
])  # fmt: skip
def test_forward_and_grad_weight(k, width, itemsize, refused):
    p = problem(k, width, channels=32, padding=0, size=(40, 80))
    assert [name for name, v in verdicts(p, itemsize).items() if v.why and name != "grad input"] == refused


@pytest.mark.parametrize("why, arguments", [
    ("stride 64 beyond 63", dict(stride=64)),
    ("dilation 256 beyond 255", dict(k=2, dilation=(1, 1, 256), width=300)),
    ("padding 256 beyond 255", dict(padding=(256, 0, 0))),
])  # fmt: skip
def test_numbers_beyond_the_operators(why, arguments):
    p = problem(**{"k": 1, "width": 70, "padding": 0, **arguments})
    for operator in ("forward", "grad weight"):
        assert verdicts(p, HALF)[operator].why == (why,)


# ---- plans ----


def forward(*args, itemsize=FLOAT, **kwargs):
    return steps.forward_of(problem(*args, **kwargs), itemsize)


def test_ordinary_layers_take_one_step_by_the_operators():
    for k, width in [(3, 296), (5, 168), (7, 296), (9, 168), (9, 296)]:
        for itemsize in (HALF, FLOAT):
            p = problem(k, width)
            of_x, of_gy = steps.forward_of(p, itemsize), steps.grad_input_of(p, itemsize)
            for conv in (of_x, of_gy):
                plan = steps.correlate(conv, npu.A2, steps.Budget())
                assert (plan.form, plan.count) == ("convolution", 1) and plan.load <= L1 // 2
            plan = steps.reduce(of_x, npu.A2, steps.Budget())
            assert plan.form == "operator" and plan.count == plan.width and plan.load <= L1 // 2


@pytest.mark.parametrize("form, conv", [
    ("operator", forward(7, 500)),
    ("operator", forward(31, 296, size=(40, 40))),
    ("banded", forward((1, 101, 101), 296, size=(9, 110))),
    ("banded", forward((1, 1, 256), 300, padding=0)),
    ("taps", forward((1, 101, 101), 296, channels=18, groups=2, size=(9, 110))),
    ("banded", forward((1, 101, 101), 296, channels=16, groups=2, size=(9, 110))),
    ("banded", forward(2, 300, dilation=(1, 256, 1), padding=0, size=(5, 300))),
])  # fmt: skip
def test_the_form_of_grad_weight(form, conv):
    assert steps.reduce(conv, npu.A2, steps.Budget()).form == form


@pytest.mark.parametrize("form, conv", [
    ("convolution", forward(31, 296, size=(40, 40))),
    ("convolution", forward((1, 63, 65), 296, itemsize=HALF, size=(9, 110))),
    ("taps", forward((1, 64, 64), 296, itemsize=HALF, size=(9, 110))),
    ("taps", forward(1, 300, stride=64, padding=0)),
    ("taps", forward(2, 300, dilation=256, padding=256, size=(9, 9))),
])  # fmt: skip
def test_the_form_of_a_forward(form, conv):
    assert steps.correlate(conv, npu.A2, steps.Budget()).form == form


def test_no_budget_at_all_still_has_a_plan():
    conv, budget = forward(7, 296, channels=40, n=3), steps.Budget(0, 0)
    for plan in (steps.correlate(conv, npu.A2, budget), steps.reduce(conv, npu.A2, budget)):
        assert plan.form == "taps"
        assert (plan.samples, plan.depth, plan.width, plan.groups) == (3, 20, 1, 4)


def test_memory_cuts_samples_then_depth_then_groups():
    conv = forward(7, 168, channels=40, n=4, size=(50, 60))
    plane = 40 * 60 * 168 * 4
    padded = 40 * 66 * 174 * 4
    whole = 50 * plane + 56 * padded
    seen = [
        steps.correlate(conv, npu.A2, steps.Budget(volume=volume))
        for volume in (4 * whole, 4 * whole - 1, whole, whole - 1, plane + 7 * padded, plane + 7 * padded - 1, 0)
    ]
    assert [(p.samples, p.depth, p.groups) for p in seen] == [
        (1, 1, 1), (2, 1, 1), (4, 1, 1), (4, 2, 1), (4, 50, 1), (4, 50, 2), (4, 50, 4),
    ]  # fmt: skip


@st.composite
def convs(draw):
    k = draw(st.tuples(st.integers(1, 9), st.integers(1, 40), st.integers(1, 40)))
    s = draw(st.tuples(*[st.integers(1, 3)] * 3))
    l = draw(st.tuples(*[st.integers(1, 3)] * 3))
    o = draw(st.tuples(st.integers(1, 60), st.integers(1, 60), st.integers(1, 600)))
    g = draw(st.integers(1, 40))
    i = tuple((o - 1) * s + (k - 1) * l + 1 for o, s, k, l in zip(o, s, k, l))
    channels = [g * draw(st.integers(1, 4)) for _ in range(2)]
    return npu.Conv(draw(st.integers(1, 4)), g, *channels, i, o, k, s, l, draw(st.sampled_from([HALF, FLOAT])))


def sizes(parts):
    return [end - first for first, end in parts]


@given(convs(), st.integers(0, L1), st.integers(0, 1 << 30))
def test_every_step_keeps_to_its_budget(conv, l1, volume):
    budget, c0 = steps.Budget(l1, volume), 32 // conv.itemsize
    for planner in (steps.correlate, steps.reduce):
        plan = planner(conv, npu.A2, budget)
        pieces = steps.pieces(conv, plan, (0, 0, 0))
        co = conv.co // conv.g
        blocks = [(p.samples, tuple(c // co for c in p.rows), p.outputs[0], p.outputs[2]) for p in pieces]
        assert len(blocks) == plan.count and len(set(blocks)) == plan.count
        covered = sum((b - a) * (d - c) * (f - e) * (h - g) for (a, b), (c, d), (e, f), (g, h) in blocks)
        assert covered == conv.n * conv.g * conv.o[0] * conv.o[2]
        columns, groups = max(sizes({b[3] for b in blocks})), min(sizes({b[1] for b in blocks}))
        width = (columns - 1) * conv.s[2] + (conv.k[2] - 1) * conv.l[2] + 1
        load = ((conv.k[1] - 1) * conv.l[1] + 1 + conv.s[1]) * width * 32
        if plan.form == "operator":
            load = load * (conv.itemsize // 2) + 1024
        if plan.form in ("convolution", "operator"):
            assert load == plan.load <= l1
        for channels in (conv.ci, conv.co):
            assert channels // conv.g * groups > c0 or groups == conv.g
        planes, samples = max(sizes({b[2] for b in blocks})), max(sizes({b[0] for b in blocks}))
        depth = (planes - 1) * conv.s[0] + (conv.k[0] - 1) * conv.l[0] + 1
        most = max(sizes({b[1] for b in blocks}))
        blocked = [-(-(channels // conv.g * most) // c0) * c0 for channels in (conv.ci, conv.co)]
        read = blocked[0] * depth * conv.i[1] * width
        written = blocked[1] * planes * conv.o[1] * columns
        least = min(conv.g, c0 // (min(conv.ci, conv.co) // conv.g) + 1)
        smallest = samples == planes == 1 and plan.groups == conv.g // least
        assert samples * (read + written) * conv.itemsize <= volume or smallest


def test_the_planner_needs_no_torch():
    folder = Path(npu.__file__).parent
    code = f"""
import importlib.util, sys, types
sys.modules["torch"] = None
package = types.ModuleType("p"); package.__path__ = [{str(folder)!r}]; sys.modules["p"] = package
import p.npu, p.steps
conv = p.npu.Conv(1, 7, 7, 7, (30, 30, 302), (24, 24, 296), (7, 7, 7), (1, 1, 1), (1, 1, 1), 4)
print(p.steps.correlate(conv, p.npu.A2, p.steps.Budget()).form)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["convolution"], done.stderr
