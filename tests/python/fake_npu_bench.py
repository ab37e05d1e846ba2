# SPDX-License-Identifier: Apache-2.0
"""The benchmark on the stand-in. Its child processes load this file too, and with it the device."""

import sys
from pathlib import Path

import fake_npu

fake_npu.install()
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "composite" / "conv3d_custom"))

if __name__ == "__main__":
    import bench_conv3d_custom_perf

    sys.exit(bench_conv3d_custom_perf.main())
