"""Checks of arguments: what was wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from lipyomo.arguments import brief
from lipyomo.errors import ProblemError


def check_choice(name: str, value: Any, choices: Collection[Any]) -> None:
    """Raise unless `value` is one of `choices`."""
    try:
        known = value in choices
    except (TypeError, ValueError):
        known = False
    if not known:
        raise ProblemError(
            f"{name}={brief(value)} is unknown.  Remedy: {', '.join(str(c) for c in choices)}"
        )
