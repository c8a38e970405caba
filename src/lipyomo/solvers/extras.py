"""Optional packages: whether they are there, and the error if they are not."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from lipyomo.errors import MissingExtra

EXTRAS = {
    "highspy": "all",
    "gurobipy": "gurobi",
    "cplex": "cplex",
    "cbcbox": "cbc",
    "pyscipopt": "scip",
}


def installed(module: str) -> bool:
    """Whether a module can be imported."""
    return importlib.util.find_spec(module) is not None


def require(module: str, purpose: str) -> Any:
    """Import an optional module.

    Raises
    ------
    MissingExtra
        If it is not installed; the message holds the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra(module, EXTRAS[module], purpose) from None
