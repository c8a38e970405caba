"""Pyomo without SciPy's statistics, which nothing here uses.

Pyomo imports SciPy's statistics, integration and geometry as soon as both packages are loaded: half
of the time that ``import pyomo.environ`` takes.  Only if SciPy was hidden from it at first does it
wait until somebody needs them.  So this module is imported before any of Pyomo.

Nothing is hidden where there are other threads: those that import SciPy would load it anew.
"""

import sys
import threading
from importlib import import_module

import scipy

if threading.active_count() == 1:
    del sys.modules["scipy"]
    try:
        import_module("pyomo.common.dependencies")
    finally:
        sys.modules["scipy"] = scipy
