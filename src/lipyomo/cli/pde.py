"""Python files that define the residual of a differential equation, for ``--pde``."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lipyomo.cli.words import UsageError
from lipyomo.networks.derivatives import residual
from lipyomo.networks.network import Network, with_input_names

WRONG = (
    ArithmeticError, AttributeError, ImportError, LookupError, NameError, OSError, RuntimeError,
    SyntaxError, TypeError, ValueError,
)  # fmt: skip
"""Exceptions with which a user's file may fail."""


def residual_of(network: Network, path: Path) -> Network:
    """Run a Python file, and return the network of the expression that it defines.

    Raises
    ------
    UsageError
        If the file fails, or has no function ``residual``.
    """
    try:
        names = runpy.run_path(str(path))
    except WRONG as problem:
        raise UsageError(f"--pde: {path} fails: {problem}") from problem
    except SystemExit:
        raise UsageError(f"--pde: {path} ends the program") from None
    expression: Callable[..., Any] | None = names.get("residual")
    if not callable(expression):
        raise UsageError(f"--pde: {path} has no function 'residual'")
    network = with_input_names(network, names.get("names"))
    try:
        return residual(network, expression)
    except WRONG as problem:
        raise UsageError(f"--pde: the expression of {path} fails: {problem}") from problem
