"""From options to problems: domains, functionals and dual balls, with their files."""

from __future__ import annotations

import argparse
import ast
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lipyomo.cli.parser import UsageError
from lipyomo.domains import AllSpace, Box, Domain, Polytope, ball
from lipyomo.memory import MEGABYTE
from lipyomo.network import FloatArray, Network
from lipyomo.norms import LinearOutput
from lipyomo.problem import LipschitzProblem

Side = float | FloatArray


def read_array(path: Path, option: str) -> FloatArray:
    """Read the numbers of a ``.npy`` file, in their shape.

    Raises
    ------
    UsageError
        If there is no such file, or it holds something else.
    """
    loaded = _load(path, option)
    if not isinstance(loaded, np.ndarray):
        names = ", ".join(loaded)
        raise UsageError(
            f"{option}: '{path}' is an archive ({names}), not one array.  Remedy: give a .npy file"
        )
    return _numbers(loaded, path, option)


def read_archive(path: Path, option: str) -> dict[str, FloatArray]:
    """Read the arrays of a ``.npz`` file by name.

    Raises
    ------
    UsageError
        If there is no such file, or it holds something else.
    """
    loaded = _load(path, option)
    if isinstance(loaded, np.ndarray):
        raise UsageError(
            f"{option}: '{path}' holds one array without a name.  "
            "Remedy: write an .npz file with numpy.savez"
        )
    return {name: _numbers(array, path, option) for name, array in loaded.items()}


def read_any(path: Path, option: str, names: Collection[str]) -> FloatArray | dict[str, FloatArray]:
    """Read the numbers of a ``.npy`` file, or all of a ``.npz`` file that `names` stand for.

    Raises
    ------
    UsageError
        If there is no such file, or it holds something else.
    """
    loaded = _load(path, option)
    if isinstance(loaded, np.ndarray):
        return _numbers(loaded, path, option)
    wanted = {name: array for name, array in loaded.items() if name in names}
    return {name: _numbers(array, path, option) for name, array in wanted.items()}


def _load(path: Path, option: str) -> np.ndarray | dict[str, np.ndarray]:
    """Read a numpy file, never unpickling anything."""
    try:
        with path.open("rb") as stream:
            loaded = np.load(stream, allow_pickle=False)
            return loaded if isinstance(loaded, np.ndarray) else dict(loaded)
    except OSError as error:
        reason = error.strerror or "it is not a numpy file"
        raise UsageError(f"{option}: cannot read '{path}': {reason}") from None
    except (ValueError, EOFError, zipfile.BadZipFile):
        raise UsageError(
            f"{option}: '{path}' is not a numpy file of plain numbers.  "
            "Remedy: write it with numpy.save or numpy.savez"
        ) from None


def _numbers(array: np.ndarray, path: Path, option: str) -> FloatArray:
    if array.dtype.kind not in "fiub":
        raise UsageError(f"{option}: '{path}' holds {array.dtype} entries, expected numbers")
    return array.astype(np.float64)


def read_side(text: str, option: str) -> Side:
    """Read one end of a box: a number for all inputs, or a ``.npy`` file with one per input."""
    try:
        return float(text)
    except ValueError:
        if text.endswith(".npy"):
            return read_array(Path(text), option).reshape(-1)
    raise UsageError(f"{option}: '{text}' is neither a number nor a .npy file")


def read_pair(text: str, option: str) -> tuple[Side, Side]:
    """Read ``LO,HI``."""
    parts = text.split(",")
    if len(parts) != 2:
        raise UsageError(
            f"{option}: '{text}' has {len(parts)} part{'s' * (len(parts) != 1)}, expected LO,HI.  "
            "Remedy: bounds that differ between inputs go into .npy files, as in lo.npy,hi.npy"
        )
    return read_side(parts[0].strip(), option), read_side(parts[1].strip(), option)


def read_domain(arguments: argparse.Namespace, dimension: int) -> Domain:
    """Build the domain that the options describe, for a network with `dimension` inputs.

    Raises
    ------
    LipyomoError
        If the options do not fit together or the domain is none.
    """
    _check_companions(arguments)
    if arguments.box is not None:
        low, high = read_pair(arguments.box, "--box")
        return Box(low, high, dimension)
    if arguments.everywhere:
        return AllSpace(dimension)
    if arguments.ball is not None:
        return _read_ball(arguments, dimension)
    return _read_polytope(arguments)


