# SPDX-License-Identifier: Apache-2.0
"""Makes the modules of the pattern benchmark importable here. That folder stands alone, so they stay in it."""

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "composite" / "conv3d_custom"
if str(FOLDER) not in sys.path:
    sys.path.insert(0, str(FOLDER))
