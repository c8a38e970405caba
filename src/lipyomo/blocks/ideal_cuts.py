r"""Cuts from the convex hull of a unit, separated at the root of a model.

With ``z = sum_i w_i h_i + c`` and h_i in [L_i, U_i], every set S of inputs gives the inequality

    relu(z) <= sum_{i in S} w_i (h_i - lo_i (1 - a)) + (c + sum_{i not in S} w_i up_i) a

where lo_i is the end of [L_i, U_i] at which w_i h_i is smallest and up_i the other end.  Together
with big-M they describe the convex hull of one unit (Anderson, Huchette, Ma, Tjandraatmadja and
Vielma, "Strong mixed-integer programming formulations for trained neural networks", 2020).  The
most violated one at a point has i in S if ``w_i (h_i - lo_i (1 - a)) <= w_i up_i a``.  So the
separation takes linear time, and a few rounds of linear programs replace a callback.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyomo.environ as pyo

from lipyomo.base.errors import ProblemError, SolverError
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.blocks.units import ends_of_terms, terms_of
from lipyomo.solvers import solve_model
from lipyomo.solvers.rows import linear

VIOLATION = 1e-4
"""Least violation of a cut, relative to the unit's range."""


@with_one_blas_thread
def add_ideal_cuts(
    block: Any, solver: str = "highs", rounds: int = 3, tolerance: float = VIOLATION
) -> int:
    """Add violated cuts to a network block, for the objective of its model.

    Parameters
    ----------
    block : ReluNetworkBlock
        With formulation ``bigm``, in a model with one active objective.
    solver : str, optional
        Solver of the linear relaxations.
    rounds : int, optional
        Largest number of relaxations to solve.
    tolerance : float, optional
        Least violation of a cut, relative to the range of its unit.

    Returns
    -------
    int
        Number of cuts, declared as ``layer[i].ideal_cut``.

    Raises
    ------
    ProblemError
        If the block is not built, or has another formulation.
    SolverError
        If a relaxation cannot be solved.
    """
    if getattr(block, "network", None) is None or block.formulation != "bigm":
        raise ProblemError("ideal cuts belong to a ReluNetworkBlock in the formulation 'bigm'")
    for part in block.layer.values():
        if part.component("ideal_cut") is None:
            part.add_component("ideal_cut", pyo.ConstraintList())
            block._adopt(part.ideal_cut)
    total = 0
    for _ in range(rounds):
        outcome = solve_model(block.model(), solver, relax=True)
        if outcome.incumbent is None:
            raise SolverError(f"the relaxation could not be solved: {outcome.status.value}")
        point = outcome.solution
        added = sum(_cut_layer(block, i, point, tolerance) for i in block.layer)
        total += added
        if added == 0:
            break
    return total


def _cut_layer(block: Any, i: int, point: Mapping[Any, float], tolerance: float) -> int:
    """Add the violated cuts of one layer, and return their number."""
    part, layer = block.layer[i], block.network.hidden[i]
    added = 0
    for k, out in part.output.items():
        z, a = part.preactivation[k], part.switch[k]
        coefs, variables, constant = terms_of(part, k)
        w = np.array(coefs)
        small, large = ends_of_terms(w, variables)
        h = np.array([_value(point, v) for v in variables])
        share = _value(point, a)
        inside = w * h - small * (1.0 - share) <= large * share
        rest = float(large[~inside].sum())
        base = float(small[inside].sum())
        left, right = float(layer.left[k]), float(layer.right[k])
        delta = right - left
        # relu(z) = (y - left z) / delta, and the right-hand side is w_S h - base + (...) a.
        lhs = (_value(point, out) - left * _value(point, z)) / delta
        rhs = float((w * h)[inside].sum()) - base + (base + constant + rest) * share
        if lhs - rhs <= tolerance * (float(large.sum()) - float(small.sum())):
            continue
        picked = np.flatnonzero(inside).tolist()
        terms = [1.0 / delta, -left / delta, *(-coefs[j] for j in picked)]
        columns = [out, z, *(variables[j] for j in picked)]
        if left == 0.0:
            del terms[1], columns[1]
        terms.append(-(base + constant + rest))
        columns.append(a)
        slack = 2.0**-48 * (len(coefs) + 4) * float((np.abs(small) + np.abs(large)).sum())
        part.ideal_cut.add((None, linear(terms, columns), -base + slack))
        added += 1
    return added


def _value(point: Mapping[Any, float], variable: Any) -> float:
    """Return a variable's value in a solution, or its own value if it is fixed."""
    found = point.get(variable)
    return float(variable.value if found is None else found)
