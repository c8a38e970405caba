"""Whether a field contracts in a constant metric: eigenvalues of symmetric parts of Jacobians.

With P positive definite, and W such that ``W^T P W = 1 + E``, the derivative of ``v . P v / 2``
along ``v' = J v`` is, relative to ``v . P v`` and for v = W c with a unit vector c,

    c . (W^T P J(x) W) c / (1 + c . E c).

The numerator is a network of x and the angles of c: products of derivatives with sines and cosines,
of which a half of the sphere is enough.  Its range over the domain and the angles is that of all
eigenvalues, up to what E, which is tiny, and the rounding of the coefficients make of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from lipyomo.analyses.api import chosen_settings, solve
from lipyomo.analyses.questions.several import shared
from lipyomo.analyses.questions.values import value_range
from lipyomo.base.arguments import real_numbers
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import ProblemError
from lipyomo.base.numerics.rounding import gamma
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.networks.combined import compose
from lipyomo.networks.derivatives import residual
from lipyomo.networks.derivatives.expressions import Expression, Field, Inputs
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Box, Domain
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.ranges import Range, check_parts
from lipyomo.problems.settings import Settings

SKEWED = 1e-3
"""Largest size of E: a metric whose factor is known no better than that is refused."""


@with_one_blas_thread
def contraction(
    f: Network,
    domain: Domain,
    metric: npt.ArrayLike | None = None,
    settings: Settings | None = None,
    **changes: Any,
) -> Range:
    """The eigenvalues of the symmetric part of a Jacobian in a constant metric, over a domain.

    Solutions of ``x' = f(x)`` that stay in a convex domain come closer to each other at least like
    ``exp(m t)`` in the norm ``(v . P v)**0.5`` if m < 0 is the largest of them (the logarithmic
    norm).

    Parameters
    ----------
    f : Network
        A field: as many outputs as inputs, with smooth units.
    domain : Box
        Bounded.
    metric : array_like, shape (d, d), optional
        P, symmetric and positive definite; by default that of the Euclidean norm.
    settings, **changes : optional
        As of `lipyomo.value_range`.

    Returns
    -------
    Range
        ``high`` is the interval of the largest eigenvalue of ``(P J + J^T P) / 2`` relative to P,
        ``low`` that of the least one.  Witnesses are points of x, followed by angles.

    Raises
    ------
    ProblemError
        If f is no field, the domain no bounded box, or the metric none.
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
    settings = chosen_settings(settings, changes)
    check_parts(f, domain)
    d = f.input_dim
    if f.output_dim != d:
        raise ProblemError(f"a field has as many outputs as inputs, not {f.output_dim} and {d}")
    if not domain.is_box:
        raise ProblemError("the domain must be a box.  Remedy: give a Box")
    P = np.eye(d) if metric is None else _metric(metric, d)
    W, skew = _factor(P)
    A = W.T @ P
    clock = Clock(settings.time_limit, settings.should_stop, settings.started)
    off = 0.0
    if metric is not None:
        first = replace(settings, **shared(clock, 4), progress=None)
        most = solve(LipschitzProblem(f, domain, "l1", "linf"), "auto", first).upper
        sizes = (np.abs(W.T) @ np.abs(P)).sum() * np.abs(W).sum()
        off = float(gamma(4 * d + 16) * sizes * most)
    found = value_range(
        _form(f, A, W),
        Box(
            np.append(domain.lower, np.zeros(d - 1)),
            np.append(domain.upper, np.full(d - 1, 6.5 if d == 2 else 3.25)),
        ),
        settings=replace(settings, **shared(clock, 1)),
    )
    ends = np.array([*found.low, *found.high])
    off += 2.0 * skew * float(np.abs(ends[np.isfinite(ends)]).max(initial=0.0))
    return replace(
        found,
        low=(found.low[0] - off, found.low[1] + off),
        high=(found.high[0] - off, found.high[1] + off),
    )


def _metric(given: npt.ArrayLike, d: int) -> FloatArray:
    P = real_numbers(given, "the metric", ProblemError)
    if P.shape != (d, d) or not np.isfinite(P).all() or (P != P.T).any():
        raise ProblemError(f"the metric must be a symmetric matrix of {d} rows and {d} columns")
    return P


def _factor(P: FloatArray) -> tuple[FloatArray, float]:
    """W with ``W^T P W = 1 + E``, and a number that the norm of E is not above."""
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


_sin = cast("Callable[[Expression], Expression]", np.sin)
_cos = cast("Callable[[Expression], Expression]", np.cos)


def _form(f: Network, A: FloatArray, W: FloatArray) -> Network:
    """``c . (A J(x) W) c`` as a network of x and the angles of c; of d = 2 of the double angle."""
    d = f.input_dim
    select = Network.from_arrays([np.eye(d, 2 * d - 1)])

    def expression(u: Field, x: Inputs) -> Expression:
        J = [[u[a].d(b) for b in range(d)] for a in range(d)]

        def entries(weight: FloatArray) -> Expression:
            """``sum weight * J``."""
            terms = [J[a][b] * float(weight[a, b]) for a, b in np.argwhere(weight).tolist()]
            return sum(terms[1:], terms[0]) if terms else 0.0 * x[0]

        weights = np.einsum("ia,bj->ijab", A, W)
        weights = 0.5 * (weights + weights.transpose(1, 0, 2, 3))
        if d == 1:
            return entries(weights[0, 0])
        if d == 2:
            mean = 0.5 * (weights[0, 0] + weights[1, 1])
            half = 0.5 * (weights[0, 0] - weights[1, 1])
            across = entries(half) * _cos(x[d]) + entries(weights[0, 1]) * _sin(x[d])
            return entries(mean) + across
        c, sines = [_cos(x[d])], _sin(x[d])
        for k in range(1, d - 1):
            c.append(sines * _cos(x[d + k]))
            sines = sines * _sin(x[d + k])
        c.append(sines)
        terms = [
            entries(weights[i, j] if i == j else 2.0 * weights[i, j]) * (c[i] * c[j])
            for i in range(d)
            for j in range(i, d)
        ]
        return sum(terms[1:], terms[0])

    return residual(compose(f, select), expression, f"symmetric part of {f.name}")
