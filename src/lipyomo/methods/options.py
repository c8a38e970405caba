"""Access to the options of a run's method, with checks."""

from __future__ import annotations

from collections.abc import Sequence

from lipyomo.base import arguments
from lipyomo.base.errors import MethodError
from lipyomo.methods.registry import get_method
from lipyomo.problems.run import Run


def option(run: Run, name: str) -> object:
    """Return the value of an option of a run's method, by default the option's default."""
    return run.settings.options.get(name, get_method(run.method).options[name])


def count_option(run: Run, name: str, least: int = 1) -> int:
    """Return an option that is a count.

    Raises
    ------
    MethodError
        If it is not a whole number of at least `least`.
    """
    return arguments.whole_number(option(run, name), f"option {name}", MethodError, least)


def choice(run: Run, name: str, allowed: Sequence[str]) -> str:
    """Return an option that has a few allowed values.

    Raises
    ------
    MethodError
        If the value is not one of them.
    """
    value = option(run, name)
    arguments.one_of(value, allowed, f"value of the option {name},", MethodError)
    return str(value)
