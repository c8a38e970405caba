"""Python files that define the residual of a differential equation, for ``--pde``."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from traceback import walk_tb
from typing import Any, TypeVar

from lipyomo.base.errors import LipyomoError
from lipyomo.cli.words import UsageError
from lipyomo.networks.derivatives.expressions import residual
from lipyomo.networks.network import Network, with_input_names

T = TypeVar("T")


def residual_of(network: Network, path: Path) -> Network:
    """Run a Python file, and return the network of the expression that it defines.

    Raises
    ------
    UsageError
        If the file fails, or has no function ``residual``.
    """
    if not path.is_file():
        raise UsageError(f"--pde: there is no file '{path}'")
    names = _run(path, f"{path}", lambda: runpy.run_path(str(path)))
    expression: Callable[..., Any] | None = names.get("residual")
    if not callable(expression):
        raise UsageError(f"--pde: {path} has no function 'residual'")
    network = with_input_names(network, names.get("names"))
    return _run(path, f"the expression of {path}", lambda: residual(network, expression))


def _run(path: Path, what: str, code: Callable[[], T]) -> T:
    """Run code of the user's; what it prints goes to stderr, as stdout may be JSON."""
    try:
        with redirect_stdout(sys.stderr):
            return code()
    except (LipyomoError, MemoryError, KeyboardInterrupt):
        raise
    except SystemExit:
        raise UsageError(f"--pde: {what} ends the program") from None
    except BaseException as problem:  # what a user's file raises may be of any class
        frames = walk_tb(problem.__traceback__)
        lines = [n for frame, n in frames if frame.f_code.co_filename == str(path)]
        where = f" in line {lines[-1]}" if lines else ""
        text = f"{type(problem).__name__}{': ' * bool(str(problem))}{problem}"
        raise UsageError(f"--pde: {what} fails{where}: {text}") from problem
