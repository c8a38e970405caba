"""Where a search keeps its state, as plain arrays."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]
"""Plain arrays by name, none of them of objects: what a checkpoint holds."""


@runtime_checkable
class Kept(Protocol):
    """Where one search keeps its state."""

    @property
    def state(self) -> Arrays | None:
        """From where to go on; None for a search that begins."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why the state could not be kept the last time."""
        ...

    def save(self, state: Arrays) -> None:
        """Keep the state in place of the last one."""
        ...
