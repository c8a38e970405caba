"""What an import may take: bytes, operations and seconds, counted before anything is allocated.

A file of a few bytes can ask for any amount of memory (a constant of 3e9 entries, a tensor joined
with itself forty times) or time (a loop of 1e12 rounds).  So what is
about to be allocated is charged first.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from lipyomo.base.errors import ImportRefused
from lipyomo.base.numerics.params import PARAMS as PACE
from lipyomo.base.system.memory import machine_memory

MEMORY_SHARE = 0.5
"""Of the machine's memory, that an import may take where no limit was given."""
OPERATIONS = PACE.rate
"""Multiplications in a node: a second of dense products, some ten of what nodes do."""

NUMBER = np.dtype(np.float64).itemsize
"""Bytes of a number."""
ENTRY = 3 * NUMBER
"""Bytes of an entry of a tensor that depends on the input: its offset, its place, one number."""


def readable(size: float) -> str:
    """Bytes in words, such as ``24.0 GB``."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size / 1e3:,.1f} kB"


class Place(Protocol):
    """What is being imported, for messages: the node of a graph."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def op_type(self) -> str:
        """What it does."""


class OverBudget(ImportRefused):
    """A model asks for more memory or time than there is; another way to the same is no cheaper."""


@dataclass
class Budget:
    """What is left of the memory and the time of an import.

    Attributes
    ----------
    memory : int
        Most bytes at a time.
    deadline : float
        On `time.monotonic`'s clock.
    seconds : float
        The time limit, for messages.
    held : int
        Bytes of the tensors that are kept.
    node : Place or None
        What is being imported, for messages.
    """

    memory: int = field(default_factory=lambda: int(MEMORY_SHARE * machine_memory()))
    deadline: float = math.inf
    seconds: float = math.inf
    held: int = 0
    node: Place | None = None

    def at(self, node: Place | None) -> None:
        """Take that a node is imported next; none any more."""
        self.node = node

    def keep(self, size: int) -> None:
        """Count bytes that are kept, or with a minus sign those that are no longer."""
        self.held += size

    def charge(self, size: float, what: str) -> None:
        """Ask for `size` bytes.

        Raises
        ------
        ImportRefused
            If they do not fit into the budget; it names the node, the size and the limit.
        """
        self.poll()
        if self.held + size <= self.memory:
            return
        raise self._refusal(
            f"{what} would take {readable(size)}"
            + (f" beside {readable(self.held)}" if self.held > size / 10 else "")
            + f"; the memory limit is {readable(self.memory)}",
            "export a smaller model, or raise --memory-limit",
        )

    def work(self, operations: float, what: str = "computing the node") -> None:
        """Ask for some operations, whatever the machine's memory is.

        Raises
        ------
        ImportRefused
            If there are too many of them.
        """
        self.poll()
        if operations > OPERATIONS:
            raise self._refusal(
                f"{what} takes {operations:.2g} operations; the limit is {OPERATIONS:.2g}",
                "simplify the model first (for example with onnxsim)",
            )

    def poll(self) -> None:
        """Look at the clock.

        Raises
        ------
        ImportRefused
            If the time limit is over.
        """
        if time.monotonic() > self.deadline:
            raise self._refusal(
                "the time limit ended while the model was imported "
                f"({self.seconds:.3g} s were left for it)",
                "raise --time-limit, or export a smaller model",
            )

    def _refusal(self, message: str, remedy: str) -> ImportRefused:
        if self.node is None:
            return OverBudget(message, remedy=remedy)
        return OverBudget(message, self.node.name, self.node.op_type, remedy)


def limits(time_limit: float = math.inf, memory_limit: int | None = None) -> Budget:
    """A fresh budget.

    Parameters
    ----------
    time_limit : float, optional
        Seconds from now.
    memory_limit : int, optional
        Bytes; a share of the machine's memory if left out.
    """
    clock = Budget(deadline=time.monotonic() + time_limit, seconds=time_limit)
    return clock if memory_limit is None else replace(clock, memory=memory_limit)


_current: ContextVar[Budget] = ContextVar("budget")


def budget() -> Budget:
    """The budget of the import that is going on; outside one, that of the machine."""
    try:
        return _current.get()
    except LookupError:
        return Budget()


@contextmanager
def spending(chosen: Budget) -> Iterator[Budget]:
    """Let everything in the block be charged to `chosen`."""
    token = _current.set(chosen)
    try:
        yield chosen
    finally:
        _current.reset(token)
