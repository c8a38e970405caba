"""Parsing words of the command line: numbers, names, files; it imports argparse only."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from lipyomo.base.errors import LipyomoError
from lipyomo.base.quantities import read_number, read_seconds

OUTPUTS = ("--checkpoint", "--plot", "--history", "--proof", "--rows")
"""Options that name files to write."""

RENAMED = {
    "--no-check": "--trust-solver",
    "--output": "--output-node",
}
"""Names of options in 0.3, which still work, with a warning."""

RARE = {
    "--config", "--fix", "--weights", "--directions", "--dual-ball", "--metric", "--ball-norm",
    "--part", "--vnnlib", "--formulation", "--bounds", "--option", "--solver", "--solvers-file",
    "--cross-check", "--trust-solver", "--memory-limit", "--dask", "--checkpoint", "--resume",
    "--overwrite", "--seed", "--upper-only", "--rational", "--history", "--prove-upper", "--debug",
    "--tolerance", "--no-radii", "--jobs", "--strict", "--largest", "--help",
}  # fmt: skip
"""Options shown by ``--help-all`` only, so that ``--help`` fits on one screen."""


class UsageError(LipyomoError):
    """An option of the command line is wrong."""


def reader(place: str, *more: str) -> Callable[[str], Any]:
    """Return the type of an option: a function of a module of `lipyomo.cli`, imported lazily.

    Parameters
    ----------
    place : str
        For example ``arrays.read_numbers``.
    *more : str
        Further arguments, after the text.
    """

    def read(text: str) -> Any:
        module, _, name = place.partition(".")
        return getattr(import_module(f"lipyomo.cli.{module}"), name)(text, *more)

    return read


def count(least: int) -> Callable[[str], int]:
    """Return the type of options that are integers of at least `least`."""

    def read(text: str) -> int:
        if not re.fullmatch(r"\s*[-+]?\d+\s*", text) or int(text) < least:
            raise argparse.ArgumentTypeError(f"'{text}' is no whole number of at least {least}")
        return int(text)

    return read


def file_path(text: str) -> Path:
    """Read the path of a file; an empty one, which would be the current folder, is refused."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def new_file(option: str, kind: str, *endings: str) -> Callable[[str], Path]:
    """Return the type of options that name a file to write, checked before a long run.

    Parameters
    ----------
    option : str
    kind : str
        Name of the kind of file in `lipyomo.base.system.outputs`.
    *endings : str
        Allowed endings of the file's name.
    """

    def read(text: str) -> Path:
        outputs = import_module("lipyomo.base.system.outputs")
        path = Path(text)
        if endings and path.suffix not in endings:
            shown = outputs.shown(text)
            raise UsageError(f"{option}: {shown} should end in {' or '.join(endings)}")
        check_new(option, text and path, getattr(outputs, kind))
        return path

    return read


def check_new(option: str, path: Any, kind: Any) -> None:
    """Raise `UsageError` unless an option may have a file of a kind written."""
    outputs = import_module("lipyomo.base.system.outputs")
    try:
        outputs.check_output(path, kind)
    except outputs.OutputError as error:
        raise UsageError(f"{option}: {error}") from None


def number(text: str) -> float:
    """Read a number, or a quotient such as ``8/255``."""
    try:
        return read_number(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no number such as 0.1 or 8/255") from None


def seconds_given(text: str) -> float:
    """Read a time above zero such as ``60``, ``90s`` or ``5m``."""
    try:
        found = read_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not found > 0.0:
        raise argparse.ArgumentTypeError(f"the time limit {text} must be positive")
    return found


def ratio(text: str) -> float:
    """Read ``0.05`` or ``5%``."""
    return float(text[:-1]) / 100.0 if text.endswith("%") else float(text)


def names(text: str) -> tuple[str, ...]:
    """Read names separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def names_and_numbers(text: str) -> tuple[int | str, ...]:
    """Read integers and names separated by commas."""
    return tuple(int(part) if re.fullmatch(r"-?\d+", part) else part for part in names(text))


def number_list(kind: Callable[[str], float]) -> Callable[[str], tuple[float, ...]]:
    """Return the type of options that are numbers separated by commas."""

    def read(text: str) -> tuple[float, ...]:
        try:
            return tuple(kind(part) for part in text.split(",") if part.strip())
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{text}' is not numbers such as 0,3") from None

    return read


def values_of(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Generate the words that are no options, each with the option that it may belong to."""
    option = ""
    for word in words:
        name, _, text = word.partition("=")
        if not word.startswith("--"):
            yield option, word
            option = ""
        elif text:
            yield name, text
            option = ""
        else:
            option = word


def renamed(word: str, known: Collection[str], warn: Callable[[str], None]) -> str:
    """Replace an option's old name by its new one, if a parser has only the new one.

    Parameters
    ----------
    word : str
        For example ``--output`` or ``--output=logits``.
    known : collection of str
        Options of the parser.
    warn : callable
        Called with a message about the old name.
    """
    name, equals, text = word.partition("=")
    new = RENAMED.get(name, name)
    if new == name or new not in known or name in known:
        return word
    warn(f"{name} is now {new}; the old name goes with version 0.5")
    return new + equals + text


def check_files(words: Sequence[str]) -> None:
    """Refuse to write a file that another option reads or writes as well.

    Raises
    ------
    UsageError
        If there is such a file.
    """
    named = list(values_of(words))
    if not any(option in OUTPUTS for option, _ in named):
        return
    outputs = import_module("lipyomo.base.system.outputs")
    for place, (option, path) in enumerate(named):
        for other, text in named[:place] + named[place + 1 :] if option in OUTPUTS else []:
            if any(outputs.same_file(path, part) for part in {text, *text.split(",")} if part):
                use = f"written, as {other}," if other in OUTPUTS else "read"
                raise UsageError(
                    f"{option}: {outputs.shown(path)} is {use} as well.  Remedy: give another name"
                )
