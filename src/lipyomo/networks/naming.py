"""Names of a network's inputs: what they may be, and which inputs are meant by them."""

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
        If these are not as many texts as there are inputs, each another one.
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
    """The names of inputs that several networks share: those of the first one that has any.

    Parameters
    ----------
    given : sequence of (str, names or None)
        What each network is called, and the names of its inputs.

    Raises
    ------
    NetworkError
        If an input of one has the name of another input of the other: they are not in one order.
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
    """Indices for names of inputs; any other selection as it is.

    Parameters
    ----------
    selection : str, iterable of str and indices, or anything else
    names : tuple of str, or None
        Of single inputs.
    parts : mapping of str to int, optional
        Names of inputs that follow each other, and the number of entries of each.
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
    """What an input is called: its name, or its number behind a word."""
    return f"{kind}{index}" if names is None else names[index]


def some(names: Names | None, which: Any) -> Names | None:
    """The names of some inputs, by their indices or a mask."""
    return None if names is None else tuple(np.array(names, dtype=object)[which].tolist())
