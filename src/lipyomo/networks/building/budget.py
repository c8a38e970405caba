"""Limits of an import: bytes, operations and seconds, counted before anything is allocated.

A file of a few bytes can require any amount of memory (a constant of 3e9 entries, a tensor
concatenated with itself forty times) or time (a loop of 1e12 rounds).  Every allocation is
therefore charged in advance.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

import numpy as np

from lipyomo.base.arguments import duration, memory_size
from lipyomo.base.errors import ImportRefused
from lipyomo.base.numerics.params import PARAMS as PACE
from lipyomo.base.system.memory import machine_memory

MEMORY_SHARE = 0.5
"""Share of the machine's memory that an import may use by default."""
OPERATIONS = PACE.rate
"""Limit of multiplications in a node: a second of dense products, ten seconds of typical nodes."""

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


class OverBudget(ImportRefused):
    """A model exceeds the limits of memory or time; other ways to import it are not tried."""


@dataclass
class Budget:
    """The memory and time limits of an import, and the memory in use.

    Attributes
    ----------
    memory : int
        Limit of bytes at any time.
    deadline : float
        Time limit, on the clock of `time.monotonic`.
    seconds : float
        The time limit, for messages.
    held : int
        Bytes of the tensors that are kept.
    node : (str, str) or None
        Name and operator of the current node, for messages.
    """

    memory: int = field(default_factory=lambda: int(MEMORY_SHARE * machine_memory()))
    deadline: float = math.inf
    seconds: float = math.inf
    held: int = 0
    node: tuple[str, str] | None = None

    def at(self, node: tuple[str, str] | None) -> None:
        """Set the name and the operator of the current node, or None."""
        self.node = node

    def keep(self, size: int) -> None:
        """Add bytes that are kept; a negative number for bytes that are released."""
        self.held += size

    def charge(self, size: float, what: str) -> None:
        """Check that `size` more bytes are within the budget.

        Raises
        ------
        ImportRefused
            If they are not; names the node, the size and the limit.
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
        """Check that a number of operations is within the limit.

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
        """Check the time limit.

        Raises
        ------
        ImportRefused
            If it has expired.
        """
        if time.monotonic() > self.deadline:
            raise self._refusal(
                "the time limit ended while the model was imported "
                f"({self.seconds:.3g} s were left for it)",
                "raise --time-limit, or export a smaller model",
            )

    def _refusal(self, message: str, remedy: str) -> ImportRefused:
        name, op_type = self.node or (None, None)
        return OverBudget(message, name, op_type, remedy)


def limits(time_limit: float = math.inf, memory_limit: int | str | None = None) -> Budget:
    """Return a new budget.

    Parameters
    ----------
    time_limit : float, optional
        Seconds from now.
    memory_limit : int or str, optional
        Bytes; by default a share of the machine's memory.
    """
    seconds = duration(time_limit, ImportRefused)
    clock = Budget(deadline=time.monotonic() + seconds, seconds=seconds)
    if memory_limit is None:
        return clock
    return replace(clock, memory=memory_size(memory_limit, "memory_limit", ImportRefused))


_current: ContextVar[Budget | None] = ContextVar("budget", default=None)


def budget() -> Budget:
    """Return the budget of the current import; outside of imports that of the machine."""
    return _current.get() or Budget()


@contextmanager
def spending(chosen: Budget) -> Iterator[Budget]:
    """Charge everything in the block to `chosen`."""
    token = _current.set(chosen)
    try:
        yield chosen
    finally:
        _current.reset(token)
