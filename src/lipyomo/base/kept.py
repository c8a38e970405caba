"""The interface by which a search saves and restores its state, as plain arrays."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]
"""Arrays by name, none of dtype object: the content of a checkpoint."""


@runtime_checkable
class Kept(Protocol):
    """Storage for the state of one search."""

    @property
    def state(self) -> Arrays | None:
        """The state to resume from; None for a new search."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why the last save failed; None if it did not."""
        ...

    def save(self, state: Arrays) -> None:
        """Save the state, in place of the last one."""
        ...
