"""Pyomo, imported without the parts of SciPy that only few models need; packages import this first.

Where SciPy is there already, Pyomo imports ``scipy.stats`` and more at once, which takes twice as
long as Pyomo itself; else it waits until somebody asks for them.
"""

from __future__ import annotations

import sys
from importlib import import_module


def _import_pyomo() -> None:
    """Import what decides it while SciPy is out of sight."""
    scipy = sys.modules.pop("scipy", None)
    try:
        import_module("pyomo.common.dependencies")
    finally:
        if scipy is not None:
            sys.modules["scipy"] = scipy


if "pyomo" not in sys.modules:
    _import_pyomo()
