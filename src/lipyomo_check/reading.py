"""Reading a proof file: gzipped lines of JSON, with limits, and values of the right kinds only."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flint import fmpq, fmpz

from lipyomo_check.errors import ProofError

MOST_EXPANSION = 60
"""A file may not unpack to more than so many times its size (and a megabyte)."""

MOST_DIGITS = 20_000
"""Length of a fraction."""

MOST_DEPTH = 20
"""Nesting of a line."""

_OTHERS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def lines(path: Path) -> Iterator[Any]:
    """The JSON values of the lines of a proof file.

    Raises
    ------
    ProofError
        If the file cannot be read, is torn, or unpacks to far more than its size.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            yield from _parsed(_unpacked(stream, MOST_EXPANSION * size + (1 << 20)))
    except OSError as error:
        raise ProofError(f"{path} cannot be read: {error.strerror}") from None


def _unpacked(stream: Any, room: int) -> Iterator[bytes]:
    """Lines of a gzip stream of at most `room` bytes."""
    unpack = zlib.decompressobj(wbits=31)
    rest, total = b"", 0
    while not unpack.eof:
        piece = stream.read(1 << 16)
        if not piece:
            raise ProofError("the file ends in the middle")
        while piece:
            try:
                text = unpack.decompress(piece, 1 << 20)
            except zlib.error:
                raise ProofError("the file is not gzipped, or damaged") from None
            piece = unpack.unconsumed_tail
            total += len(text)
            if total > room:
                raise ProofError("the file unpacks to far more than its size")
            *whole, rest = (rest + text).split(b"\n")
            yield from whole
    if unpack.unused_data or stream.read(1):
        raise ProofError("the file goes on after its end")
    if rest:
        raise ProofError("the last line is torn")


def _parsed(texts: Iterator[bytes]) -> Iterator[Any]:
    def refuse(word: str) -> Any:
        raise ValueError(word)

    for text in texts:
        if text.count(b"[") > 10**7 or _depth(text) > MOST_DEPTH:
            raise ProofError("a line is nested too deeply")
        try:
            yield json.loads(text, parse_constant=refuse, parse_int=_integer)
        except (ValueError, RecursionError):
            raise ProofError("a line is not JSON") from None


def _depth(text: bytes) -> int:
    """An upper bound of the nesting (brackets in strings count as well)."""
    depth = deepest = 0
    for byte in text.translate(None, _OTHERS):
        depth += 1 if byte in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _integer(digits: str) -> int:
    if len(digits) > 18:
        raise ValueError(digits)
    return int(digits)


def entry(record: Any, name: str) -> Any:
    """An entry of a JSON object."""
    if not isinstance(record, dict) or name not in record:
        raise ProofError(f"the entry '{name}' is missing")
    return record[name]


def real(value: Any, name: str = "a number") -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ProofError(f"{name} is not a finite number")
    return float(value)


def extended(value: Any, name: str) -> float:
    """A number, or one of the words inf and -inf."""
    if value in ("inf", "-inf"):
        return float(value)
    return real(value, name)


def whole(value: Any, name: str, least: int, most: int) -> int:
    """An integer with `least <= value <= most`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ProofError(f"{name} is not a whole number from {least} to {most}")
    return value


def listed(value: Any, name: str, size: int | None = None) -> list[Any]:
    """A list, of a given length."""
    if not isinstance(value, list) or (size is not None and len(value) != size):
        raise ProofError(f"{name} is not a list" + ("" if size is None else f" of {size} entries"))
    return value


def reals(value: Any, name: str, size: int | None = None) -> list[float]:
    """A list of finite numbers."""
    plain = isinstance(value, list) and all(type(v) is float for v in value)
    if plain and size in (None, len(value)) and all(map(math.isfinite, value)):
        return list(value)
    return [real(item, name) for item in listed(value, name, size)]


def sparse(value: Any, name: str, size: int) -> dict[int, float]:
    """A list of (index, number) pairs, each index once."""
    found: dict[int, float] = {}
    for index, number in _pairs(value, name, size):
        found[index] = real(number, name)
    return found


def weights(value: Any, name: str, size: int) -> dict[int, float | fmpq]:
    """Like `sparse`; numbers may be fractions as well, ``"p/q"`` in decimal digits."""
    return {index: _weight(number, name) for index, number in _pairs(value, name, size)}


def _weight(value: Any, name: str) -> float | fmpq:
    if not isinstance(value, str):
        return real(value, name)
    parts = value.split("/")
    if (
        len(value) > MOST_DIGITS
        or len(parts) != 2
        or not all(p.isascii() and p.isdigit() for p in parts)
    ):
        raise ProofError(f"{name} is not a fraction")
    top, bottom = (fmpz(part) for part in parts)
    if bottom == 0:
        raise ProofError(f"{name} is not a fraction")
    return fmpq(top, bottom)


def _pairs(value: Any, name: str, size: int) -> Iterator[tuple[int, Any]]:
    """(index, entry) pairs, each index once."""
    found: set[int] = set()
    for pair in listed(value, name):
        index, number = listed(pair, name, 2)
        index = whole(index, name, 0, size - 1)
        if index in found:
            raise ProofError(f"{name} has the index {index} twice")
        found.add(index)
        yield index, number
