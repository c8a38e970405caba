"""The range of a Lie derivative over a domain, for Lyapunov and barrier certificates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from lipyomo.analyses.api import digests, question_settings
from lipyomo.analyses.questions.values import both_ends
from lipyomo.base.arguments import instance, real_numbers
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import ProblemError
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.domains import Domain
from lipyomo.problems.magnitudes import check_magnitudes
from lipyomo.problems.ranges import Range, check_parts, chosen_functional
from lipyomo.problems.reductions.confine import confined
from lipyomo.problems.settings import Settings, SettingsKeywords, takes
from lipyomo.search.objectives.field import Along, FieldQuestion
from lipyomo.search.objectives.shell import Shell, ShellQuestion
from lipyomo.search.spaces.boxes.pipeline import BoxPipeline


@takes(SettingsKeywords)
def lie_derivative(
    V: Network,
    g: Network | Sequence[Any],
    domain: Domain,
    functional: npt.ArrayLike | None = None,
    settings: Settings | None = None,
    *,
    shell: tuple[float, float] | None = None,
    **changes: Unpack[SettingsKeywords],
) -> Range:
    """Bound the least and the largest value of ``grad V(x) . g(x)`` over a domain or a shell in it.

    This is the rate of change of V along solutions of ``x' = g(x)``: if it is negative, V falls.

    Parameters
    ----------
    V : Network
        Piecewise linear or smooth.
    g : Network, or (A, b), or (A,)
        The vector field: a network with as many outputs as inputs, or the map ``A x + b``.
    domain : Domain
        A bounded domain without frozen inputs.
    functional : array_like, shape (m,), optional
        Functional of V's outputs; not needed for a network with one output.
    settings, **changes : optional
        See `lipyomo.value_range`.
    shell : (float, float), optional
        Restricts the domain to ``low <= V(x) <= high``; either end may be infinite.  As the
        derivative vanishes at an equilibrium, it can only be negative outside of a level set
        around it.

    Returns
    -------
    Range
        Range over the points of the domain and the shell at which V has a gradient (interior points
        if V is piecewise linear); attained ends are enclosures at the witnesses.

    Raises
    ------
    ProblemError
        If the arguments do not match, the domain is unbounded, an input is frozen, or no point of
        the domain was found in the shell.

    Examples
    --------
    >>> import lipyomo
    >>> V = lipyomo.Network.from_arrays([[[1.0], [-1.0]], [[1.0, 1.0]]])  # |x|
    >>> found = lipyomo.lie_derivative(V, ([[-2.0]], [0.0]), lipyomo.Box(-1, 3, 1))  # x' = -2 x
    >>> round(found.low[0], 5), round(abs(found.high[1]), 5)
    (-6.0, 0.0)
    """
    settings = question_settings(settings, changes)
    check_parts(V, domain)
    if domain.frozen.any():
        raise ProblemError("an input cannot move in the domain.  Remedy: give it a little width")
    row = chosen_functional(V, functional)
    field = field_of(g, V.input_dim)
    V, field = confined(V, domain), confined(field, domain)
    check_magnitudes(V, domain, row[None])
    check_magnitudes(field, domain, None)
    clock = Clock(settings.time_limit, settings.should_stop, settings.started)
    ends = None if shell is None else _ends(shell)
    points = domain.sample(np.random.default_rng(settings.seed), 64 if ends is None else 1024)
    terms = np.abs(V.gradients(points, row) * field.forward(points)).sum(axis=1)
    if ends is not None:
        levels = V.forward(points) @ row
        inside = (ends[0] <= levels) & (levels <= ends[1])
        terms = terms[inside] if inside.any() else terms
    scale = float(terms.max())

    def pipeline(sign: float) -> BoxPipeline:
        common = V, sign * row, domain, scale
        if ends is None:
            return BoxPipeline(Along(FieldQuestion(*common, field=field)), settings.seed)
        question = ShellQuestion(*common, field=field, level=row, shell=ends)
        return BoxPipeline(Shell(question), settings.seed)

    asked = partial(digests, V=(V, row), field=field, domain=domain, shell=ends or [])
    found = both_ends(pipeline, settings, clock, asked)
    if ends is not None and not np.isfinite([found.high[1], found.low[0]]).any():
        raise ProblemError(
            f"no point of the domain was found at which V is between {ends[0]:g} and {ends[1]:g}.  "
            "Remedy: ask for the range of V first (lipyomo range)"
        )
    return found


def _ends(shell: Any) -> tuple[float, float]:
    """Return the ends of a shell."""
    ends = real_numbers(shell, "the shell", ProblemError).reshape(-1)
    if ends.size != 2 or not ends[0] <= ends[1]:
        raise ProblemError("the shell is a pair of numbers, low <= high, of values of V")
    return float(ends[0]), float(ends[1])


def field_of(g: Any, d: int) -> Network:
    """Return the field as a network from R^d to R^d.

    Raises
    ------
    ProblemError
        If it is none.
    """
    if isinstance(g, Network):
        field = g
    else:
        instance(g, Sequence, "the field", ProblemError, "give a Network, or (A, b)")
        if len(g) not in (1, 2):
            raise ProblemError("the field is neither a network nor (A, b)")
        A: FloatArray = real_numbers(g[0], "the matrix A", ProblemError)
        b = np.zeros(d) if len(g) == 1 else real_numbers(g[1], "the offset b", ProblemError)
        if A.shape != (d, d) or b.shape != (d,):
            raise ProblemError(
                f"the field has the shapes {A.shape} and {b.shape}, expected ({d}, {d}) and "
                f"({d},).  Remedy: give a Network, or a pair (A, b)"
            )
        field = Network([Layer(A, b)], "field")
    if (field.input_dim, field.output_dim) != (d, d):
        raise ProblemError(
            f"the field takes {field.input_dim} inputs and has {field.output_dim} outputs: both "
            f"should be {d}, the inputs of V"
        )
    return field
