"""Contraction of a vector field in a constant metric: eigenvalues of Jacobians' symmetric parts.

With P positive definite, and W such that ``W^T P W = 1 + E``, the derivative of ``v . P v / 2``
along ``v' = J v`` is, relative to ``v . P v`` and for v = W c with a unit vector c,

    c . (W^T P J(x) W) c / (1 + c . E c).

The symmetric part S(x) of ``W^T P J W`` is the Jacobian with respect to c of ``S(x) c``, a network
of x and c.  Its eigenvalues are the desired ones, up to errors due to E, which is tiny, and to the
rounding of coefficients.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Unpack

import numpy as np
import numpy.typing as npt

from lipyomo.analyses.api import digests, question_settings, solve
from lipyomo.analyses.questions.curvature import eigenvalues
from lipyomo.analyses.questions.several import shared
from lipyomo.base.arguments import real_numbers
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import ProblemError
from lipyomo.base.numerics.rounding import gamma
from lipyomo.networks.combined import affine_after, compose, parallel
from lipyomo.networks.derivatives.gradients import jacobian
from lipyomo.networks.derivatives.products import product
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Box, Domain
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.ranges import Range, check_parts
from lipyomo.problems.result import Point
from lipyomo.problems.settings import Settings, SettingsKeywords, takes
from lipyomo.search.engine.checkpoint import SearchStates, checkpoint_of

SKEWED = 1e-3
"""Largest size of E: a metric with a less accurate factor is refused."""


@takes(SettingsKeywords)
def contraction(
    f: Network,
    domain: Domain,
    metric: npt.ArrayLike | None = None,
    settings: Settings | None = None,
    **changes: Unpack[SettingsKeywords],
) -> Range:
    """Bound the eigenvalues of a Jacobian's symmetric part in a constant metric, over a domain.

    If the largest of them, m (the logarithmic norm), is negative, solutions of ``x' = f(x)`` that
    stay in a convex domain approach each other at least like ``exp(m t)`` in the norm
    ``(v . P v)**0.5``.

    Parameters
    ----------
    f : Network
        A vector field: a network with as many outputs as inputs, and smooth units.
    domain : Box
        A bounded box.
    metric : array_like, shape (d, d), optional
        P, symmetric and positive definite; by default the identity (the Euclidean norm).
    settings, **changes : optional
        See `lipyomo.solve`.

    Returns
    -------
    Range
        ``high`` is the interval of the largest eigenvalue of ``(P J + J^T P) / 2`` relative to P,
        ``low`` that of the least one.

    Raises
    ------
    ProblemError
        If f is no vector field, the domain is no bounded box, or the metric is invalid.
    NetworkError
        If the Jacobian is not continuous.

    Examples
    --------
    >>> import lipyomo
    >>> x = lipyomo.Network.from_arrays([[[-2.0, 1.0], [1.0, -2.0]]])
    >>> found = lipyomo.contraction(x, lipyomo.Box(-1, 1, 2))
    >>> [round(end, 4) for end in (found.low[0], found.high[1])]
    [-3.0, -1.0]
    """
    settings = question_settings(settings, changes, solves=True)
    check_parts(f, domain)
    d = f.input_dim
    if f.output_dim != d:
        raise ProblemError(f"a field has as many outputs as inputs, not {f.output_dim} and {d}")
    if not domain.is_box:
        raise ProblemError("the domain must be a box.  Remedy: give a Box")
    P = np.eye(d) if metric is None else _metric(metric, d)

    with checkpoint_of(settings, partial(digests, network=f, domain=domain, metric=P)) as file:
        found = _in_metric(f, domain, P, metric is None, settings, file)
    return replace(found, unwritten=file.trouble)


def _in_metric(
    f: Network,
    domain: Domain,
    P: FloatArray,
    euclidean: bool,
    settings: Settings,
    file: SearchStates,
) -> Range:
    """Do the work of `contraction`; `file` has the states of its two searches."""
    d = f.input_dim
    W, skew = _factor(P)
    A = W.T @ P
    clock = Clock(settings.time_limit, settings.should_stop, settings.started)
    off = 0.0
    if not euclidean:
        first = replace(shared(settings, clock, 4, file.part("size")), progress=None)
        most = solve(LipschitzProblem(f, domain, "l1", "linf"), "auto", first).upper
        sizes = (np.abs(W.T) @ np.abs(P)).sum() * np.abs(W).sum()
        off = float(gamma(4 * d + 16) * sizes * most)
    form, still, along = _form(f, A, W), np.zeros(d), np.arange(d, 2 * d)
    # the value of c does not matter, but some input must not be frozen, unless units are smooth
    moves = float(domain.frozen.all() or not form.smooth)
    box = Box(np.append(domain.lower, still), np.append(domain.upper, still + moves))
    found = eigenvalues(
        lambda tilt: LipschitzProblem(
            affine_after(form, np.hstack([np.eye(d), tilt * np.eye(d)])), box, "l2", "l2", wrt=along
        ),
        along,
        settings.keeping(file.part("ends")),
        clock,
    )
    ends = np.array([*found.low, *found.high])
    off += 2.0 * skew * float(np.abs(ends[np.isfinite(ends)]).max(initial=0.0))
    low, high = (
        None if at is None else Point.at(np.atleast_2d(at.point)[:, :d]) for at in found.witnesses
    )
    return replace(
        found,
        low=(found.low[0] - off, found.low[1] + off),
        high=(found.high[0] - off, found.high[1] + off),
        witnesses=(low, high),
    )


def _metric(given: npt.ArrayLike, d: int) -> FloatArray:
    P = real_numbers(given, "the metric", ProblemError)
    if P.shape != (d, d) or not np.isfinite(P).all() or (P != P.T).any():
        raise ProblemError(f"the metric must be a symmetric matrix of {d} rows and {d} columns")
    return P


def _factor(P: FloatArray) -> tuple[FloatArray, float]:
    """Return W with ``W^T P W = 1 + E``, and a bound of the norm of E."""
    d = len(P)
    try:
        W = np.linalg.inv(np.linalg.cholesky(P)).T
    except np.linalg.LinAlgError:
        raise ProblemError("the metric is not positive definite") from None
    W = np.ascontiguousarray(W)
    error = gamma(4 * d + 8) * (np.abs(W.T) @ np.abs(P) @ np.abs(W))
    skew = float(np.sqrt(((np.abs(W.T @ P @ W - np.eye(d)) + error) ** 2).sum()) * (1.0 + 1e-12))
    if not skew < SKEWED:
        raise ProblemError(
            "the metric is too close to a singular matrix.  Remedy: scale the inputs"
        )
    return W, 0.0 if (np.eye(d) == P).all() else skew


def _form(f: Network, A: FloatArray, W: FloatArray) -> Network:
    """Return the network (x, c) -> (S(x) c, c) for the symmetric part S of ``A J(x) W``."""
    d = f.input_dim
    unit, nothing = np.eye(d), np.zeros((d, d))
    weights = np.einsum("ia,bj->ijab", A, W)
    weights = 0.5 * (weights + weights.transpose(1, 0, 2, 3))
    S = affine_after(jacobian(f), weights.reshape(d * d, d * d))
    x, c = (Network.from_arrays([np.hstack(parts)]) for parts in ((unit, nothing), (nothing, unit)))
    repeated = affine_after(c, np.tile(unit, (d, 1)))
    summed = affine_after(product(compose(S, x), repeated), np.repeat(unit, d, axis=1))
    return parallel(summed, c, name=f"symmetric part of {f.name}")
