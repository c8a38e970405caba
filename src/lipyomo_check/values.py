"""Claims about values: their ends, and the shell on which points count.

A statement may be about values, ``lower <= max c . f(x) <= upper`` for each of several c, over all
x of the domain, or over those at which a second network V, of one output, has a value between two
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lipyomo_check.errors import ProofError
from lipyomo_check.reading import entry, real, reals

if TYPE_CHECKING:
    from lipyomo_check.parts import Layer


@dataclass(frozen=True)
class Shell:
    """Points with ``low <= V(x) <= high``, V being a network of one output."""

    layers: list[Layer]
    low: float
    high: float

    def words(self) -> str:
        """Return the shell in words."""
        return f"where V is in [{self.low!r}, {self.high!r}]"


def read_ends(record: Any, count: int) -> list[tuple[float, float]]:
    """Return the ends between which the largest value of each of so many functionals lies.

    Raises
    ------
    ProofError
        If they are none.
    """
    if not count:
        raise ProofError("values are those of functionals")
    lower, upper = (reals(entry(record, end), end, count) for end in ("lower", "upper"))
    ends = list(zip(lower, upper, strict=True))
    if not all(low <= high for low, high in ends):
        raise ProofError("an interval is empty")
    return ends


def value_words(
    functionals: Sequence[Sequence[float]], ends: Sequence[tuple[float, float]]
) -> Iterator[str]:
    """Return the claim in words; the largest value of -c . f is shown as the least of c . f."""
    before: list[float] | None = None
    for row, (lower, upper) in zip(functionals, ends, strict=True):
        opposite = [-c + 0.0 for c in row]
        if opposite == before:
            yield f"least value of c . f, c = {before}, in [{-upper!r}, {-lower!r}]"
        else:
            yield f"largest value of c . f, c = {list(row)}, in [{lower!r}, {upper!r}]"
        before = list(row)


def read_shell(
    record: Any, inputs: int, read_network: Callable[[Any], list[Layer]]
) -> Shell | None:
    """Return the shell of a statement, if it has one.

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
