"""LipOpt-k: a hierarchy of linear programs over the gradient as a polynomial."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray, dense
from lipyomo.base.errors import MethodError
from lipyomo.base.numerics.lp import LinearProgram
from lipyomo.base.numerics.rounding import gamma, rounded_up
from lipyomo.methods.options import count_option
from lipyomo.methods.registry import LINEAR, method
from lipyomo.methods.support import domain_bounds, few_vertices, vertex_bounds
from lipyomo.networks.phases import OPEN, RIGHT
from lipyomo.problems.affine.system import switched_sizes
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.run import Run
from lipyomo.relaxations.linear import LayerBounds

MOST_PRODUCTS = 150_000
"""Most rows of a linear program; larger ones take minutes to set up."""

Subset: TypeAlias = tuple[int, ...]


class OutOfTime(Exception):
    """There is no time for another certificate."""


class TooLarge(Exception):
    """The program would have too many products."""


def gradient_polynomial(
    problem: LipschitzProblem,
    bounds: LayerBounds,
    functional: FloatArray,
    stop: Callable[[], bool] | None = None,
) -> tuple[dict[Subset, float], int]:
    """Expand ``sum_j v_j g_j(y)`` to a multilinear polynomial in variables in [0, 1].

    Variables 0 to d - 1 are tau with v = 2 tau - 1, for d directions; the others are the switches
    of the unstable units, layer by layer.

    Parameters
    ----------
    problem : LipschitzProblem
    bounds : LayerBounds
    functional : ndarray, shape (m,)
    stop : callable, optional
        Polled unit by unit; if true, `OutOfTime` is raised.

    Returns
    -------
    terms : dict of tuple of int to float
        Coefficients by the (sorted) variables of each monomial.
    count : int
        Number of variables.
    """
    network = problem.tangent_network
    d = network.input_dim
    signals: list[dict[Subset, float]] = [{(j,): 2.0, (): -1.0} for j in range(d)]
    count = d

    def combine(row: FloatArray) -> dict[Subset, float]:
        total: dict[Subset, float] = {}
        if stop is not None and stop():
            raise OutOfTime
        for weight, signal in zip(row, signals, strict=True):
            if weight != 0.0:
                for key, value in signal.items():
                    total[key] = total.get(key, 0.0) + weight * value
        return total

    for layer, phase in zip(network.hidden, bounds.phases, strict=True):
        tangents: list[dict[Subset, float]] = []
        entries = 0
        for k in range(layer.units):
            tangents.append(combine(dense(layer.weight[[k]])[0]))
            entries += len(tangents[-1])
            if entries > 10 * MOST_PRODUCTS:
                raise TooLarge("the gradient of this network has too many monomials for LipOpt")
        passed: list[dict[Subset, float]] = []
        for k, tangent in enumerate(tangents):
            slope = layer.right[k] if phase[k] == RIGHT else layer.left[k]
            signal = {key: slope * value for key, value in tangent.items() if slope != 0.0}
            if phase[k] == OPEN:
                change = layer.right[k] - layer.left[k]
                for key, value in tangent.items():
                    signal[(*key, count)] = change * value
                count += 1
            passed.append(signal)
        signals = passed
    return combine(functional @ network.head.dense_weight), count


def coefficient_error(problem: LipschitzProblem, functional: FloatArray) -> float:
    """Bound how far the computed polynomial is from the exact one on the cube.

    The bound is the sum of the absolute values of all terms, before any cancellation, times the
    relative rounding error of the sums through all layers.
    """
    network = problem.tangent_network
    sizes = switched_sizes(network, np.full(network.input_dim, 3.0), False)[-1]  # |2 tau| + |-1|
    terms = network.input_dim + sum(layer.inputs + 4 for layer in network.layers)
    return gamma(2 * (terms + network.output_dim)) * float(np.abs(functional) @ sizes)


def _products(subsets: list[Subset], index: dict[Subset, int]) -> sp.csr_array:
    """Return rows ``- E[prod_{I} x prod_{J} (1 - x)] <= 0`` for all partitions of each subset."""
    rows, columns, values = [], [], []
    row = 0
    for subset in subsets:
        for mask in range(1 << len(subset)):
            inside = tuple(v for i, v in enumerate(subset) if mask >> i & 1)
            outside = [v for i, v in enumerate(subset) if not mask >> i & 1]
            for size in range(len(outside) + 1):
                for extra in combinations(outside, size):
                    rows.append(row)
                    columns.append(index[tuple(sorted(inside + extra))])
                    values.append(1.0 if size % 2 else -1.0)
            row += 1
    return sp.csr_array((values, (rows, columns)), shape=(row, len(index)))


def _needed(terms: dict[Subset, float], count: int, k: int) -> Iterator[Subset]:
    """Generate the sets of k variables that contain a monomial of the polynomial."""
    seen = set()
    for key in terms:
        if len(key) < 2:
            continue
        rest = [v for v in range(count) if v not in key]
        for extra in combinations(rest, min(k - len(key), len(rest))):
            subset = tuple(sorted(key + extra))
            if subset not in seen:
                seen.add(subset)
                yield subset


def polynomial_bound(terms: dict[Subset, float], count: int, k: int, time_limit: float) -> float:
    """Prove an upper bound of a multilinear polynomial over the cube by degree-k products.

    The linear program maximises over "moments" E[prod x] for which the expectation of every product
    of k factors x or 1 - x is non-negative.  Its bound is recomputed from the row duals, using that
    all moments are between 0 and 1.

    Raises
    ------
    MethodError
        If k is less than the polynomial's degree.
    TooLarge
        If the program would have more than `MOST_PRODUCTS` rows.
    """
    degree = max((len(key) for key in terms), default=0)
    if k < degree:
        raise MethodError(
            f"LipOpt-{k} cannot treat a gradient of degree {degree}.  Remedy: option k={degree} or "
            "more (one more than the number of hidden layers with unstable units)"
        )
    constant = terms.get((), 0.0)
    if degree < 2:
        gains = [max(value, 0.0) for key, value in terms.items() if key]
        size = sum(abs(value) for value in terms.values())
        return constant + sum(gains) + gamma(len(terms)) * size
    subsets = []
    for subset in _needed(terms, count, k):
        subsets.append(subset)
        if len(subsets) << k > MOST_PRODUCTS:
            raise TooLarge(
                f"LipOpt-{k} needs more than {MOST_PRODUCTS} products for {count} variables"
            )
    faces = {tuple(face) for s in subsets for size in range(k) for face in combinations(s, size)}
    ordered = sorted(faces.union(subsets, terms), key=lambda key: (len(key), key))
    index = {key: i for i, key in enumerate(ordered)}
    A = _products(subsets, index)
    c = np.zeros(len(index))
    for key, value in terms.items():
        c[index[key]] += value
    low, high = np.zeros(len(index)), np.ones(len(index))
    low[index[()]] = 1.0
    return LinearProgram(low, high, A, np.zeros(A.shape[0])).bound(c, time_limit)


@method(
    "lipopt",
    "LipOpt-k",
    Guarantee.UPPER,
    "Latorre, Rolland and Cevher, Sparse polynomial optimization (ICLR 2020)",
    unbounded=True,
    directions=("two-slope",),
    input_norms=("linf",),
    output_norms=LINEAR,
    options={"k": 3},
)
def run(run: Run) -> Result:
    """LipOpt-k: Krivine's certificates of degree k for the gradient as a polynomial.

    The polynomial is multilinear, so its maximum is at a corner of the cube and ``x^2 = x`` may be
    used: only products of different variables are needed, and the bound is at least as tight as
    with powers.  Sets of variables that contain no monomial are left out (the sparsity of Latorre
    et al., section 3).

    Options
    -------
    k : int
        Degree of the products, 3 by default.
    """
    k = count_option(run, "k", least=2)
    small = run.problem.reduced.problem
    vertices = few_vertices(small, "lipopt")
    bounds = domain_bounds(run)
    uppers = vertex_bounds(run, bounds).tolist()
    run.drop_upper(max(uppers))
    finished = 0
    for position, y in enumerate(vertices):
        try:
            terms, count = gradient_polynomial(small, bounds, y, lambda: run.expired)
            found = polynomial_bound(terms, count, k, run.clock.left) + coefficient_error(small, y)
        except OutOfTime:
            break
        except TooLarge as reason:
            remedy = "a smaller k, a smaller domain, or crown and sdp (tighter and smaller)"
            run.warn(f"{reason}: the bound is that of fastlip.  Remedy: {remedy}")
            break
        uppers[position] = min(rounded_up(found), uppers[position])
        finished += 1
    run.record(k=k)
    run.drop_upper(max(uppers))
    return run.result(finished == len(uppers) and not run.expired, solver="highs")
