"""Reading a proof file: gzipped lines of JSON, with limits, and values of the right kinds only."""

from __future__ import annotations

import gzip
import io
import json
import math
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lipyomo_check.errors import ProofError

MOST_EXPANSION = 60
"""The largest ratio of a file's unpacked size (less a megabyte) to its size."""

EXPANDS = "the file unpacks to far more than its size"

MOST_NUMBERS = 4_000_000
"""The largest number of lists in a line, of pairs of vertex and direction, of numbers of rows."""


def read(path: Path) -> bytes:
    """Return the content of a file, as it stands there.

    Raises
    ------
    ProofError
        If it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise ProofError(f"{path} cannot be read: {error.strerror}") from None


def lines(data: bytes) -> Iterator[Any]:
    """Return the JSON values of the lines of a proof file, from its content.

    Raises
    ------
    ProofError
        If it is torn, or unpacks to far more than its size.
    """
    with _unpacked(data) as (stream, room):
        while text := stream.readline(room + 1):
            room -= len(text)
            if room < 0:
                raise ProofError(EXPANDS)
            if not text.endswith(b"\n"):
                raise ProofError("the last line is torn")
            yield _parsed(text)


def after_first_line(data: bytes) -> bytes:
    """Return the part of a proof file after its first line, from its content.

    Raises
    ------
    ProofError
        If it is damaged, or unpacks to far more than its size.
    """
    with _unpacked(data) as (stream, room):
        text = stream.read(room + 1)
    if len(text) > room:
        raise ProofError(EXPANDS)
    return text.partition(b"\n")[2]


@contextmanager
def _unpacked(data: bytes) -> Iterator[tuple[gzip.GzipFile, int]]:
    """Return a file's content as a stream, and how many bytes it may have."""
    try:
        with gzip.open(io.BytesIO(data)) as stream:
            yield stream, MOST_EXPANSION * len(data) + (1 << 20)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ProofError("the file is not gzipped, damaged, or ends in the middle") from None


def _parsed(text: bytes) -> Any:
    def refuse(word: str) -> Any:
        raise ValueError(word)

    if text.count(b"[") > MOST_NUMBERS:
        raise ProofError("a line has too many lists")
    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        raise ProofError("a line is not JSON") from None


def entry(record: Any, name: str) -> Any:
    """Return an entry of a JSON object."""
    if not isinstance(record, dict) or name not in record:
        raise ProofError(f"the entry '{name}' is missing")
    return record[name]


def real(value: Any, name: str = "a number") -> float:
    """Return a finite number."""
    if type(value) is int and abs(value) < 1 << 62:
        value = float(value)
    if type(value) is not float or not math.isfinite(value):
        raise ProofError(f"{name} is not a finite number")
    return value


def listed(value: Any, name: str, size: int | None = None) -> list[Any]:
    """Return a list, of a given length."""
    if not isinstance(value, list) or (size is not None and len(value) != size):
        raise ProofError(f"{name} is not a list" + ("" if size is None else f" of {size} entries"))
    return value


def reals(value: Any, name: str, size: int | None = None) -> list[float]:
    """Return a list of finite numbers."""
    return [real(item, name) for item in listed(value, name, size)]


def wholes(value: Any, name: str, most: float = math.inf, size: int | None = None) -> list[int]:
    """Return a list of integers from 0 to `most`."""
    given = listed(value, name, size)
    if set(map(type, given)) - {int} or (given and not 0 <= min(given) <= max(given) <= most):
        raise ProofError(f"{name} is not a whole number from 0 to {most}")
    return given


def whole(value: Any, name: str, most: float) -> int:
    """Return an integer from 0 to `most`."""
    return wholes([value], name, most)[0]


def sparse(value: Any, name: str, size: int, read: Callable[[Any, str], list[Any]]) -> Any:
    """Return a list of indices and one of their numbers, as a dictionary."""
    indices, numbers = listed(value, name, 2)
    found = dict(zip(wholes(indices, name, size - 1), read(numbers, name), strict=False))
    if not len(found) == len(indices) == len(numbers):
        raise ProofError(f"{name} has an index twice, or without a number")
    return found
