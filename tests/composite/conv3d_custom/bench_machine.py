# SPDX-License-Identifier: Apache-2.0
"""What the machine is and what it can do at most: the FMA peak of the ISA in use and the copy bandwidth."""

import datetime
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import torch

from oil_gas_ops_prospect import _core

# Lanes of f32, independent chains (as the registers allow), flags.
_ISAS = {
    "avx512": (16, 24, ["-mavx512f"]),
    "avx2": (8, 12, ["-mavx2", "-mfma"]),
    "neon": (4, 24, []),
    "baseline": (4, 12, []),
}


def isa_in_use():
    """The instruction set that the library chose here, as its plans describe themselves."""
    geometry = ((1,) * 3, (1,) * 3, (1,) * 3, (1,) * 3, 1, 0, 0)
    text = _core.describe(geometry, 0, (1, 1, 32, 32, 64), (1, 1, 3, 3, 3), "forward")
    found = re.search(r"\b(avx512|avx2|neon|baseline)\b", text)
    return found.group(1) if found else "baseline"


def cpu_model():
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    found = re.search(r"model name\s*:\s*(.*)", text)
    return found.group(1) if found else platform.machine()


class FmaPeak:
    """The pure FMA loop, compiled once for the ISA in use. `None` GF/s where there is no C compiler."""

    def __init__(self, isa):
        self._folder = tempfile.TemporaryDirectory()
        self._program = Path(self._folder.name) / "fma_peak"
        lanes, chains, flags = _ISAS[isa]
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        source = Path(__file__).with_name("fma_peak.c")
        self.available = compiler is not None
        if self.available:
            subprocess.run(
                [*compiler.split(), "-O3", "-ffp-contract=fast", *flags, f"-DLANES={lanes}", f"-DCHAINS={chains}",
                 str(source), "-o", str(self._program), "-pthread"],
                check=True,
            )  # fmt: skip

    def gflops(self, threads, seconds=0.2):
        """GF/s, f32, of `threads` threads together."""
        if not self.available:
            return None
        done = subprocess.run([self._program, str(threads), str(seconds)], check=True, capture_output=True, text=True)
        return float(done.stdout)

    def best(self, threads, repeats=3):
        return max(self.gflops(threads) for _ in range(repeats)) if self.available else None


def copy_bandwidth(threads, device="cpu", floats=1 << 25, repeats=5):
    """GB/s, bytes read plus bytes written, of copying a large tensor into another that is already resident."""
    torch.set_num_threads(threads)
    source, target = torch.ones(floats, device=device), torch.zeros(floats, device=device)
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        target.copy_(source)
        if device != "cpu":
            torch.accelerator.synchronize()
        best = min(best, time.perf_counter() - start)
    return 8 * floats / best / 1e9


def describe(threads, device, fma):
    """The facts that a result needs beside it."""
    on_cpu = device == "cpu"
    return {
        "device": device,
        "cpu": cpu_model(),
        "isa": isa_in_use(),
        "threads": threads,
        "torch": torch.__version__,
        "library": _core.version(),
        "threads_runtime": _core.threads_runtime(),
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "fma_gflops_1": fma.best(1) if on_cpu else None,
        "fma_gflops": fma.best(threads) if on_cpu else None,
        "copy_gbytes": copy_bandwidth(threads, device),
    }
