"""From options to problems: domains, functionals and dual balls."""

from __future__ import annotations

import argparse
import ast
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from lipyomo.api import chosen_settings
from lipyomo.cli.arrays import read_archive, read_numbers, read_rows
from lipyomo.cli.streams import warn
from lipyomo.cli.words import UsageError, file_path
from lipyomo.domains import AllSpace, Box, Domain, Polytope, ball
from lipyomo.domains.vnnlib import VnnLib, read_vnnlib
from lipyomo.memory import MEGABYTE
from lipyomo.network import FloatArray, Network
from lipyomo.norms import LinearOutput
from lipyomo.outputs import OutputError, check_output, picture, shown
from lipyomo.problem import LipschitzProblem
from lipyomo.settings import Settings


def read_selection(text: str, option: str) -> list[int] | slice | list[str]:
    """Read numbers of inputs, ``0,3``, a range of them, ``5:9``, or names of a file's inputs."""
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


def read_domains(arguments: argparse.Namespace, dimension: int) -> list[Domain]:
    """The domain that the options describe, or all parts of one in a VNN-LIB file.

    Parameters
    ----------
    arguments : Namespace
    dimension : int
        Of the network's inputs.

    Raises
    ------
    LipyomoError
        If the options do not fit together or the domain is none.
    """
    _check_companions(arguments)
    if arguments.vnnlib is not None:
        return _parts(arguments, dimension)
    if arguments.box is not None:
        low, high = arguments.box
        return [Box(low, high, dimension)]
    if arguments.everywhere:
        return [AllSpace(dimension)]
    if arguments.ball is not None:
        center = arguments.ball
        if isinstance(center, float):
            center = np.full(dimension, center)
        if center.size != dimension:
            raise UsageError(
                f"--ball: the center has {center.size} entries, the network takes {dimension} "
                "inputs"
            )
        return [ball(center, arguments.radius, arguments.ball_norm or "linf", arguments.clip)]
    return [Polytope(*arguments.polytope, *(arguments.clip or (-np.inf, np.inf)))]


def read_domain(arguments: argparse.Namespace, dimension: int) -> Domain:
    """The one domain that the options describe, for a network with `dimension` inputs.

    Raises
    ------
    LipyomoError
        If the options do not fit together, the domain is none, or it has several parts.
    """
    domains = read_domains(arguments, dimension)
    if len(domains) > 1:
        raise UsageError(
            f"--vnnlib: {shown(arguments.vnnlib.path)} has {len(domains)} parts, and one is needed "
            "here.  Remedy: choose one, for example --part 0"
        )
    for note in read_notes(arguments):
        warn(note)
    return domains[0]


def _parts(arguments: argparse.Namespace, dimension: int) -> list[Domain]:
    """The parts of a VNN-LIB file that are asked for."""
    name = f"--vnnlib: {shown(arguments.vnnlib.path)}"
    parts = arguments.vnnlib.query.parts
    if parts[0].dimension != dimension:
        raise UsageError(
            f"{name} is about {parts[0].dimension} inputs, the network takes {dimension}"
        )
    if arguments.part is None:
        return list(parts)
    if arguments.part >= len(parts):
        raise UsageError(f"--part: {name} has the parts 0 to {len(parts) - 1}")
    return [parts[arguments.part]]


def read_notes(arguments: argparse.Namespace) -> list[str]:
    """What is to be said of the options beside the answer."""
    if arguments.vnnlib is None:
        return []
    name, query = shown(arguments.vnnlib.path), arguments.vnnlib.query
    notes = []
    if query.ignored:
        notes.append(
            f"{query.ignored} condition{'s' * (query.ignored > 1)} of {name} on outputs or hidden "
            "tensors ignored: the domain is one of all inputs"
        )
    if not all(part.is_bounded for part in query.parts):
        notes.append(f"{name} leaves an input without a bound: the domain is unbounded")
    return notes


def _check_companions(arguments: argparse.Namespace) -> None:
    kinds = (arguments.box, arguments.ball, arguments.polytope, arguments.vnnlib)
    if all(kind is None for kind in kinds) and not arguments.everywhere:
        ways = ["--box LO,HI", "--ball CENTER.npy --radius R", "--polytope FILE.npz"]
        ways += ["--vnnlib FILE", *(["--everywhere"] * (arguments.everywhere is not None))]
        raise UsageError(f"no domain was given.  Remedy: {', '.join(ways[:-1])} or {ways[-1]}")
    if arguments.ball is None:
        for name in ("radius", "ball_norm"):
            if getattr(arguments, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} needs --ball")
    elif arguments.radius is None:
        raise UsageError("--ball needs --radius R")
    if arguments.clip is not None and arguments.ball is None and arguments.polytope is None:
        raise UsageError("--clip cuts a ball or a polytope; there is neither")
    if arguments.part is not None and arguments.vnnlib is None:
        raise UsageError("--part chooses one of a VNN-LIB file.  Remedy: add --vnnlib FILE")


