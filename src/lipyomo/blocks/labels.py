"""The keys of a block's inputs and outputs: those of the user's own sets, where they say more.

Who passes ``m.x`` over ``["angle", "vel"]`` reads ``gradient["vel"]`` and ``jacobian["y", "vel"]``.
Who passes a list, or a variable over mere positions, gets the indices of the network's tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from pyomo.core.base.expression import IndexedExpression
from pyomo.core.base.var import IndexedVar

from lipyomo.base.arguments import deprecated


def keys_of(shape: tuple[int, ...]) -> list[Any]:
    """The keys of an array: numbers for a vector, else tuples of them, row by row."""
    return list(range(shape[0])) if len(shape) == 1 else list(np.ndindex(*shape))


def entries_of(part: Any) -> dict[Any, Any]:
    """What is in a slice now, by what stands in the place of its wildcards."""
    found = [(_plain(key), item) for key, item in part.wildcard_items()]
    entries = dict(found)
    return entries if len(entries) == len(found) else dict(enumerate(item for _, item in found))


@dataclass(frozen=True)
class Labels:
    """The keys of inputs or outputs, in order, and what else they are called.

    Attributes
    ----------
    keys : list
    others : mapping
        Further names of the same entries, to keys: positions where `keys` are the user's own, the
        user's positions where `keys` are those of a tensor.
    former : bool
        Whether the further names are those of the version before, and are warned of.
    """

    keys: list[Any]
    others: Mapping[Any, Any] = field(default_factory=dict)
    former: bool = False

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
        if own == plain:
            return cls(plain)
        if _are_positions(own):
            return cls(plain, _apart(own, plain))
        return cls(own, _apart(plain, own), former=True)

    @cached_property
    def places(self) -> dict[Any, int]:
        """Position by key, or by another name."""
        found = {key: j for j, key in enumerate(self.keys)}
        return {name: found[key] for name, key in self.others.items()} | found

    def place(self, name: Any) -> int | None:
        """Position of an entry, by a key, another name, or its number; None if there is none."""
        try:
            found = self.places.get(name)
        except TypeError:  # not hashable
            return None
        if found is None and _is_number(name) and not any(map(_is_number, self.keys)):
            found = int(name) if 0 <= name < len(self.keys) else None
        return found

    def key(self, name: Any) -> Any:
        """The key that another name stands for, or None."""
        found = self.others.get(name)
        if found is not None and self.former:
            deprecated(f"the position {name!r}", f"the key {found!r}")
        return name if found is None and name in self.places else found


def _is_number(key: Any) -> bool:
    return isinstance(key, int | np.integer) and not isinstance(key, bool)


def _are_positions(keys: list[Any]) -> bool:
    """Whether keys are those of an array, which say nothing but where an entry is."""
    rows = [key if isinstance(key, tuple) else (key,) for key in keys]
    if len({len(row) for row in rows}) != 1 or not all(_is_number(n) for row in rows for n in row):
        return False
    return rows == list(np.ndindex(*(max(column) + 1 for column in zip(*rows, strict=True))))


def _apart(names: list[Any], keys: list[Any]) -> dict[Any, Any]:
    """Names with their keys, unless one of them is a key of something else."""
    return {} if set(names) & set(keys) else dict(zip(names, keys, strict=True))


class ByName:
    """An indexed component whose entries have further names."""

    labels: tuple[Labels, ...] = ()
    """Of the parts of a key."""

    def __getitem__(self, key: Any) -> Any:
        found: Any = super()  # of the component that this is mixed into
        if self.labels:
            try:
                known = found.__contains__(key)
            except TypeError:  # a slice
                known = True
            if not known:
                key = self._key_of(key)
        return found.__getitem__(key)

    def _key_of(self, name: Any) -> Any:
        """The key that a name stands for; the name itself if it stands for none."""
        if len(self.labels) == 1:
            found = self.labels[0].key(name)
            return name if found is None else found
        first, last = self.labels
        keys = both_keys(first, last, name)
        return name if keys is None else joined(*keys)


def both_keys(first: Labels, last: Labels, name: Any) -> tuple[Any, Any] | None:
    """The keys that the two parts of a name stand for, or None."""
    parts = name if isinstance(name, tuple) else (name,)
    for cut in range(1, len(parts)):
        keys = first.key(_plain(parts[:cut])), last.key(_plain(parts[cut:]))
        if None not in keys:
            return keys
    return None


def joined(first: Any, last: Any) -> tuple[Any, ...]:
    """Two keys as one, as Pyomo writes those of products of sets."""
    parts = [key if isinstance(key, tuple) else (key,) for key in (first, last)]
    return (*parts[0], *parts[1])


def _plain(parts: Any) -> Any:
    """A key of one part as that part."""
    return parts[0] if isinstance(parts, tuple) and len(parts) == 1 else parts


class NamedExpression(ByName, IndexedExpression):
    """Indexed expressions that have further names."""


class NamedVar(ByName, IndexedVar):
    """An indexed variable whose entries have further names."""
