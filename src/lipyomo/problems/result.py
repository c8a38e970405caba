"""`Result`, the output of every method: a checked interval with its witness and provenance."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from lipyomo.base.arrays import FloatArray, Pattern
from lipyomo.base.decimals import down, interval, percent, up
from lipyomo.base.errors import ResultError
from lipyomo.base.pictures import save_figure
from lipyomo.base.system.outputs import RESULT, shown, why, written
from lipyomo.base.system.plain import PlainEntries, plain
from lipyomo.problems.history import figure_of

DEFECT = "This is a defect of lipyomo, please report it"
"""Message if an attained value exceeds a bound."""


class Status(StrEnum):
    """How a method ended.

    The values are what ``--json`` prints.
    """

    EXACT = "exact"
    GAP = "gap"
    TIME_LIMIT = "time_limit"
    INTERRUPTED = "interrupted"
    PRECISION = "precision"
    """The open parts cannot be resolved in float64: more time does not help."""

    BOUNDS = "bounds"
    CONTRADICTION = "contradiction"
    """An attained value exceeds a bound: one of them is wrong, a defect of the program."""


class Guarantee(StrEnum):
    """The relation of a method's value to the true constant."""

    EXACT = "exact"
    UPPER = "upper"
    LOWER = "lower"
    HEURISTIC = "heuristic"


@dataclass(frozen=True)
class Progress:
    """The state of a running method, as passed to progress callbacks.

    Attributes
    ----------
    seconds : float
        Time since the method started.
    lower, upper : float
        The current interval.
    nodes : int
        Nodes of branch and bound so far.
    message : str
        The current stage, such as ``bounds``.
    question : str
        The question that the interval belongs to, if one call answers several.
    """

    seconds: float
    lower: float
    upper: float
    nodes: int = 0
    message: str = ""
    question: str = ""

    def __str__(self) -> str:
        """Text such as ``lower 1.25  upper 1.5  gap 16.7%  12 nodes  3.1 s``."""
        parts = [f"{self.question}:"] if self.question else []
        if self.lower > -math.inf:
            parts.append(f"lower {down(self.lower)}")
        parts.append(f"upper {up(self.upper)}")
        if 0 < self.upper < math.inf:
            parts.append(f"gap {percent(max(1.0 - self.lower / self.upper, 0.0))}")
        if self.nodes:
            parts.append(f"{self.nodes} nodes")
        parts += [f"{self.seconds:.1f} s", self.message]
        return "  ".join(filter(None, parts))


ProgressCallback: TypeAlias = Callable[[Progress], None]