def _check_companions(arguments: argparse.Namespace) -> None:
    kinds = (arguments.box, arguments.ball, arguments.polytope)
    if all(kind is None for kind in kinds) and not arguments.everywhere:
        raise UsageError(
            "no domain was given.  Remedy: --box LO,HI, --ball CENTER.npy --radius R, "
            "--polytope FILE.npz or --everywhere"
        )
    if arguments.ball is None:
        for name in ("radius", "ball_norm"):
            if getattr(arguments, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} needs --ball")
    elif arguments.radius is None:
        raise UsageError("--ball needs --radius R")
    if arguments.clip is not None and arguments.ball is None and arguments.polytope is None:
        raise UsageError("--clip cuts a ball or a polytope; there is neither")


def _read_ball(arguments: argparse.Namespace, dimension: int) -> Domain:
    side = read_side(arguments.ball, "--ball")
    center = np.full(dimension, side) if isinstance(side, float) else side
    if center.size != dimension:
        raise UsageError(
            f"--ball: '{arguments.ball}' has {center.size} entries, the network takes "
            f"{dimension} inputs"
        )
    clip = None if arguments.clip is None else read_pair(arguments.clip, "--clip")
    return ball(center, arguments.radius, arguments.ball_norm or "linf", clip)


def _read_polytope(arguments: argparse.Namespace) -> Polytope:
    parts = read_archive(arguments.polytope, "--polytope")
    rows, right = _rows(parts, arguments.polytope, "--polytope")
    clip = arguments.clip
    low, high = (-np.inf, np.inf) if clip is None else read_pair(clip, "--clip")
    return Polytope(rows, right, low, high)


def _rows(
    parts: Mapping[str, FloatArray], path: Path, option: str
) -> tuple[FloatArray, FloatArray]:
    if "A" not in parts or "b" not in parts:
        held = ", ".join(parts) or "nothing"
        raise UsageError(f"{option}: '{path}' must hold the arrays A and b; it holds {held}")
    if parts["A"].ndim != 2:
        raise UsageError(f"{option}: A in '{path}' has {parts['A'].ndim} axes, expected 2")
    return parts["A"], parts["b"].reshape(-1)


def read_functional(text: str) -> FloatArray:
    """Read ``1,-1`` or a ``.npy`` file."""
    if text.endswith(".npy"):
        return read_array(Path(text), "--functional").reshape(-1)
    try:
        return np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise UsageError(
            f"--functional: '{text}' is neither numbers such as 1,-1 nor a .npy file"
        ) from None


def read_dual_ball(path: Path) -> LinearOutput:
    """Read a linear norm from the vertices or the inequalities of its dual ball."""
    parts = read_archive(path, "--dual-ball")
    if "vertices" in parts:
        return LinearOutput(vertices=parts["vertices"], name=path.stem)
    rows, right = _rows(parts, path, "--dual-ball")
    return LinearOutput(A=rows, b=right, name=path.stem)


def read_problem(arguments: argparse.Namespace, network: Network) -> LipschitzProblem:
    """Build the problem that the options describe."""
    dual = arguments.dual_ball
    return LipschitzProblem(
        network,
        read_domain(arguments, network.input_dim),
        input_norm=arguments.norm,
        output_norm=arguments.output_norm if dual is None else read_dual_ball(dual),
        functional=None if arguments.functional is None else read_functional(arguments.functional),
        margin=arguments.margin,
    )


def read_options(words: list[str], defaults: Mapping[str, object]) -> dict[str, Any]:
    """Read ``NAME=VALUE`` words; each value gets the type of the method's default."""
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


def read_memory(megabytes: float | None) -> int | None:
    """Read ``--memory-limit`` in bytes.

    Raises
    ------
    UsageError
        If it is not positive.
    """
    if megabytes is None or megabytes == np.inf:
        return None
    if not megabytes > 0:
        raise UsageError("--memory-limit must be positive: megabytes, such as 4000")
    return int(megabytes * MEGABYTE)


def read_solvers(path: Path | None, solver: str) -> Path | None:
    """Read ``--solvers`` and ``--solver``, so that a wrong one is found before anything is run.

    Raises
    ------
    LipyomoError
        If the file is missing or wrong, has no such solver, or the solver cannot be used.
    """
    if path is not None or solver != "auto":
        from lipyomo.solvers.registry import get_solver, resolve_settings

        table = resolve_settings(path)
        if solver != "auto":
            get_solver(solver, table)
    return path
