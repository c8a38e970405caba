"""What a proof file says of cases, in bytes.

codes    a number a case: 0, it ends here; k + 1, it is split along axis k (the inputs, then the
directions, which are split into -1 and 1, then the breaks of units)
flags    a bit for each case that is split: whether cuts follow
cuts     a byte for each input and direction of these: how many 256ths of an input's width are
cut off, or whether one sign of a direction is
"""

from __future__ import annotations

from collections.abc import Callable
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


def read_step(
    following: Callable[[type, int], npt.NDArray[np.generic]], count: int, sides: int, axes: int
) -> Step:
    """Read what becomes of cases with so many inputs and directions, and so many ways to split."""
    codes = following(code_type(axes), count).astype(np.uint16)
    if (codes > axes).any():
        raise ProofError("a case is split along an axis that there is not")
    inner = int((codes > 0).sum())
    flags = np.unpackbits(following(np.uint8, -(-inner // 8)).astype(np.uint8), count=inner)
    cuts = np.zeros((inner, sides), dtype=np.uint8)
    which = flags.astype(bool)
    cuts[which] = following(np.uint8, int(which.sum()) * sides).reshape(-1, sides)
    return Step(codes, cuts)


def write_step(step: Step, axes: int) -> bytes:
    """The bytes that `read_step` reads."""
    flags = step.cuts.any(axis=1)
    codes = step.codes.astype(np.dtype(code_type(axes)).newbyteorder("<"))
    return codes.tobytes() + np.packbits(flags).tobytes() + step.cuts[flags].tobytes()


def code_type(axes: int) -> type:
    """A code's type: a byte where all axes have room in it."""
    return np.uint8 if axes < SHARES else np.uint16