@dataclass(frozen=True)
class Point:
    """A point at which a value is attained.

    Attributes
    ----------
    x : ndarray, shape (d,)
        The point if `rest` is None; otherwise only the nearest float64 point.
    rest : ndarray, shape (d,), optional
        The point is ``x + rest`` in exact arithmetic, if its region contains no float64 point.
    """

    x: FloatArray
    rest: FloatArray | None = field(default=None, kw_only=True)

    @classmethod
    def at(cls, parts: FloatArray) -> Point:
        """Build it from a point (d,), or from the two rows (2, d) of a sum."""
        x, *rest = np.atleast_2d(parts)
        return Point(x, rest=rest[0] if rest and rest[0].any() else None)

    @property
    def point(self) -> FloatArray:
        """x, shape (d,), or x and `rest` as two rows of a sum, shape (2, d)."""
        return self.x if self.rest is None else np.array([self.x, self.rest])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        """`point`, for NumPy: witnesses of ranges were arrays before 0.4."""
        return np.array(self.point, dtype)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.point)

    @property
    def exactly(self) -> tuple[Fraction, ...]:
        """``x + rest`` in exact arithmetic."""
        parts = np.atleast_2d(self.point).T.tolist()
        return tuple(sum(map(Fraction, column), Fraction(0)) for column in parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers; `rest` only if there is one."""
        found: dict[str, Any] = plain(vars(self))
        if self.rest is None:
            del found["rest"]
        return found


@dataclass(frozen=True)
class Witness(Point):
    """A point at which the lower bound is attained.

    Attributes
    ----------
    x : ndarray, shape (d,)
        Interior point of a full-dimensional activation region that meets the domain's interior.
    direction : ndarray, shape (d,)
        v in the unit ball of the input norm.
    functional : ndarray, shape (m,)
        y in the dual ball of the output norm; the value is ``y . J(x) v``.
    pattern : tuple of bool arrays
        Which units have their right-hand slope at x, one array for each hidden layer of the
        original network.
    margin : float
        Distance of x (in the linf norm) to the nearest kink or face of the domain; a lower bound of
        it for networks of thousands of units.
    value : float
        The operator norm of the Jacobian at x.
    rest : ndarray, shape (d,), optional
        The point is ``x + rest`` in exact arithmetic, if its region contains no float64 point.
    """

    direction: FloatArray
    functional: FloatArray
    pattern: Pattern
    margin: float
    value: float

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Witness:
        """Read the output of `to_dict`.

        Raises
        ------
        ResultError
            If an entry is missing, or of another type; the message names it.
        """
        entries = PlainEntries(data, "the witness", ResultError)
        sides = entries.texts("pattern")
        if not set().union(*sides) <= {"0", "1"}:
            raise ResultError("'pattern' of the witness must hold 0 and 1 alone")
        return cls(
            entries.vector("x"),
            entries.vector("direction"),
            entries.vector("functional"),
            tuple(np.array([on == "1" for on in layer], dtype=bool) for layer in sides),
            entries.end("margin"),
            entries.end("value"),
            rest=entries.optional("rest", entries.vector),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers; the pattern as one string of 0 and 1 per layer."""
        found = super().to_dict()
        found["pattern"] = ["".join("1" if on else "0" for on in layer) for layer in self.pattern]
        return found


@dataclass(frozen=True, repr=False, eq=False)
class Result:
    """An interval [lower, upper] that contains the Lipschitz constant, and how it was found.

    Attributes
    ----------
    lower : float
        Attained: an operator norm recomputed from the weights at an interior point.  Zero if
        nothing was attained.
    upper : float
        A bound, by a solver, branch and bound or intervals; never an incumbent.  Infinite if
        unknown.
    status : Status
    method : str
    guarantee : Guarantee
        What `value` says about the constant.
    estimate : float, optional
        The value of a heuristic, which bounds nothing.
    formulation, solver : str, optional
    seconds : float
    nodes : int, optional
    unstable : int, optional
        Number of units that the bounds leave open.
    bounds : str, optional
        The tightest relaxation that was used: interval, linear, ascent or lp.
    basis : str, optional
        The basis of `upper`: ``proved`` (from the weights, with rounding accounted for), or a
        solver with its tolerance; None if there is no bound.
    witness : Witness, optional
    warnings : list of str
    history : list of (seconds, lower, upper)
    details : dict
        Method-specific plain data (fit quality, sizes, checks).
    look_ahead : ndarray, shape (N,), optional
        The look-ahead of a split on each hidden unit, averaged over the nodes of a search: a proof
        branches in this order.  Not written to files.
    stopped : bool
        Whether it was interrupted by Ctrl-C, even if it was complete by then.  Not written to
        files.
    """

    lower: float
    upper: float
    status: Status
    method: str
    guarantee: Guarantee = Guarantee.EXACT
    estimate: float | None = None
    formulation: str | None = None
    solver: str | None = None
    seconds: float = 0.0
    nodes: int | None = None
    unstable: int | None = None
    bounds: str | None = None
    basis: str | None = None
    witness: Witness | None = None
    warnings: list[str] = field(default_factory=list)
    history: list[tuple[float, float, float]] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    look_ahead: FloatArray | None = None
    stopped: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether the constant is known: attained, and bounded to a relative accuracy of 1e-6."""
        return self.status is Status.EXACT

    @property
    def gap(self) -> float:
        """Relative gap ``(upper - lower) / upper``; infinite if the upper bound is."""
        if not math.isfinite(self.upper):
            return math.inf
        return 0.0 if self.upper <= 0 else max(0.0, (self.upper - self.lower) / self.upper)

    @property
    def value(self) -> float:
        """The main value of a method, with the meaning given by `guarantee`."""
        if self.estimate is not None:
            return self.estimate
        return self.lower if self.guarantee in (Guarantee.LOWER, Guarantee.EXACT) else self.upper

    def noting(self, *warnings: str, **details: Any) -> Result:
        """Return the result with additional warnings and details."""
        return replace(
            self, warnings=[*self.warnings, *warnings], details={**self.details, **details}
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; infinities become None."""
        witness = None if self.witness is None else self.witness.to_dict()
        found: dict[str, Any] = plain({**vars(self), "gap": self.gap, "witness": witness})
        del found["look_ahead"], found["stopped"]
        return found

    def summary(self) -> str:
        """Return a few lines of text: interval, status, method, and the basis of both ends."""
        rows = {
            "constant": _interval(self),
            "status": _ending(self),
            "method": _how(self),
            "upper end": self.basis or "none",
            "lower end": "nothing attained"
            if self.witness is None
            else f"attained, {self.witness.margin:.2g} from the nearest kink or face",
        }
        if self.estimate is not None:
            rows = {"estimate": f"{self.estimate:.9g} ({self.guarantee})", **rows}
        lines = [f"{name:<10}  {text}" for name, text in rows.items()]
        return "\n".join(lines + [f"{'warning':<10}  {note}" for note in self.warnings])

    def __eq__(self, other: object) -> bool:
        """Return whether `to_dict` of both is the same."""
        return isinstance(other, Result) and self.to_dict() == other.to_dict()

    def __repr__(self) -> str:
        """Return at most three lines: interval, status, method."""
        shown = f"Result {_interval(self)}"
        if self.estimate is not None:
            shown += f", estimate {self.estimate:.9g}"
        count = len(self.warnings)
        more = f", {count} warning{'s' * (count > 1)}" if count else ""
        return f"{shown}\n  {_ending(self)}{more}\n  {_how(self)}"

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        pairs = [(line[:10].strip(), line[12:]) for line in self.summary().splitlines()]
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th>"
            f"<td style='text-align:left'>{escape(text)}</td></tr>"
            for name, text in pairs
        )
        return f"<table>{rows}</table>"

    def to_frame(self) -> Any:
        """Return the history as a pandas frame with columns ``seconds``, ``lower`` and ``upper``.

        Raises
        ------
        ResultError
            If pandas is not installed.
        """
        return frame_of(self.history, "use the history", ["seconds", "lower", "upper"])

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Result:
        """Read the output of `to_dict`, for instance from JSON.

        Parameters
        ----------
        data : mapping

        Raises
        ------
        ResultError
            If an entry is missing, or of another type; the message names it.
        """
        entries = PlainEntries(data, "the result", ResultError)
        return cls(
            lower=entries.end("lower"),
            upper=entries.end("upper"),
            status=entries.member("status", Status),
            method=entries.text("method"),
            guarantee=entries.member("guarantee", Guarantee),
            estimate=entries.optional("estimate", entries.number),
            formulation=entries.optional("formulation", entries.text),
            solver=entries.optional("solver", entries.text),
            seconds=entries.number("seconds"),
            nodes=entries.optional("nodes", entries.count),
            unstable=entries.optional("unstable", entries.count),
            bounds=entries.optional("bounds", entries.text),
            basis=entries.optional("basis", entries.text),
            witness=entries.optional("witness", lambda name: Witness.from_dict(data[name])),
            warnings=entries.texts("warnings"),
            history=[(at, low, high) for at, low, high in entries.rows("history", 3)],
            details=entries.mapping("details"),
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the result to a JSON file, which `load` reads.

        Parameters
        ----------
        path : str or path-like
            An existing result is replaced, any other file is not.

        Raises
        ------
        OutputError
            If the file cannot or must not be written.
        """
        with written(path, RESULT) as stream:
            stream.write(f"{self.to_json(indent=1)}\n".encode())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Result:
        """Read a file written by `save`, or by ``lipyomo NET ... --json``.

        Raises
        ------
        ResultError
            If the file cannot be read, or contains no result.
        """
        try:
            data = json.loads(Path(path).read_text("utf-8"))
        except (OSError, ValueError) as trouble:
            raise ResultError(
                f"{shown(path)} cannot be read as a result: {why(trouble)}.  Remedy: give a file "
                "that Result.save has written"
            ) from None
        return cls.from_dict(data)

    def plot(self, path: str | PathLike[str] | None = None, title: str = "") -> Any:
        """Draw the interval over time.

        Parameters
        ----------
        path : str or path-like, optional
            A file for the picture; its suffix names the format.
        title : str, optional

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        MissingExtra
            If matplotlib is not installed.
        OutputError, ProblemError
            If the file cannot or must not be written, or its format is unknown.
        """
        figure = figure_of(self, title)
        if path is not None:
            save_figure(figure, Path(path))
        return figure

    def to_json(self, indent: int | None = None) -> str:
        """Return the result as one JSON object."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)


def _interval(found: Result) -> str:
    """Return text such as ``[1.2, 1.3]``."""
    return "infinite" if math.isinf(found.lower) else interval(found.lower, found.upper)


def _ending(found: Result) -> str:
    """Return text such as ``gap, gap 1.00%, 3.10 s``."""
    gap = "" if found.is_exact or not math.isfinite(found.gap) else f", gap {found.gap:.2%}"
    return f"{found.status}{gap}, {found.seconds:.2f} s"


def _how(found: Result) -> str:
    """Return text such as ``bnb, 12 nodes``."""
    parts = [found.method, found.formulation, found.solver]
    if found.nodes is not None:
        parts.append(f"{found.nodes} nodes")
    return ", ".join(part for part in parts if part)


def frame_of(
    rows: Iterable[Any], instead: str = "iterate over the rows", columns: list[str] | None = None
) -> Any:
    """Return rows as a pandas frame.

    Raises
    ------
    ResultError
        If pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise ResultError(
            f"a frame needs pandas.  Remedy: pip install pandas, or {instead}"
        ) from None
    return pandas.DataFrame(list(rows), columns=columns)
