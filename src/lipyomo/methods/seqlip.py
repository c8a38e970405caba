"""SeqLip: a product of small maximisations over the units' slopes, by singular vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, lengths
from lipyomo.base.clock import Clock, seconds_of
from lipyomo.base.errors import MethodError
from lipyomo.base.numerics.exact import close_product
from lipyomo.base.numerics.rounding import gamma, rounded_up
from lipyomo.base.system.memory import LARGE
from lipyomo.methods.options import choice
from lipyomo.methods.registry import TAKES_ALL, method
from lipyomo.methods.support import domain_bounds, few_vertices, switched
from lipyomo.networks.network import Network
from lipyomo.networks.phases import OPEN, RIGHT, Phases, open_phases
from lipyomo.primal.heuristics.params import PARAMS as SAMPLING
from lipyomo.problems.operator_norm import SINGULAR_ORDER
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.run import Run

EXACT_UNITS = 14
"""Most unstable units of a layer whose slopes are enumerated: each doubles the time."""

Stop: TypeAlias = Callable[[], bool]

Factors: TypeAlias = "tuple[FloatArray, FloatArray, FloatArray]"
"""U, S and V^T of a matrix."""


class _Factor(NamedTuple):
    """Matrices ``left @ diag(slopes) @ right``, for all slopes that a layer's units may have.

    Attributes
    ----------
    left : ndarray, shape (p, n)
    low, high : ndarray, shape (n,)
        Both slopes of unstable units; for the others `low` is the slope.
    right : ndarray, shape (n, q)
    is_open : ndarray of bool, shape (n,)
    """

    left: FloatArray
    low: FloatArray
    high: FloatArray
    right: FloatArray
    is_open: BoolArray

    @property
    def at_once(self) -> int:
        """Number of products that are formed at once."""
        return max(int(SAMPLING.poll_work / (self.left.size * self.right.shape[1])), 1)

    def norms(self, slopes: FloatArray) -> FloatArray:
        """Spectral norms of the products, shape (k,), for rows of `slopes` (k, n)."""
        products = (self.left[None] * slopes[:, None, :]) @ self.right
        return np.asarray(np.linalg.norm(products, 2, axis=(1, 2)))

    def greedy(self, stop: Stop) -> float:
        """Start with all right slopes, and switch single units while it helps (Greedy SeqLip)."""
        slopes = np.where(self.is_open, self.high, self.low)
        units, both = np.flatnonzero(self.is_open), self.low + self.high
        best = float(self.norms(slopes[None])[0])
        before = 0.0
        while best > before:
            before, start = best, slopes
            for first in range(0, units.size, self.at_once):
                if stop():
                    return best
                part = units[first : first + self.at_once]
                trials, index = np.repeat(start[None], part.size, axis=0), np.arange(part.size)
                trials[index, part] = both[part] - trials[index, part]
                values = self.norms(trials)
                k = int(np.argmax(values))
                if values[k] > best * (1.0 + 1e-12):
                    slopes, best = trials[k], float(values[k])
        return best

    def exact(self, stop: Stop) -> float:
        """Try all combinations of slopes: the norm is convex in them, so one is a maximiser."""
        units = np.flatnonzero(self.is_open)
        if units.size > EXACT_UNITS:
            raise MethodError(
                f"SeqLip enumerates at most {EXACT_UNITS} unstable units a layer, one layer has "
                f"{units.size}.  Remedy: search=greedy"
            )
        best, chunk = 0.0, self.at_once
        for start in range(0, 1 << units.size, chunk):
            if stop():
                return math.inf
            count = min(chunk, (1 << units.size) - start)
            bits = ((np.arange(start, start + count)[:, None] >> np.arange(units.size)) & 1) == 1
            slopes = np.repeat(self.low[None], count, axis=0)
            slopes[:, units] = np.where(bits, self.high[units], self.low[units])
            best = max(best, float(self.norms(slopes).max()))
        return best


def seqlip(
    network: Network,
    phases: Phases,
    functionals: FloatArray | None,
    search: str,
    clock: Clock | None = None,
) -> float:
    """Compute SeqLip's value of ``|J|_2``, or of the largest ``|c . J|_2`` for functionals (k, m).

    With ``W_i = U_i S_i V_i^T`` the constant is at most the product over the layers of

        max over slopes D of  | S'_{i+1} V_{i+1}^T D U_i S'_i |_2,

    where S' is S at both ends of the network and its square root elsewhere (Virmaux and Scaman
    2018, Theorem 3).  Only the last factor depends on the functional.  The value is infinite if
    there is no time for the singular vectors, or for all slopes of an exact search.  That of an
    exact search includes rounding errors relative to the norms of the matrices, since factors can
    be far smaller than these.
    """
    clock = clock or Clock()
    head, lost = network.head.dense_weight, 0.0
    heads = [head]
    if functionals is not None:
        rows, errors = close_product(functionals, head)
        heads, lost = list(rows[:, None]), float(lengths(errors).max())
    matrices = [layer.dense_weight for layer in network.hidden]
    shapes = (sorted(matrix.shape) for matrix in matrices)
    # the operations of singular vectors (Golub and Van Loan, section 8.6)
    work = sum((14.0 * more + 8.0 * fewer) * fewer**2 for fewer, more in shapes)
    if not clock.fits(seconds_of(work)):
        return math.inf
    factors = [np.linalg.svd(matrix, full_matrices=False) for matrix in matrices]
    last = [np.linalg.svd(matrix, full_matrices=False) for matrix in heads]
    longest = max(float(sizes.max(initial=0.0)) for _, sizes, _ in last)
    terms = sum(sum(matrix.shape) for matrix in [*matrices, head])
    norms = [float(sizes.max(initial=0.0)) for _, sizes, _ in factors]
    steep = [float(layer.steepest.max(initial=0.0)) for layer in network.hidden]
    room = (lost + gamma(64 * terms) * longest) * math.prod(norms) * math.prod(steep)
    room = room * (1.0 + gamma(terms)) if search == "exact" else 0.0
    if not matrices:
        return longest + room

    def factor(position: int, behind: Factors, end: bool = False) -> float:
        """Maximise the norm over a hidden layer's slopes, given the factors of the next layer."""
        layer, phase = network.hidden[position], phases[position]
        U, first, _ = factors[position]
        _, second, Vt = behind
        right = U * (np.sqrt(first) if position else first)
        left = Vt * (second if end else np.sqrt(second))[:, None]
        low = np.where(phase == RIGHT, layer.right, layer.left)
        found = _Factor(left, low, layer.right, right, phase == OPEN)
        maximise = found.greedy if search == "greedy" else found.exact
        return maximise(lambda: clock.expired)

    inner = math.prod(factor(i, behind) for i, behind in enumerate(factors[1:]))
    return inner * max(factor(len(matrices) - 1, behind, end=True) for behind in last) + room


