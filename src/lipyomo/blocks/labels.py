"""The keys of a block's inputs and outputs: those of the user's own sets, where they say more.

Who passes ``m.x`` over ``["angle", "vel"]`` reads ``gradient["vel"]`` and ``jacobian["y", "vel"]``.
Who passes a list, or a variable over mere positions, gets the indices of the network's tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np


def keys_of(shape: tuple[int, ...]) -> list[Any]:
    """The keys of an array: numbers for a vector, else tuples of them, row by row."""
    return list(range(shape[0])) if len(shape) == 1 else list(np.ndindex(*shape))


def entries_of(part: Any) -> dict[Any, Any]:
    """What is in a slice now, by what stands in the place of its wildcards."""
    found = [(unpacked(key), item) for key, item in part.wildcard_items()]
    entries = dict(found)
    return entries if len(entries) == len(found) else dict(enumerate(item for _, item in found))


@dataclass(frozen=True)
class Labels:
    """The keys of inputs or outputs, in order, and what else they are called in arguments.

    Attributes
    ----------
    keys : list
    others : list
        Further names of the same entries: positions where `keys` are the user's own, the user's
        positions where `keys` are those of a tensor.
    """

    keys: list[Any]
    others: list[Any] = field(default_factory=list)

    def __deepcopy__(self, memo: dict[int, Any]) -> Labels:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys)

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def of(cls, given: Sequence[Any] | None, shape: tuple[int, ...]) -> Labels:
        """Of the keys under which entries of a tensor were given; None if they had none."""
        plain = keys_of(shape)
        own = plain if given is None or len(set(given)) < len(given) else list(given)
        keys, others = (plain, own) if _are_positions(own) else (own, plain)
        return cls(keys, [] if set(keys) & set(others) else others)

    @cached_property
    def places(self) -> dict[Any, int]:
        """Position by key, or by another name."""
        return {name: j for names in (self.others, self.keys) for j, name in enumerate(names)}

    def place(self, name: Any) -> int | None:
        """Position of an entry, by a key, another name, or its number; None if there is none."""
        try:
            found = self.places.get(name)
        except TypeError:  # not hashable
            return None
        if found is None and _is_number(name) and not any(map(_is_number, self.keys)):
            found = int(name) if 0 <= name < len(self.keys) else None
        return found


def _is_number(key: Any) -> bool:
    return isinstance(key, int | np.integer) and not isinstance(key, bool)


def _are_positions(keys: list[Any]) -> bool:
    """Whether keys are those of an array, which say nothing but where an entry is."""
    rows = [key if isinstance(key, tuple) else (key,) for key in keys]
    if len({len(row) for row in rows}) != 1 or not all(_is_number(n) for row in rows for n in row):
        return False
    return rows == list(np.ndindex(*(max(column) + 1 for column in zip(*rows, strict=True))))


def joined(first: Any, last: Any) -> tuple[Any, ...]:
    """Two keys as one, as Pyomo writes those of products of sets."""
    parts = [key if isinstance(key, tuple) else (key,) for key in (first, last)]
    return (*parts[0], *parts[1])


def unpacked(parts: Any) -> Any:
    """A key of one part as that part."""
    return parts[0] if isinstance(parts, tuple) and len(parts) == 1 else parts
