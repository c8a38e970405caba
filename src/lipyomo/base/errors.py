"""The exceptions of lipyomo; each message says what was wrong and how to fix it.

All of them derive from `LipyomoError`, so that a caller (and the command line) can tell an invalid
input from a bug of the program.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class LipyomoError(Exception):
    """Base class of all errors that users can cause and fix."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message, because constructors of subclasses take other arguments."""
        return BaseException.__new__, (type(self), *self.args), self.__dict__


class ImportNote(UserWarning):
    """A remark on an imported model that the user should know."""


class NetworkError(LipyomoError):
    """A network is malformed: shapes that do not chain, NaN weights, missing layers."""


class ImportRefused(LipyomoError):
    """A model file cannot be turned into a network.

    Parameters
    ----------
    message : str
        What was wrong.
    node : str, optional
        Name (or position) of the graph node at fault.
    op_type : str, optional
        Operator of that node.
    remedy : str, optional
        What the user can do about it.
    """

    def __init__(
        self,
        message: str,
        node: str | None = None,
        op_type: str | None = None,
        remedy: str | None = None,
    ) -> None:
        self.node = node
        self.op_type = op_type
        self.remedy = remedy
        where = ""
        if node is not None:
            where = f"node '{node}'" + (f" ({op_type})" if op_type else "") + ": "
        elif op_type is not None:
            where = f"{op_type}: "
        super().__init__(where + message + (f"\n  Remedy: {remedy}" if remedy else ""))


class DomainError(LipyomoError):
    """A domain is empty, flat, of the wrong dimension, or not usable by a method."""


class NormError(LipyomoError):
    """A norm is unknown, or not available for a method or for the network's outputs."""


class ProblemError(LipyomoError):
    """A problem's parts do not fit together: functional of the wrong length, label out of range."""


class BoundsMissing(LipyomoError):
    """A big-M encoding needs finite bounds that are missing."""


class SolverError(LipyomoError):
    """A solver is unknown, missing, misconfigured, out of licence, or failed."""


class ProcessDied(SolverError):
    """A child process died without an answer."""


class MethodError(LipyomoError):
    """A method is unknown or cannot treat the problem that it was given."""


class UnknownKeyword(MethodError, TypeError):
    """An unknown keyword was given; the message suggests the nearest one."""


class MissingExtra(LipyomoError):
    """An optional package is not installed; the message has the command that installs it."""


class PlatformError(LipyomoError):
    """The floating-point arithmetic of this machine is not what the bounds assume."""


class ResultError(LipyomoError):
    """Data are not a saved result."""


class ProofError(LipyomoError):
    """A proof file is missing, malformed, or about another network."""


def nearest_name(
    word: str, known: Iterable[str], otherwise: str, form: str = "'{}'", likeness: float = 0.6
) -> str:
    """Return a remedy for an unknown name, which suggests the nearest known one.

    That is the shortest one that begins with the word, otherwise the most similar one.

    Parameters
    ----------
    word : str
    known : iterable of str
    otherwise : str
        The remedy if no name is near.
    form : str, optional
        Format of the name.
    likeness : float, optional
        Least similarity of a name, from 0 to 1.
    """
    names = [*known]
    longer = sorted((name for name in names if word and name.startswith(word)), key=len)
    close = longer or get_close_matches(word, names, n=1, cutoff=likeness)
    return f"did you mean {form.format(close[0])}?" if close else otherwise
