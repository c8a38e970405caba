"""Checks of arguments: what was wrong, where, and what to do."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from lipyomo.errors import ProblemError
from lipyomo.network import Network


def check_network(network: Any) -> None:
    """Raise unless it is a `Network`."""
    if not isinstance(network, Network):
        raise ProblemError(
            f"network={network!r} is not a Network.  Remedy: lipyomo.load(path), "
            "lipyomo.from_torch(...), or Network.from_arrays(...)"
        )


def check_choice(name: str, value: Any, choices: Collection[Any]) -> None:
    """Raise unless `value` is one of `choices`."""
    try:
        known = value in choices
    except (TypeError, ValueError):
        known = False
    if not known:
        raise ProblemError(
            f"{name}={value!r} is unknown.  Remedy: {', '.join(str(c) for c in choices)}"
        )


def check_whole(name: str, value: Any, least: int) -> None:
    """Raise unless `value` is a whole number of at least `least`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least:
        raise ProblemError(f"{name}={value!r} must be a whole number of at least {least}")


def check_number(name: str, value: Any, least: float) -> float:
    """Return a finite number of at least `least`."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < least:
        raise ProblemError(f"{name}={value!r} must be a number of at least {least:g}")
    return float(value)
