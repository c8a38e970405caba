"""The encoding of the steps of cases in a proof file, in bytes.

codes    a number a case: 0, it ends here; k + 1, it is split along axis k (the inputs, then the
directions, which are split into -1 and 1, then the breaks of units)
flags    a bit for each case that is split: whether cuts follow
cuts     a byte for each input and direction of these: how many 256ths of an input's width are
cut off, or whether one sign of a direction is
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lipyomo_check.errors import ProofError

SHARES = int(np.iinfo(np.uint8).max) + 1
"""A cut takes a whole number of these parts of a width: a byte."""

Bytes = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.uint16]


class Step(NamedTuple):
    """A code for each case, and for those that are split the shares that are cut off."""

    codes: Codes
    cuts: Bytes


class Payload:
    """The bytes of a file after its first line, read in order."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    def following(self, kind: type, count: int) -> npt.NDArray[np.generic]:
        """Return the next numbers.

        Raises
        ------
        ProofError
            If there are fewer.
        """
        size = count * np.dtype(kind).itemsize
        if self._place + size > len(self._data):
            raise ProofError("the file ends before its last case")
        little = np.dtype(kind).newbyteorder("<")
        found = np.frombuffer(self._data, dtype=little, count=count, offset=self._place)
        self._place += size
        return found

    def codes(self, count: int, axes: int) -> Codes:
        """Return the codes of so many cases, that are split in so many ways."""
        codes = self.following(code_type(axes), count).astype(np.uint16)
        if (codes > axes).any():
            raise ProofError("a case is split along an axis that there is not")
        return codes

    def end(self) -> None:
        """Raise an error if there is more."""
        if self._place != len(self._data):
            raise ProofError("the file goes on after its last case")


def total_of(counts: Iterable[int], progress: Callable[[int], object] | None = None) -> int:
    """Return the number of cases of a tree; `progress` is called with the number so far."""
    total = 0
    for count in counts:
        total += count
        if progress is not None:
            progress(total)
    return total


def read_step(payload: Payload, count: int, sides: int, axes: int) -> Step:
    """Read what becomes of cases with so many inputs and directions, and so many ways to split."""
    codes, following = payload.codes(count, axes), payload.following
    inner = int((codes > 0).sum())
    flags = np.unpackbits(following(np.uint8, -(-inner // 8)).astype(np.uint8), count=inner)
    cuts = np.zeros((inner, sides), dtype=np.uint8)
    which = flags.astype(bool)
    cuts[which] = following(np.uint8, int(which.sum()) * sides).reshape(-1, sides)
    return Step(codes, cuts)


def write_step(step: Step, axes: int) -> bytes:
    """Return the bytes that `read_step` reads."""
    flags = step.cuts.any(axis=1)
    return write_codes(step.codes, axes) + np.packbits(flags).tobytes() + step.cuts[flags].tobytes()


def write_codes(codes: Codes, axes: int) -> bytes:
    """Return the bytes that `Payload.codes` reads."""
    return codes.astype(np.dtype(code_type(axes)).newbyteorder("<")).tobytes()


def code_type(axes: int) -> type:
    """Return a code's type: a byte where all axes have room in it."""
    return np.uint8 if axes < SHARES else np.uint16
