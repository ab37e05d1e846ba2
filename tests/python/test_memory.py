# SPDX-License-Identifier: Apache-2.0
"""Memory: what a process holds at its peak beyond the tensors themselves, measured in a process of its own."""

import os
import subprocess
import sys

import pytest

MIB = 1 << 20

PRELUDE = """
import resource, torch
from torch.autograd import grad
from oil_gas_ops_prospect.conv3d_custom import Conv3d
from oil_gas_ops_prospect.conv3d_custom.functional import conv3d

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def now():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()

def bytes_of(*tensors):
    return sum(t.numel() * t.element_size() for t in tensors)

conv3d(torch.ones(1, 1, 40, 40, 40, requires_grad=True), torch.ones(1, 1, 3, 3, 3)).sum().backward()  # warm: threads, libraries
"""


def measured(code):
    """What the code prints, as a number: bytes."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", PRELUDE + code], env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


# x, w, arguments: columns of k^3 times the volume would be tens of GB
VOLUMES = [
    ((1, 16, 64, 96, 96), (16, 1, 7, 7, 7), dict(padding=3, groups=16), "float32"),
    ((1, 8, 48, 64, 64), (8, 1, 9, 9, 9), dict(padding=4, groups=8), "float64"),
    ((1, 16, 5, 200, 300), (8, 16, 3, 3, 3), dict(padding=1), "float32"),
    ((2, 1, 8, 81, 200), (1, 1, 1, 21, 11), dict(padding=(0, 10, 5)), "float32"),
    ((1, 3, 8, 64, 64), (3, 1, 31, 31, 31), dict(padding=15, groups=3), "float32"),
]


@pytest.mark.parametrize("x,w,arguments,dtype", VOLUMES, ids=str)
def test_all_passes_run_within_the_tensors_and_a_fixed_scratch(x, w, arguments, dtype):
    extra = measured(f"""
x = torch.randn({x}, dtype=torch.{dtype}, requires_grad=True)
w = torch.randn({w}, dtype=torch.{dtype}, requires_grad=True)
before = max(peak(), now())
y = conv3d(x, w, **{arguments})
gy = torch.ones((), dtype=y.dtype).expand(y.shape)
gx, gw = grad(y, (x, w), gy)
print(peak() - before - bytes_of(y, gx, gw))
""")
    assert extra <= 96 * MIB, f"{extra / MIB:.0f} MiB beyond the tensors"


def test_padding_modes_copy_no_volume():
    extra = measured("""
conv = Conv3d(4, 4, 5, padding=2, groups=4, padding_mode="reflect")
x = torch.randn(1, 4, 96, 128, 128, requires_grad=True)
before = max(peak(), now())
y = conv(x)
forward = peak() - before - bytes_of(y)
y.backward(torch.ones(()).expand(y.shape))
print(max(forward, peak() - before - bytes_of(y, x)))
""")
    assert extra <= 96 * MIB, f"{extra / MIB:.0f} MiB beyond the tensors"


@pytest.mark.parametrize(
    "step",
    [
        "y.square().mean().backward()",
        "grad(grad(y.square().sum(), x, create_graph=True)[0].square().sum(), list(net.parameters()))",
    ],
    ids=["training", "gradient penalty"],
)
def test_memory_does_not_grow_from_step_to_step(step):
    growth = measured(f"""
net = torch.nn.Sequential(*[Conv3d(4, 4, 3, padding=1, groups=g) for g in (1, 2, 4) * 3])
x = torch.randn(1, 4, 24, 24, 24, requires_grad=True)
def run(steps):
    for _ in range(steps):
        y = net(x)
        {step}
        net.zero_grad(); x.grad = None
run(10)
before = now()
run(40)
print(now() - before)
""")
    assert growth <= 8 * MIB, f"{growth / MIB:.1f} MiB in 40 steps"


def test_a_frozen_layer_keeps_no_input():
    """Through 12 frozen layers only one activation is alive at a time."""
    held = measured("""
net = torch.nn.Sequential(*[Conv3d(2, 2, 3, padding=1) for _ in range(12)]).requires_grad_(False)
x = torch.randn(1, 2, 64, 64, 64, requires_grad=True)
net(x)
before = now()
y = net(x)
print(now() - before - bytes_of(y))
""")
    assert held <= 3 * 2 * 64**3 * 4, f"{held / MIB:.1f} MiB held"


@pytest.mark.long
@pytest.mark.parametrize("channels", [7])
def test_the_full_volume_in_float64(channels):
    """Depthwise k7 on 296x296x168: native unfolds 40 GB a channel."""
    extra = measured(f"""
x = torch.randn(1, {channels}, 296, 296, 168, dtype=torch.float64, requires_grad=True)
w = torch.randn({channels}, 1, 7, 7, 7, dtype=torch.float64, requires_grad=True)
b = torch.randn({channels}, dtype=torch.float64, requires_grad=True)
before = max(peak(), now())
y = conv3d(x, w, b, padding=3, groups={channels})
results = grad(y, (x, w, b), torch.ones((), dtype=y.dtype).expand(y.shape))
print(peak() - before - bytes_of(y, *results))
""")
    assert extra <= 128 * MIB, f"{extra / MIB:.0f} MiB beyond the tensors"
