"""What the first use of Pyomo imports."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import lipyomo.blocks, lipyomo.solvers
assert "pyomo.environ" in sys.modules
assert "scipy.stats" not in sys.modules, "which takes half a second"
from pyomo.common.dependencies import scipy, scipy_available
assert scipy_available
assert scipy is sys.modules["scipy"]
assert scipy.stats.norm.cdf(0.0) == 0.5
from lipyomo.blocks import *
assert issubclass(NetworkGreyBox, object)
"""


def test_statistics_are_imported_where_somebody_needs_them() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
