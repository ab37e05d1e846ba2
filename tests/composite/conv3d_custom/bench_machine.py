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
from bench_device import hf32, synchronise

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


def library_compiler():
    """The compiler that made the library, as it signed the binary, or None."""
    found = re.search(rb"GCC: \([^)\0]*\) [\d.]+|clang version [\d.]+", Path(_core.__file__).read_bytes())
    return found.group().decode() if found else None


class FmaPeak:
    """The pure FMA loop, compiled once for the ISA in use; a large matrix product, and `source` says so, where there is
    no C compiler."""

    def __init__(self, isa):
        self._folder = tempfile.TemporaryDirectory()
        self._program = Path(self._folder.name) / "fma_peak"
        self.source = "FMA loop" if self._compile(*_ISAS[isa]) else "torch.mm (no C compiler)"

    def _compile(self, lanes, chains, flags):
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        source = Path(__file__).with_name("fma_peak.c")
        shape = [f"-DLANES={lanes}", f"-DCHAINS={chains}"]
        command = [*(compiler or "cc").split(), "-O3", "-ffp-contract=fast", *flags, *shape, source]
        try:
            return subprocess.run([*command, "-o", self._program, "-pthread"], capture_output=True).returncode == 0
        except OSError:
            return False

    def gflops(self, threads):
        """GF/s, f32, of `threads` threads together."""
        if not self._program.exists():
            return _product_gflops(threads)
        done = subprocess.run([self._program, str(threads), "0.2"], check=True, capture_output=True, text=True)
        return float(done.stdout)

    def best(self, threads, repeats=3):
        return max(self.gflops(threads) for _ in range(repeats))


def _product_gflops(threads, side=1536):
    torch.set_num_threads(threads)
    a = torch.rand(side, side)
    start = time.perf_counter()
    torch.mm(a, a)
    return 2 * side**3 / (time.perf_counter() - start) / 1e9


def copy_bandwidth(threads, device="cpu", floats=1 << 25, repeats=5):
    """GB/s, bytes read plus bytes written, of copying a large tensor into another that is already resident."""
    torch.set_num_threads(threads)
    source, target = torch.ones(floats, device=device), torch.zeros(floats, device=device)
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        target.copy_(source)
        synchronise(device)
        best = min(best, time.perf_counter() - start)
    return 8 * floats / best / 1e9


def describe(threads, device, fma):
    """The facts that a result needs beside it."""
    counts = sorted({1, threads})  # ends on `threads`, which torch keeps
    peaks = {count: fma.best(count) for count in counts} if device == "cpu" else {}
    copies = {count: copy_bandwidth(count, device) for count in counts}
    return {
        "device": device,
        "hf32": hf32(device),
        "cpu": cpu_model(),
        "isa": isa_in_use(),
        "threads": threads,
        "torch": torch.__version__,
        "library": _core.version(),
        "compiler": library_compiler(),
        "threads_runtime": _core.threads_runtime(),
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "fma_source": fma.source,
        "fma_gflops_1": peaks.get(1),
        "fma_gflops": peaks.get(threads),
        "copy_gbytes_1": copies[1],
        "copy_gbytes": copies[threads],
    }
