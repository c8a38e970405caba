"""SeqLip: a product of small maximisations over the units' slopes, by singular vectors."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from lipyomo.errors import MethodError
from lipyomo.methods.registry import Method, register
from lipyomo.methods.support import (
    choice,
    domain_bounds,
    few_vertices,
    upper_result,
)
from lipyomo.network import BoolArray, FloatArray, Network
from lipyomo.numerics.rounding import rounded_up
from lipyomo.phases import LEFT, OPEN, Phases, open_phases
from lipyomo.result import Guarantee, Result
from lipyomo.run import Run

EXACT_UNITS = 14
"""Most open units of a layer for which all slopes are enumerated."""

_CHUNK = 512
_SWEEPS = 20


def _norms(left: FloatArray, slopes: FloatArray, right: FloatArray) -> FloatArray:
    """Spectral norms of ``left @ diag(slopes_i) @ right`` for rows of `slopes` (k, n)."""
    products = (left[None] * slopes[:, None, :]) @ right
    return np.asarray(np.linalg.norm(products, 2, axis=(1, 2)))


def _greedy(
    left: FloatArray, low: FloatArray, high: FloatArray, right: FloatArray, is_open: BoolArray
) -> float:
    """Start with all right slopes and switch single units while that helps (Greedy SeqLip)."""
    slopes = np.where(is_open, high, low)
    units = np.flatnonzero(is_open)
    best = float(_norms(left, slopes[None], right)[0])
    for _ in range(_SWEEPS):
        trials = np.repeat(slopes[None], units.size, axis=0)
        index = np.arange(units.size)
        trials[index, units] = low[units] + high[units] - trials[index, units]
        values = _norms(left, trials, right) if units.size else np.zeros(0)
        if not values.size or values.max() <= best * (1.0 + 1e-12):
            break
        k = int(np.argmax(values))
        slopes, best = trials[k], float(values[k])
    return best


def _exact(
    left: FloatArray, low: FloatArray, high: FloatArray, right: FloatArray, is_open: BoolArray
) -> float:
    """All combinations of slopes: the norm is convex in them, so that these decide."""
    units = np.flatnonzero(is_open)
    if units.size > EXACT_UNITS:
        raise MethodError(
            f"SeqLip enumerates at most {EXACT_UNITS} open units a layer, one layer has "
            f"{units.size}.  Remedy: search=greedy"
        )
    best = 0.0
    for start in range(0, 1 << units.size, _CHUNK):
        count = min(_CHUNK, (1 << units.size) - start)
        bits = ((np.arange(start, start + count)[:, None] >> np.arange(units.size)) & 1) == 1
        slopes = np.repeat(low[None], count, axis=0)
        slopes[:, units] = np.where(bits, high[units], low[units])
        best = max(best, float(_norms(left, slopes, right).max()))
    return rounded_up(best, 64 * (left.shape[0] + left.shape[1] + right.shape[1]))


def seqlip(network: Network, phases: Phases, functional: FloatArray | None, search: str) -> float:
    """SeqLip's value of ``|J|_2`` (of ``|c . J|_2`` for a functional).

    With ``W_i = U_i S_i V_i^T`` the constant is at most the product over the layers of

        max over slopes D of  | S'_{i+1} V_{i+1}^T D U_i S'_i |_2,

    where S' is S at both ends of the network and its square root elsewhere (Virmaux and Scaman
    2018, Theorem 3).
    """
    head = network.head.dense_weight
    matrices = [layer.dense_weight for layer in network.hidden]
    matrices.append(head if functional is None else np.atleast_2d(functional @ head))
    factors = [np.linalg.svd(matrix, full_matrices=False) for matrix in matrices]
    powers = [1.0 if i in (0, len(matrices) - 1) else 0.5 for i in range(len(matrices))]
    value = 1.0 if len(matrices) > 1 else float(factors[0][1].max(initial=0.0))
    maximise = _greedy if search == "greedy" else _exact
    for (after, before), layer, phase in zip(
        pairwise(range(len(matrices))), network.hidden, phases, strict=True
    ):
        U, first, _ = factors[after]
        _, second, Vt = factors[before]
        right = U * first ** powers[after]
        left = Vt * (second ** powers[before])[:, None]
        low = np.where(phase == LEFT, layer.left, layer.right)
        low = np.where(phase == OPEN, layer.left, low)
        value *= maximise(left, low, layer.right, right, phase == OPEN)
    return value


def run(run: Run) -> Result:
    """SeqLip, scaled by sqrt(d) for linf inputs.

    The greedy search may miss the largest slopes, so that its value bounds nothing; with
    ``search=exact`` the value is an upper bound, and the result says so.

    Options
    -------
    search : {'greedy', 'exact'}
    slopes : {'global', 'local'}
        Whether units that the domain decides keep their slope; ``global`` is the original.
    """
    search = choice(run.settings, "search", ("greedy", "exact"))
    slopes = choice(run.settings, "slopes", ("global", "local"))
    small = run.problem.reduced.problem
    phases = open_phases(small.network)
    if slopes == "local":
        phases = domain_bounds(run).phases
    if small.output_norm.dual_ball == "round":
        value = seqlip(small.network, phases, None, search)
    else:
        vertices = few_vertices(small, "seqlip")
        value = max(seqlip(small.network, phases, y, search) for y in vertices)
    if small.input_norm == "linf":
        value = rounded_up(value * math.sqrt(small.network.input_dim), 4)
    proved = search == "exact"
    run.record(search=search, slopes=slopes)
    if proved:
        return upper_result(run, value, guarantee=Guarantee.UPPER)
    return run.result(guarantee=Guarantee.HEURISTIC, estimate=value)


register(
    Method(
        name="seqlip",
        title="SeqLip",
        guarantee=Guarantee.HEURISTIC,
        reference="Virmaux and Scaman, Lipschitz regularity of deep networks (NeurIPS 2018)",
        run=run,
        options={"search": "greedy", "slopes": "global"},
    )
)