def refuses(problem: LipschitzProblem) -> str | None:
    """Return why a problem is refused, if a layer is too large for singular vectors, or None."""
    for layer in problem.reduced.problem.network.layers:
        rows, columns = layer.weight.shape
        # a dense copy, its singular vectors, and products with them
        large = 8.0 * 4.0 * rows * columns > LARGE
        if large or min(rows, columns) > SINGULAR_ORDER:
            return (
                f"it decomposes every layer into singular vectors, and one is {rows} x {columns}, "
                "which would take too long.  Remedy: use crown"
            )
    return None


@method(
    "seqlip",
    "SeqLip",
    Guarantee.HEURISTIC,
    "Virmaux and Scaman, Lipschitz regularity of deep networks (NeurIPS 2018)",
    options={"search": "greedy", "slopes": "global"},
    refuses=refuses,
    **TAKES_ALL,
)
def run(run: Run) -> Result:
    """SeqLip, scaled by sqrt(d) for linf inputs, with d the number of inputs or directions.

    The greedy search may miss the worst slopes, so its value is an estimate, not a bound; with
    ``search=exact`` the value is an upper bound, and the result says so.

    Options
    -------
    search : {'greedy', 'exact'}
    slopes : {'global', 'local'}
        Whether all units may have any slope (the original), or stable ones keep theirs.
    """
    search = choice(run, "search", ("greedy", "exact"))
    slopes = choice(run, "slopes", ("global", "local"))
    small = run.problem.reduced.problem
    network, phases = small.tangent_network, open_phases(small.network)
    if slopes == "local":
        bounds = domain_bounds(run)
        network, phases = switched(run, bounds).tangent_network, bounds.phases
    round_ball = small.output_norm.dual_ball == "round"
    functionals = None if round_ball else few_vertices(small, "seqlip")
    value = seqlip(network, phases, functionals, search, run.clock)
    if small.norm == "linf":
        value *= math.sqrt(network.input_dim)
    run.record(search=search, slopes=slopes)
    if search == "exact":
        run.drop_upper(rounded_up(value, 4))
        return run.result(guarantee=Guarantee.UPPER)
    if math.isinf(value):
        run.warn("there is no time for singular vectors: there is no estimate")
        return run.result()
    if run.expired:
        run.warn("the search for the largest slopes was cut short")
    return run.result(estimate=value)
