"""Checks of arguments: what was wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from lipyomo.arguments import brief, instance
from lipyomo.errors import ProblemError
from lipyomo.network import Network


def check_network(network: Any) -> None:
    """Raise unless it is a `Network`."""
    instance(
        network,
        Network,
        "the network",
        ProblemError,
        "lipyomo.load(path), lipyomo.from_torch(...), or Network.from_arrays(...)",
    )


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
