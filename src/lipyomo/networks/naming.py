"""Names of a network's inputs: checks, and conversion of names to indices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from lipyomo.base.arguments import brief, instance
from lipyomo.base.errors import LipyomoError, NetworkError

Names = tuple[str, ...]


def read_names(names: Any, inputs: int) -> Names:
    """Read the names of all inputs.

    Raises
    ------
    NetworkError
        If these are not distinct strings, one for each input.
    """
    remedy = "give a sequence of texts, one for each input"
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise NetworkError(f"the names of inputs are {brief(names)}.  Remedy: {remedy}")
    found = tuple(names)
    for name in found:
        instance(name, str, "the name of an input", NetworkError, remedy)
        if not name.strip():
            raise NetworkError(f"the name of an input is empty.  Remedy: {remedy}")
    if len(found) != inputs:
        raise NetworkError(f"{len(found)} names for {inputs} inputs.  Remedy: {remedy}")
    if len(set(found)) < inputs:
        twice = next(name for k, name in enumerate(found) if name in found[:k])
        raise NetworkError(f"two inputs are called '{twice}'.  Remedy: names that differ")
    return tuple(str(name) for name in found)


def common_names(given: Sequence[tuple[str, Names | None]]) -> Names | None:
    """Return the input names of networks with common inputs: those of the first one with names.

    Parameters
    ----------
    given : sequence of (str, names or None)
        The name of each network, and the names of its inputs.

    Raises
    ------
    NetworkError
        If the same name belongs to different positions: the inputs are in different orders.
    """
    named = [(network, names) for network, names in given if names is not None]
    for (one, first), (two, second) in pairwise(named):
        places = {name: k for k, name in enumerate(first)}
        moved = [name for k, name in enumerate(second) if places.get(name, k) != k]
        if moved:
            raise NetworkError(
                f"input '{moved[0]}' is number {places[moved[0]]} of {one}, and number "
                f"{second.index(moved[0])} of {two}.  Remedy: put the inputs of both into one "
                "order; if they are and only the names are wrong, set input_names"
            )
    return named[0][1] if named else None


def by_name(
    selection: Any,
    names: Names | None,
    parts: Mapping[str, int] | None = None,
    what: str = "wrt",
    error: type[LipyomoError] = LipyomoError,
) -> Any:
    """Convert names of inputs to indices; any other selection is returned as it is.

    Parameters
    ----------
    selection : str, iterable of str and indices, or anything else
    names : tuple of str, or None
        Names of single inputs.
    parts : mapping of str to int, optional
        Names of consecutive groups of inputs, and the number of entries of each.
    what : str, optional
        Names the argument in messages.
    error : type, optional
        What to raise.

    Raises
    ------
    LipyomoError
        Of type `error`, if there is no input of a name.
    """
    entries = [selection] if isinstance(selection, str) else selection
    if not isinstance(entries, list | tuple) or not any(isinstance(e, str) for e in entries):
        return selection
    sizes = dict(parts or {})
    ends = [0, *accumulate(sizes.values())]
    places = {name: list(range(*pair)) for name, pair in zip(sizes, pairwise(ends), strict=True)}
    places |= {name: [k] for k, name in enumerate(names or ())}
    found: list[Any] = []
    for entry in entries:
        if isinstance(entry, str) and entry not in places:
            known = ", ".join(map(repr, places)) or "no names"
            raise error(f"{what} names {brief(entry)}, and the inputs have {known}")
        found += places[entry] if isinstance(entry, str) else [entry]
    return found


def called(index: int, names: Names | None, kind: str = "input ") -> str:
    """Return the name of an input, or its number after a word."""
    return f"{kind}{index}" if names is None else names[index]


def some(names: Names | None, which: Any) -> Names | None:
    """Return the names of some inputs, by indices or a mask."""
    return None if names is None else tuple(np.array(names, dtype=object)[which].tolist())
