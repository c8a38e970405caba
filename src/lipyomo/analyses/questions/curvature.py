"""Smoothness constants (Lipschitz constants of gradients), and the eigenvalues of Hessians."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from lipyomo.analyses.api import chosen_settings, question_settings
from lipyomo.analyses.questions.eigenvalues import eigenvalues
from lipyomo.analyses.questions.several import solve_largest
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import ProblemError
from lipyomo.base.system.plain import finite
from lipyomo.networks.derivatives.gradients import tilted_gradient
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Domain
from lipyomo.problems.norms import DUAL
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.ranges import check_fit, chosen_functional
from lipyomo.problems.result import Point, Result, Status
from lipyomo.problems.settings import Settings, SettingsKeywords, takes


@dataclass(frozen=True)
class Curvature:
    """The least and the largest eigenvalue of a Hessian over a domain.

    Attributes
    ----------
    least, largest : (float, float)
        Intervals.  The upper end of `least` and the lower end of `largest` are attained.
    witnesses : (Point or None, Point or None)
        Points that attain them.
    status : Status
        ``exact`` if both eigenvalues are, else why they are not.
    seconds : float
    nodes : int
    unwritten : str
        Why the checkpoint could not be written; empty if it could, or if there is none.
    """

    least: tuple[float, float]
    largest: tuple[float, float]
    witnesses: tuple[Point | None, Point | None]
    status: Status
    seconds: float
    nodes: int
    unwritten: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether both are known up to 1e-6 of the Hessian's norm."""
        return self.status is Status.EXACT

    @property
    def convex(self) -> bool | None:
        """Whether the function is convex on the domain; None if this is not decided."""
        return _decided(self.least)

    @property
    def concave(self) -> bool | None:
        """Whether the function is concave on the domain; None if this is not decided."""
        low, high = self.largest
        return _decided((-high, -low))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; infinite ends are None."""
        return {
            "least": [finite(end) for end in self.least],
            "largest": [finite(end) for end in self.largest],
            "convex": self.convex,
            "concave": self.concave,
            "witnesses": [None if at is None else at.to_dict() for at in self.witnesses],
            "status": str(self.status),
            "seconds": self.seconds,
            "nodes": self.nodes,
        }


def _decided(least: tuple[float, float]) -> bool | None:
    """Return whether a number in an interval is nonnegative; None if this is not decided."""
    return True if least[0] >= 0.0 else False if least[1] < 0.0 else None


@takes(SettingsKeywords)
def smoothness(
    network: Network,
    domain: Domain,
    norm: str = "linf",
    functional: npt.ArrayLike | None = None,
    settings: Settings | None = None,
    **changes: Unpack[SettingsKeywords],
) -> Result:
    """Bound the smoothness constant L over a domain: the Lipschitz constant of the gradient.

    It is the supremum of the Hessian's operator norm from the norm of the inputs to its dual, i.e.
    of ``|u . H(x) v|`` over unit vectors u and v.  On convex domains
    ``|f(y) - f(x) - f'(x) (y - x)| <= L |y - x|**2 / 2``.

    Parameters
    ----------
    network : Network
        f, with smooth units.
    domain : Domain
    norm : {'linf', 'l1', 'l2'}, optional
        Norm of the inputs; l2 gives the spectral norm of the Hessian.
    functional : array_like, shape (m,), optional
        c, for ``c . f``.  The default is the largest constant of all outputs, which is that of the
        Jacobian with the outputs in linf.
    settings, **changes : optional
        See `lipyomo.solve`.

    Returns
    -------
    Result
        Its witness has a point x, a direction v and a functional u: ``u . H(x) v`` is the lower
        end.  With several outputs, ``details["part"]`` is the one with the largest constant.

    Raises
    ------
    NetworkError
        If the gradient is not continuous (as for ReLU units), or not supported.
    ProblemError
        If the norm or the functional is invalid, or products of units are too large on the domain.

    Examples
    --------
    >>> import lipyomo
    >>> f = lipyomo.Network.from_arrays([[[2.0]], [[1.0]]], activation="sin")  # sin(2 x)
    >>> round(lipyomo.smoothness(f, lipyomo.Box(-1, 1, 1)).upper, 4)  # |-4 sin(2 x)|
    4.0
    """
    settings = chosen_settings(settings, changes)
    check_fit(network, domain)
    rows = np.eye(network.output_dim)
    if functional is not None:
        rows = chosen_functional(network, functional)[None]
    return solve_largest([_problem(network, domain, norm, row) for row in rows], "auto", settings)


def smoothness_problem(
    network: Network,
    domain: Domain,
    norm: str = "linf",
    functional: npt.ArrayLike | None = None,
) -> LipschitzProblem:
    """Return the problem whose constant is the smoothness constant of ``c . f``.

    It is used for `lipyomo.solve` with other methods, and for proofs:
    ``lipyomo.proofs.write_proof(path, problem, result)``.

    Parameters
    ----------
    network : Network
        f, with smooth units.
    domain : Domain
        The gradient has entries for the inputs that are not frozen in it.
    norm : {'linf', 'l1', 'l2'}, optional
        Norm of the inputs.
    functional : array_like, shape (m,), optional
        c; not needed for a network with one output.

    Raises
    ------
    NetworkError, ProblemError
        See `smoothness`.

    Examples
    --------
    >>> import lipyomo
    >>> f = lipyomo.Network.from_arrays([[[2.0]], [[1.0]]], activation="sin")  # sin(2 x)
    >>> problem = lipyomo.smoothness_problem(f, lipyomo.Box(-1, 1, 1))
    >>> round(lipyomo.solve(problem).upper, 4)
    4.0
    """
    check_fit(network, domain)
    return _problem(network, domain, norm, chosen_functional(network, functional))


def _problem(
    network: Network, domain: Domain, norm: str, row: FloatArray, tilt: float = 0.0
) -> LipschitzProblem:
    """Return the problem of a gradient's constant, for the inputs that are not frozen."""
    if norm not in DUAL:
        raise ProblemError(f"the norm {norm!r} is unknown.  Remedy: use {', '.join(DUAL)}")
    moving = np.flatnonzero(~domain.frozen)
    if not moving.size:
        raise ProblemError("no input can move in the domain, so that there is nothing to bound")
    return LipschitzProblem(tilted_gradient(network, row, moving, tilt), domain, norm, DUAL[norm])


