"""Reading values of options: numbers, inputs, norms, files, options of methods."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.pictures import new_figure
from lipyomo.base.quantities import read_bytes, read_number
from lipyomo.base.system import outputs
from lipyomo.base.system.archives import read_arrays
from lipyomo.base.system.outputs import Kind, OutputError, check_output, picture, shown
from lipyomo.cli.words import UsageError, file_path
from lipyomo.problems.norms import LinearOutput

if TYPE_CHECKING:
    from lipyomo.problems.domains.vnnlib import VnnLib

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


def read_selection(text: str, option: str) -> list[int] | slice | list[str]:
    """Read indices of inputs such as ``0,3``, a range such as ``5:9``, or names of inputs."""
    if re.fullmatch(r"\s*(-?\d+)?\s*:\s*(-?\d+)?\s*(:\s*(-?\d+)?\s*)?", text):
        return slice(*(int(part) if part.strip() else None for part in text.split(":")))
    parts = [part.strip() for part in text.split(",")]
    if all(re.fullmatch(r"-?\d+", part) for part in parts):
        return [int(part) for part in parts]
    if not all(parts) or any(part[0] in "-.0123456789" for part in parts):
        raise UsageError(
            f"{option}: '{text}' is neither numbers of inputs such as 0,3, a range such as 5:9, "
            "nor names"
        )
    return parts


def read_dual_ball(text: str, option: str) -> LinearOutput:
    """Read a linear norm from the vertices or the inequalities of its dual ball."""
    path = Path(text)
    parts = read_archive(path, option)
    if "vertices" in parts:
        return LinearOutput(vertices=parts["vertices"], name=path.stem)
    A, b = read_inequalities(text, option)
    return LinearOutput(A=A, b=b, name=path.stem)


class QueryFile(NamedTuple):
    """A VNN-LIB file and its query."""

    path: Path
    query: VnnLib


def read_query_file(text: str, _: str) -> QueryFile:
    """Read a VNN-LIB file."""
    from lipyomo.problems.domains.vnnlib import read_vnnlib

    path = file_path(text)
    return QueryFile(path, read_vnnlib(path))


def read_fix(text: str, option: str) -> tuple[str, FloatArray]:
    """Read ``NAME=VALUE``: a number, numbers with commas, or a ``.npy`` file in its shape."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise UsageError(f"{option}: '{text}' is not of the form NAME=VALUE")
    return name, read_numbers(value, option)


def read_named(text: str, _: str) -> tuple[str | None, Path]:
    """Read ``NAME=FILE``, or a file alone."""
    name, equals, path = text.partition("=")
    if equals and re.fullmatch(r"[A-Za-z]\w*", name):
        return name, file_path(path)
    return None, file_path(text)


def read_options(words: list[str], defaults: Mapping[str, object]) -> dict[str, Any]:
    """Read words ``NAME=VALUE``; each value gets the type of the method's default."""
    options: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not (name and equals):
            raise UsageError(f"--option: '{word}' is not of the form NAME=VALUE")
        options[name] = _typed(name, text, defaults.get(name))
    return options


def _typed(name: str, text: str, default: object) -> Any:
    """Read `text` as a value of the type of `default`; as any literal if that is None."""
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False}[text.lower()]
        if isinstance(default, int):
            return int(text)
        if isinstance(default, float):
            return float(text)
        return text if isinstance(default, str) else ast.literal_eval(text)
    except (KeyError, ValueError, SyntaxError):
        if default is None:
            return text
    wanted = {"bool": "true or false", "int": "a whole number", "float": "a number"}
    kind = wanted.get(type(default).__name__, f"like {default!r}")
    raise UsageError(f"--option: {name} must be {kind}, not '{text}'")


def read_memory(text: str, option: str) -> int | None:
    """Read an amount of memory such as ``2GB`` in bytes; a plain number is in megabytes."""
    try:
        size = read_bytes(text if text.strip()[-1:].lower() == "b" else f"{text}MB")
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
    return None if math.isinf(size) else int(size)


def read_output(text: str, option: str, kind: str, *endings: str) -> Path:
    """Read the name of a file to write, and check before a long run that this is possible.

    Parameters
    ----------
    text, option : str
    kind : str
        Name of the kind of file in `lipyomo.base.system.outputs`.
    *endings : str
        Allowed endings of the file's name.
    """
    path = Path(text)
    if endings and path.suffix not in endings:
        raise UsageError(f"{option}: {shown(text)} should end in {' or '.join(endings)}")
    _check_new(option, text and path, getattr(outputs, kind))
    return path


def read_picture(text: str, option: str) -> Path:
    """Read the name of a picture, and check before a long run that it can be drawn.

    Raises
    ------
    UsageError
        If its format is unknown, or the file cannot or must not be written.
    MissingExtra
        If matplotlib is not installed.
    """
    path = Path(text)
    if path.suffix[1:].lower() not in new_figure(1.0, 1.0).canvas.get_supported_filetypes():
        raise UsageError(
            f"{option}: {shown(path)} has no known format.  Remedy: end it in .png, .pdf or .svg"
        )
    _check_new(option, path, picture(path))
    return path


def _check_new(option: str, path: Any, kind: Kind) -> None:
    try:
        check_output(path, kind)
    except OutputError as error:
        raise UsageError(f"{option}: {error}") from None
