"""Reading numbers from options and from NumPy files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.quantities import read_number
from lipyomo.base.system.archives import read_arrays
from lipyomo.base.system.outputs import shown
from lipyomo.cli.words import UsageError

Side = float | FloatArray
"""One number for all inputs, or one per input."""


def read_array(text: str, option: str) -> FloatArray:
    """Read the numbers of a ``.npy`` file, in their shape.

    Raises
    ------
    UsageError
        If the file does not exist or contains something else.
    """
    path = Path(text)
    loaded = load_numpy(path, option)
    if not isinstance(loaded, np.ndarray):
        names = ", ".join(loaded)
        raise UsageError(
            f"{option}: '{path}' is an archive ({names}), not one array.  Remedy: give a .npy file"
        )
    return check_numbers(loaded, path, option)


def read_archive(path: Path, option: str) -> dict[str, FloatArray]:
    """Read the arrays of a ``.npz`` file by name.

    Raises
    ------
    UsageError
        If the file does not exist or contains something else.
    """
    loaded = load_numpy(path, option)
    if isinstance(loaded, np.ndarray):
        raise UsageError(
            f"{option}: '{path}' holds one array without a name.  "
            "Remedy: write an .npz file with numpy.savez"
        )
    return {name: check_numbers(array, path, option) for name, array in loaded.items()}


def load_numpy(path: Path, option: str) -> np.ndarray | dict[str, np.ndarray]:
    """Read a NumPy file, without unpickling."""
    try:
        return read_arrays(path)
    except OSError as error:
        reason = error.strerror or "it is not a numpy file"
        raise UsageError(f"{option}: cannot read {shown(path)}: {reason}") from None
    except ValueError:
        raise UsageError(
            f"{option}: '{path}' is not a numpy file of plain numbers.  "
            "Remedy: write it with numpy.save or numpy.savez"
        ) from None


def check_numbers(array: np.ndarray, path: Path, option: str) -> FloatArray:
    """Check that an array contains numbers."""
    if array.dtype.kind not in "fiub":
        raise UsageError(f"{option}: '{path}' holds {array.dtype} entries, expected numbers")
    return array.astype(np.float64)


def read_numbers(text: str, option: str) -> FloatArray:
    """Read numbers such as ``1,-1``, or those of a ``.npy`` file, flattened."""
    if text.endswith(".npy"):
        return read_array(text, option).reshape(-1)
    try:
        return np.array([read_number(part) for part in text.split(",")])
    except ValueError:
        raise UsageError(
            f"{option}: '{text}' is neither numbers such as 1,-1 nor a .npy file"
        ) from None


def read_side(text: str, option: str) -> Side:
    """Read a number for all inputs, or one per input."""
    try:
        return read_number(text)
    except ValueError:
        if "," in text or text.endswith(".npy"):
            return read_numbers(text, option)
    raise UsageError(f"{option}: '{text}' is neither a number nor a .npy file")


def read_pair(text: str, option: str) -> tuple[Side, Side]:
    """Read ``LO,HI``, or one ``LO:HI`` per input, such as ``0.2:5,0:0.95``."""
    parts = [part.strip() for part in text.split(",")]
    try:
        low, high = np.array([list(map(read_number, part.split(":"))) for part in parts]).T
    except ValueError:  # not pairs of numbers; files, for example
        pass
    else:
        return low, high
    if len(parts) != 2:
        raise UsageError(
            f"{option}: '{text}' has {len(parts)} part{'s' * (len(parts) != 1)}, expected LO,HI.  "
            "Remedy: bounds that differ between inputs are LO:HI,LO:HI,... with as many pairs as "
            "inputs, or .npy files, as in lo.npy,hi.npy"
        )
    return read_side(parts[0], option), read_side(parts[1], option)


def read_inequalities(text: str, option: str) -> tuple[FloatArray, FloatArray]:
    """Read A and b of an ``.npz`` file."""
    parts = read_archive(Path(text), option)
    if "A" not in parts or "b" not in parts:
        held = ", ".join(parts) or "nothing"
        raise UsageError(f"{option}: '{text}' must hold the arrays A and b; it holds {held}")
    if parts["A"].ndim != 2:
        raise UsageError(f"{option}: A in '{text}' has {parts['A'].ndim} axes, expected 2")
    return parts["A"], parts["b"].reshape(-1)