@takes(SettingsKeywords)
def curvature(
    network: Network,
    domain: Domain,
    functional: npt.ArrayLike | None = None,
    settings: Settings | None = None,
    **changes: Unpack[SettingsKeywords],
) -> Curvature:
    """Bound the least and the largest eigenvalue of the Hessian over a domain.

    The function is convex on a convex domain if and only if none is negative.  The supremum of the
    spectral norm of ``H + c`` is the Lipschitz constant of the gradient of ``f(x) + c |x|**2 / 2``.

    Parameters
    ----------
    network : Network
        f, with smooth units.
    domain : Domain
        Frozen inputs are not part of the Hessian.
    functional : array_like, shape (m,), optional
        c, for ``c . f``; not needed for a network with one output.
    settings, **changes : optional
        See `lipyomo.solve`.  A third of the time is used for the largest absolute value.

    Returns
    -------
    Curvature

    Raises
    ------
    NetworkError, ProblemError
        See `smoothness`; also if no bound is finite.

    Examples
    --------
    >>> import lipyomo
    >>> f = lipyomo.Network.from_arrays([[[2.0]], [[1.0]]], activation="softplus")
    >>> lipyomo.curvature(f, lipyomo.Box(-1, 1, 1)).convex
    True
    """
    settings = question_settings(settings, changes, solves=True)
    check_fit(network, domain)
    row = chosen_functional(network, functional)
    clock = Clock(settings.time_limit, settings.should_stop, settings.started)
    moving = np.flatnonzero(~domain.frozen)
    found = eigenvalues(
        lambda tilt: _problem(network, domain, "l2", row, tilt), moving, settings, clock
    )
    return Curvature(
        found.low,
        found.high,
        found.witnesses,
        found.status,
        found.seconds,
        found.nodes,
        found.unwritten,
    )
