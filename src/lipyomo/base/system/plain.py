"""Conversion of values to plain data for JSON, and validated reading of such data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum, StrEnum
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from lipyomo.base.arguments import brief, instance, one_of, real_number, real_numbers, whole_number
from lipyomo.base.errors import LipyomoError

Value = TypeVar("Value")
Member = TypeVar("Member", bound=StrEnum)


def finite(value: float | None) -> float | None:
    """Return `value`, or None if JSON has no number for it."""
    if value is None or not math.isfinite(value):
        return None
    return float(value)


def plain(data: object) -> Any:
    """Convert arrays, tuples, enums and infinities to JSON's types."""
    if isinstance(data, dict):
        return {str(key): plain(item) for key, item in data.items()}
    if isinstance(data, list | tuple):
        return [plain(item) for item in data]
    if isinstance(data, np.ndarray):
        return plain(data.tolist())
    if isinstance(data, np.generic):
        return plain(data.item())
    if isinstance(data, Enum):
        return data.value
    if isinstance(data, float):
        return finite(data)
    return data


class PlainEntries:
    """Untrusted plain data, read entry by entry.

    Entries that are missing or of another type raise errors, whose messages name the entry.

    Parameters
    ----------
    data : mapping
    what : str
        Names the data in messages, such as ``the result``.
    error : type
        Type of the exceptions.
    """

    def __init__(self, data: Any, what: str, error: type[LipyomoError]) -> None:
        instance(data, Mapping, what, error, "give what lipyomo has written")
        self._data, self._what, self._error = data, what, error

    def _at(self, name: str) -> tuple[Any, str, type[LipyomoError]]:
        """Return the leading arguments of `real_number` etc.: entry, name in messages, error."""
        if name not in self._data:
            raise self._error(
                f"{self._what} has no entry {name!r}.  Remedy: give what lipyomo has written"
            )
        return self._data[name], f"{name!r} of {self._what}", self._error

    def optional(self, name: str, read: Callable[[str], Value]) -> Value | None:
        """Read an entry that may be None or missing, by one of the other methods."""
        return None if self._data.get(name) is None else read(name)

    def number(self, name: str) -> float:
        """Read a number."""
        return real_number(*self._at(name))

    def end(self, name: str) -> float:
        """Read a number that was written as None if it was infinite."""
        return _end(*self._at(name))

    def count(self, name: str) -> int:
        """Read a whole number of at least 0."""
        return whole_number(*self._at(name))

    def member(self, name: str, kind: type[Member]) -> Member:
        """Read a value of an enumeration."""
        value, what, error = self._at(name)
        one_of(value, [str(member) for member in kind], what, error)
        return kind(value)

    def truth(self, name: str) -> bool:
        """Read True or False."""
        return bool(self._as(bool, name, "True or False"))

    def text(self, name: str) -> str:
        """Read text."""
        return str(self._as(str, name, "text"))

    def mapping(self, name: str) -> dict[str, Any]:
        """Read a mapping from names to any plain data."""
        return dict(self._as(dict, name, "names and values"))

    def texts(self, name: str) -> list[str]:
        """Read a list of text."""
        found = list(self._as(list, name, "a list"))
        for entry in found:
            instance(entry, str, f"an entry of {self._at(name)[1]}", self._error, "give text")
        return found

    def vector(self, name: str) -> npt.NDArray[np.float64]:
        """Read a list of numbers, shape (n,)."""
        found = real_numbers(*self._at(name))
        if found.ndim != 1:
            raise self._error(f"{self._at(name)[1]} has shape {found.shape}, expected a list")
        return found

    def rows(self, name: str, width: int) -> list[tuple[float, ...]]:
        """Read rows of `width` numbers, which were written as None if they were infinite."""
        what, found = self._at(name)[1], []
        for row in self._as(list, name, "a list"):
            if not isinstance(row, list | tuple) or len(row) != width:
                raise self._error(f"a row of {what} is {brief(row)}, expected {width} numbers")
            found.append(tuple(_end(entry, what, self._error) for entry in row))
        return found

    def _as(self, kind: type, name: str, words: str) -> Any:
        value, what, error = self._at(name)
        instance(value, kind, what, error, f"give {words}")
        return value


def _end(value: Any, what: str, error: type[LipyomoError]) -> float:
    return math.inf if value is None else real_number(value, what, error)
