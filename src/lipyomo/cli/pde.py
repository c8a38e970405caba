"""Python files that define the residual of a differential equation, for ``--pde``."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from lipyomo.base.errors import LipyomoError
from lipyomo.cli.words import UsageError
from lipyomo.networks.derivatives import residual
from lipyomo.networks.network import Network, with_input_names

T = TypeVar("T")

WRONG = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError, OSError,
    RuntimeError, SyntaxError, TypeError, ValueError,
)  # fmt: skip
"""Exceptions with which a user's file may fail."""


def residual_of(network: Network, path: Path) -> Network:
    """Run a Python file, and return the network of the expression that it defines.

    Raises
    ------
    UsageError
        If the file fails, or has no function ``residual``.
    """
    names = _run(f"{path}", lambda: runpy.run_path(str(path)))
    expression: Callable[..., Any] | None = names.get("residual")
    if not callable(expression):
        raise UsageError(f"--pde: {path} has no function 'residual'")
    network = with_input_names(network, names.get("names"))
    return _run(f"the expression of {path}", lambda: residual(network, expression))


def _run(what: str, code: Callable[[], T]) -> T:
    """Run code of the user's."""
    try:
        return code()
    except LipyomoError:
        raise
    except SystemExit:
        raise UsageError(f"--pde: {what} ends the program") from None
    except WRONG as problem:
        raise UsageError(f"--pde: {what} fails: {str(problem) or repr(problem)}") from problem
