# SPDX-License-Identifier: Apache-2.0
"""The checks of fake_npu_checks, each in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import fake_npu
import pytest

FOLDER = Path(__file__).parent
CHECKS = FOLDER / "fake_npu_checks.py"


@pytest.mark.skipif(not fake_npu.available(), reason="this torch has no spare device for Python; test_composite remains")
@pytest.mark.parametrize("name", re.findall(r"^def (test_\w+)", CHECKS.read_text(), re.M))
def test_on_the_stand_in(name):
    env = {k: v for k, v in os.environ.items() if not k.startswith("OGP_")}
    env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore::DeprecationWarning"]
    done = subprocess.run([*command, f"{CHECKS}::{name}"], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
