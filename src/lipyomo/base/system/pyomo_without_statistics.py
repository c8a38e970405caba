"""Import of Pyomo without SciPy's statistics, which lipyomo does not use.

Pyomo imports SciPy's statistics, integration and geometry if SciPy is loaded already, which takes
half of the time of ``import pyomo.environ``.  If SciPy is hidden at first, they are imported at
first use only.  So this module must be imported before Pyomo.

SciPy is not hidden while other threads run: they might import it a second time.
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
