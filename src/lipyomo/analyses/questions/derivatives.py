"""Signed ranges of derivatives ``c . J(x) v`` over a domain, or of all entries of a Jacobian."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.analyses.api import digests, question_settings, without_methods
from lipyomo.analyses.questions.entries import EntrySearch
from lipyomo.base.arguments import instance, real_numbers
from lipyomo.base.arrays import FloatArray, Matrix, dense
from lipyomo.base.clock import Clock
from lipyomo.base.decimals import seconds
from lipyomo.base.errors import ProblemError
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.networks.naming import Names, some
from lipyomo.problems.norms import ONE_BY_ONE
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.ranges import Range, chosen_functional, why_open
from lipyomo.problems.result import Status
from lipyomo.problems.settings import Settings, SettingsKeywords, takes
from lipyomo.search.engine.checkpoint import checkpoint_of


@dataclass(frozen=True, eq=False)
class JacobianRanges:
    """The ranges of all entries of a Jacobian.

    Attributes
    ----------
    entries : tuple of tuple of Range
        By row (an output, or a functional) and column (an input, or a direction).
    columns : tuple of int
        The inputs of the columns; the indices of directions that are not single inputs.
    status : Status
        ``exact`` if all entries are, else why some are not.
    seconds : float
    nodes : int
        Nodes of branch and bound: boxes, or parts of the domain and of patterns.
    names : tuple of str, or None
        Names of the columns' inputs, if they have names.
    unwritten : str
        Why the checkpoint could not be written; empty if it could, or if there is none.
    """

    entries: tuple[tuple[Range, ...], ...]
    columns: tuple[int, ...]
    status: Status
    seconds: float
    nodes: int
    names: Names | None = None
    unwritten: str = ""

    def __repr__(self) -> str:
        rows = len(self.entries)
        exact = sum(entry.is_exact for row in self.entries for entry in row)
        return (
            f"JacobianRanges({rows} x {len(self.columns)} entries, {exact} exact, {self.status}, "
            f"{seconds(self.seconds)})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "columns": list(self.columns),
            "names": None if self.names is None else list(self.names),
            "entries": [[entry.to_dict() for entry in row] for row in self.entries],
            "status": str(self.status),
            "seconds": self.seconds,
            "nodes": self.nodes,
        }


@takes(SettingsKeywords)
def derivative_range(
    problem: LipschitzProblem,
    functional: npt.ArrayLike | None = None,
    direction: npt.ArrayLike | None = None,
    settings: Settings | None = None,
    **changes: Unpack[SettingsKeywords],
) -> Range:
    """Bound the least and the largest value of ``c . J(x) v`` over a domain.

    Parameters
    ----------
    problem : LipschitzProblem
        A network and a domain, possibly with directions; its norms are not used.
    functional : array_like, shape (m,), optional
        c; by default the problem's functional, or its only output.
    direction : array_like, shape (d,), optional
        v, in inputs; by default the problem's only direction, or its only input.
    settings : Settings, optional
        Uses time_limit (for both ends together), workers, executor, dask, checkpoint, resume,
        overwrite, seed, progress and should_stop.
    **changes
        Fields of `Settings` to set, such as ``time_limit=60``.

    Returns
    -------
    Range
        Range of the derivatives on full-dimensional linear pieces inside the domain, or, for a
        smooth network, at all points; attained ends are enclosures at the witnesses.

    Raises
    ------
    ProblemError
        If the arguments do not match, or the direction moves a frozen input.

    Examples
    --------
    >>> import lipyomo
    >>> network = lipyomo.Network.from_arrays([[[1.0], [-1.0]], [[2.0, 1.0]]])
    >>> problem = lipyomo.LipschitzProblem(network, lipyomo.Box(-1, 3, 1))
    >>> found = lipyomo.derivative_range(problem)
    >>> found.low[1], found.high[0], found.status.value
    (-1.0, 2.0, 'exact')
    """
    settings = question_settings(settings, changes)
    network, d = _checked(problem).network, problem.network.input_dim
    row = problem.functional
    if functional is not None or row is None:
        row = chosen_functional(network, functional)
    if direction is None:
        if (d if problem.directions is None else problem.directions.shape[1]) > 1:
            raise ProblemError("there are several directions.  Remedy: give one of them")
        along = problem
    else:
        v = real_numbers(direction, "the direction", ProblemError).reshape(-1)
        if v.size != d or not np.isfinite(v).all():
            raise ProblemError(f"the direction needs {d} finite entries, one an input")
        if not v.any():
            raise ProblemError("the direction is zero.  Remedy: give one that moves an input")
        along = LipschitzProblem(network, problem.domain, "l1", "linf", directions=v)
    found = ranges_along(along, row[None], settings)
    return replace(found.entries[0][0], unwritten=found.unwritten)


@takes(SettingsKeywords)
def jacobian_ranges(
    problem: LipschitzProblem, settings: Settings | None = None, **changes: Unpack[SettingsKeywords]
) -> JacobianRanges:
    """Bound the ranges of all entries of the Jacobian over a domain, in common searches.

    Parameters
    ----------
    problem : LipschitzProblem
        A network and a domain, possibly with directions (``wrt=[0, 3]``) or a functional; its norms
        are not used.
    settings, **changes : optional
        See `derivative_range`; the time limit applies to all entries together.

    Returns
    -------
    JacobianRanges
    """
    rows = np.eye(_checked(problem).network.output_dim)
    if problem.functional is not None:
        rows = problem.functional[None]
    return ranges_along(problem, rows, question_settings(settings, changes))


def _checked(problem: LipschitzProblem) -> LipschitzProblem:
    instance(problem, LipschitzProblem, "the problem", ProblemError, "give a LipschitzProblem")
    if problem.free is not None:
        raise ProblemError("derivatives have no range along inputs that are free of cost")
    return problem


@with_one_blas_thread
def ranges_along(problem: LipschitzProblem, rows: FloatArray, settings: Settings) -> JacobianRanges:
    """Bound the ranges of ``rows . J T`` for functionals (p, m), in groups of rows."""
    clock = Clock(settings.time_limit, settings.should_stop, settings.started)
    steps, columns, inputs = _steps(problem)
    size, count = max(1, ONE_BY_ONE // (2 * steps.shape[1])), len(rows)
    entries: list[tuple[Range, ...]] = []
    nodes = 0

    asked = {"network": problem.network, "domain": problem.domain, "functional": rows}
    with checkpoint_of(settings, partial(digests, **asked, directions=dense(steps))) as file:
        for start in range(0, count, size):
            part = rows[start : start + size]
            within = clock.within(clock.left * len(part) / (count - start))
            kept, own = file.part(str(start)), without_methods(settings)
            found = EntrySearch(problem, steps, part, own, within, kept)
            found.run()
            if within.interrupted:
                clock.stop()
            nodes += found.nodes
            entries += found.ranges()
    ended = {entry.status for row in entries for entry in row}
    status = Status.EXACT if ended == {Status.EXACT} else why_open(clock)
    status = Status.CONTRADICTION if Status.CONTRADICTION in ended else status
    named = problem.network.input_names if inputs else None
    names = some(named, list(columns))
    taken, unwritten = clock.seconds, file.trouble
    return JacobianRanges(tuple(entries), columns, status, taken, nodes, names, unwritten)


def _steps(problem: LipschitzProblem) -> tuple[Matrix, tuple[int, ...], bool]:
    """Return a problem's directions (d, k), their indices, and whether these are inputs."""
    if problem.directions is None:
        moving = np.flatnonzero(~problem.domain.frozen)
        return np.eye(problem.network.input_dim)[:, moving], tuple(moving.tolist()), True
    T = sp.csc_array(problem.directions)
    T.eliminate_zeros()
    if (np.diff(T.indptr) == 1).all():
        return problem.directions, tuple(T.indices.tolist()), True
    return problem.directions, tuple(range(T.shape[1])), False
