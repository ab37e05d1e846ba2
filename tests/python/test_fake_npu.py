# SPDX-License-Identifier: Apache-2.0
"""The checks of fake_npu_checks, all in one process of their own: the device can be named once."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import fake_npu
import pytest

CHECKS = Path(__file__).with_name("fake_npu_checks.py")
NAMES = re.findall(r"^def (test_\w+)", CHECKS.read_text(), re.M)

pytestmark = pytest.mark.skipif(
    not fake_npu.available(), reason="this torch has no spare device for Python; test_composite has the dispatch mode"
)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """What ran, as (function, report of its failure or None), and the output of it all."""
    report = tmp_path_factory.mktemp("fake_npu") / "report.xml"
    env = {k: v for k, v in os.environ.items() if not k.startswith("OGP_")}
    env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", CHECKS]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=900)
    assert report.exists(), done.stdout + done.stderr
    cases = ElementTree.parse(report).iter("testcase")
    ran = [(case.get("name").split("[")[0], next((part.text for part in case), None)) for case in cases]
    return ran, done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_on_the_stand_in(name, outcome):
    ran, output = outcome
    reports = [report for function, report in ran if function == name]
    assert reports, output
    assert not any(reports), "\n".join(filter(None, reports))
