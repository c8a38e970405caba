"""Shells: the points at which a function has values between two numbers.

A statement may be about values, ``lower <= max c . f(x) <= upper``, over all x of the domain, or
over those at which a second network V, of one output, has a value between two numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lipyomo_check.errors import ProofError
from lipyomo_check.reading import entry, real

if TYPE_CHECKING:
    from lipyomo_check.statement import Layer


@dataclass(frozen=True)
class Shell:
    """Points with ``low <= V(x) <= high``, V being a network of one output."""

    layers: list[Layer]
    low: float
    high: float

    def words(self) -> str:
        """The shell in words."""
        return f"where V is in [{self.low!r}, {self.high!r}]"


def read_shell(
    record: Any, inputs: int, read_network: Callable[[Any], list[Layer]]
) -> Shell | None:
    """The shell of a statement, if it has one.

    Raises
    ------
    ProofError
        If it is none.
    """
    if record is None:
        return None
    layers = read_network(entry(record, "network"))
    if layers[0].inputs != inputs or layers[-1].units != 1:
        raise ProofError("the shell's function does not have the domain's inputs and one output")
    low, high = (
        default if entry(record, end) is None else real(entry(record, end), "an end of the shell")
        for end, default in (("low", float("-inf")), ("high", float("inf")))
    )
    if not low <= high:
        raise ProofError("the shell is empty")
    return Shell(layers, low, high)