def read_dual_ball(text: str, option: str) -> LinearOutput:
    """Read a linear norm from the vertices or the inequalities of its dual ball."""
    path = Path(text)
    parts = read_archive(path, option)
    if "vertices" in parts:
        return LinearOutput(vertices=parts["vertices"], name=path.stem)
    A, b = read_rows(text, option)
    return LinearOutput(A=A, b=b, name=path.stem)


@dataclass(frozen=True)
class Query:
    """A VNN-LIB file that was named."""

    path: Path
    query: VnnLib


def read_query(text: str) -> Query:
    """Read a VNN-LIB file."""
    path = file_path(text)
    return Query(path, read_vnnlib(path))


def read_fix(text: str) -> tuple[str, FloatArray]:
    """Read ``NAME=VALUE``: a number, numbers with commas, or a ``.npy`` file in its shape."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise UsageError(f"--fix: '{text}' is not of the form NAME=VALUE")
    return name, read_numbers(value, "--fix")


def read_problem(arguments: argparse.Namespace, network: Network) -> LipschitzProblem:
    """Build the problem that the options describe, on the one domain."""
    return problem_on(arguments, network, read_domain(arguments, network.input_dim))


def read_problems(arguments: argparse.Namespace, network: Network) -> list[LipschitzProblem]:
    """Build the problems that the options describe, one a part of the domain."""
    domains = read_domains(arguments, network.input_dim)
    return [problem_on(arguments, network, domain) for domain in domains]


def problem_on(arguments: argparse.Namespace, network: Network, domain: Domain) -> LipschitzProblem:
    """Build the problem that the options describe, on a domain."""
    return LipschitzProblem(
        network,
        domain,
        arguments.norm,
        arguments.output_norm,
        arguments.functional,
        arguments.margin,
        directions=arguments.directions,
        wrt=arguments.wrt,
        weights=arguments.weights,
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


def read_memory(text: str) -> int | None:
    """Read megabytes as bytes; None for ``inf``."""
    megabytes = float(text)
    if megabytes == np.inf:
        return None
    if not megabytes > 0:
        raise UsageError("--memory-limit must be positive: megabytes, such as 4000")
    return int(megabytes * MEGABYTE)


def read_picture(text: str) -> Path:
    """Read the name of a picture, and find out before a long run whether it can be drawn.

    Raises
    ------
    UsageError
        If its format is unknown, or the file cannot or must not be written.
    MissingExtra
        If matplotlib is not installed.
    """
    from lipyomo.pictures import new_figure

    path = Path(text)
    if path.suffix[1:].lower() not in new_figure(1.0, 1.0).canvas.get_supported_filetypes():
        raise UsageError(
            f"--plot: {shown(path)} has no known format.  Remedy: end it in .png, .pdf or .svg"
        )
    try:
        check_output(path, picture(path))
    except OutputError as error:
        raise UsageError(f"--plot: {error}") from None
    return path


def read_settings(arguments: argparse.Namespace) -> Settings:
    """The settings that options have set; a wrong solver is found before anything is run.

    Raises
    ------
    LipyomoError
        If a value is wrong, the file of solvers is, or the solver cannot be used.
    """
    known = {field.name for field in fields(Settings)}
    given = {name: value for name, value in vars(arguments).items() if name in known}
    settings = chosen_settings(None, given)
    cross_check = getattr(arguments, "cross_check", None)
    named = {settings.solver, cross_check or "auto"} - {"auto"}
    if (
        named
        or settings.formulation != "auto"
        or getattr(arguments, "method", "") not in ("auto", "bnb")
    ):
        name_solver_files(settings.solvers_file)
    for name in named:
        from lipyomo.solvers.registry import get_solver

        limit = settings.time_limit
        get_solver(name, settings.solvers_file, None if math.isinf(limit) else limit)
    return settings


def name_solver_files(path: Path | None) -> None:
    """Say which files of solver settings are used, if there are any beside the packaged one."""
    from lipyomo.solvers.settings import load_settings

    files = ", ".join(map(str, load_settings(path).files))
    if files:
        print(f"lipyomo: solver settings of {files}", file=sys.stderr)
