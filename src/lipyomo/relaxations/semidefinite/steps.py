"""Descents step by step: what those of one matrix and of layers have in common."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol, Self, TypeVar


class Stepped(Protocol):
    """A descent as a value, whose steps are of two kinds: the first ones are quicker."""

    @property
    def done(self) -> bool:
        """Whether nothing more is to be gained."""

    @property
    def approaching(self) -> bool:
        """Whether the next step is one of the first kind."""

    @property
    def seconds(self) -> float:
        """What the next step is expected to take; zero before the first one of its kind."""

    def stepped(self) -> Self:
        """One step further."""

    def timed(self, seconds: float) -> Self:
        """With what the next step is expected to take."""


D = TypeVar("D", bound=Stepped)


def stepped_until(descent: D, enough: Callable[[D], Any]) -> D:
    """A descent that goes on until it is done, or enough, which is asked before each step."""
    while not descent.done and not enough(descent):
        began = time.perf_counter()
        then = descent.stepped()
        # the next step is expected to take most of the time of the longest one at least
        took = max(time.perf_counter() - began, 0.8 * descent.seconds)
        descent = then.timed(took if then.approaching == descent.approaching else 0.0)
    return descent
