"""Parsing words of the command line: numbers, names, files; it imports argparse only."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from lipyomo.base.errors import LipyomoError
from lipyomo.base.quantities import read_number, read_seconds

RENAMED = {
    "--no-check": "--trust-solver",
    "--output": "--output-node",
}
"""Names of options in 0.3, which still work, with a warning."""


class UsageError(LipyomoError):
    """An option of the command line is wrong."""


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


def number_list(text: str) -> tuple[float, ...]:
    """Read numbers separated by commas."""
    try:
        return tuple(read_number(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not numbers such as 0,3") from None


def cell_counts(text: str) -> tuple[int, ...]:
    """Read ``64x64``."""
    if not re.fullmatch(r"0*[1-9]\d*(x0*[1-9]\d*)*", text):
        raise argparse.ArgumentTypeError(f"'{text}' is not numbers of cells such as 64x64")
    return tuple(map(int, text.split("x")))


def shell_ends(text: str) -> tuple[float, float]:
    """Read ``0.1,1``."""
    try:
        low, high = map(float, text.split(","))
    except ValueError as error:
        raise UsageError(f"--shell LOW,HIGH: two numbers, not '{text}'") from error
    return low, high


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
