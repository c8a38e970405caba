"""Optional packages: whether they are installed, and the error if they are not."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from lipyomo.base.errors import MissingExtra

EXTRAS = {
    "highspy": "all",
    "gurobipy": "gurobi",
    "cplex": "cplex",
    "cbcbox": "cbc",
    "pyscipopt": "scip",
    "torch": "torch",
    "sklearn": "sklearn",
    "matplotlib": "plot",
    "distributed": "dask",
}
"""Packages, and the extras of lipyomo that install them."""


def installed(module: str) -> bool:
    """Return whether a module can be imported."""
    return importlib.util.find_spec(module) is not None


def need(module: str, purpose: str) -> None:
    """Raise unless an optional module is installed, without importing it.

    Raises
    ------
    MissingExtra
        If it is not; the message holds the command that installs it.
    """
    if not installed(module):
        raise _missing(module, purpose)


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
        raise _missing(module, purpose) from None


def _missing(module: str, purpose: str) -> MissingExtra:
    package = module.partition(".")[0]
    return MissingExtra(
        f"{purpose} needs the package '{package}', which is not installed."
        f"  Remedy: pip install 'lipyomo[{EXTRAS[package]}]'"
    )
