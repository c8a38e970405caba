"""LipSDP: slope-restricted units in one semidefinite program."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from lipyomo.base.arrays import IntArray, Matrix
from lipyomo.base.errors import MethodError, SolverError
from lipyomo.base.numerics.rounding import EXACT_TOLERANCE
from lipyomo.base.system.processes import in_process
from lipyomo.methods.options import choice, count_option
from lipyomo.methods.registry import TAKES_ALL, method
from lipyomo.methods.semidefinite import operator_bound
from lipyomo.methods.support import domain_bounds, fall_back, form_fits, product_bound, switched
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import Phases, count_open, open_phases
from lipyomo.problems.domains import AllSpace, Domain
from lipyomo.problems.norms import ONE_BY_ONE, InputNorm, L2Output, OutputNorm
from lipyomo.problems.reductions.presolve import presolve
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.run import Run
from lipyomo.problems.targets import Targets
from lipyomo.relaxations.linear import preactivation_bounds
from lipyomo.relaxations.linear.layers import with_slopes
from lipyomo.relaxations.semidefinite.chain_root import (
    ChainBounds,
    chain_bounds,
    exact_tangents,
)
from lipyomo.relaxations.semidefinite.choice import Ball
from lipyomo.relaxations.semidefinite.columns import column_bounds
from lipyomo.relaxations.semidefinite.lipsdp_model import Sharing, along_norms, solve_conic
from lipyomo.relaxations.semidefinite.prove import Prover
from lipyomo.relaxations.semidefinite.root import RootBounds
from lipyomo.relaxations.semidefinite.verify import SizedForm

CONIC_ORDER = 160
"""Largest order of a matrix given to conic solvers if time is limited; larger ones take hours."""
QUICK_ORDER = 60
"""Largest order of a matrix solved in this process, where a solver cannot be interrupted."""

_TOLERANCE = 0.1 * EXACT_TOLERANCE

_SOLVERS = ("auto", "newton", "clarabel", "scs", "mosek")


def _targets(
    network: Network, norm: OutputNorm, input_norm: InputNorm, directions: Matrix | None
) -> tuple[Ball, Targets]:
    """Return the targets of an output norm: vertices one by one, or a whole dual ball."""
    m = network.output_dim
    ball: Ball = "l2" if norm.dual_ball == "round" else "l1"
    vertices = norm.vertices(m)
    if vertices is None or (len(vertices) > 1 and norm.dual_ball == "cube"):
        vertices = None
    else:
        if len(vertices) > ONE_BY_ONE:
            raise MethodError(
                f"method lipsdp treats the {len(vertices)} vertices of the dual ball of "
                f"{norm.name} one by one, at most {ONE_BY_ONE}.  Remedy: give a "
                "functional, or use the output norm l2"
            )
        ball = "vertices"
    d = network.input_dim if directions is None else directions.shape[1]
    return ball, Targets.of(vertices, m, d, input_norm)


def _conic(form: SizedForm, layers: IntArray, ball: Ball, plan: _Piece, run: Run) -> float:
    """Bound one functional or ball by a conic solver; l1 inputs share their multipliers.

    If the inputs would make the matrix too large, they get one fixed metric.
    """
    grouped = plan.input_norm != "linf"
    model = form
    if not grouped and form.count + form.inputs > CONIC_ORDER:
        model, grouped = along_norms(form), True
    limit = run.clock.left if math.isfinite(run.clock.left) else None
    order = form.count + min(form.inputs, form.count + len(form.objective) if grouped else math.inf)
    if limit is not None and (order > CONIC_ORDER or limit < 1.0):
        raise SolverError("the program is too large for the time limit")
    name = "CLARABEL" if plan.solver == "auto" else plan.solver.upper()
    if limit is not None and order > QUICK_ORDER:
        limit *= 0.8  # its process takes time to start and to answer
    asked = model, layers, grouped, ball, plan.sharing, name, limit
    if order <= QUICK_ORDER:
        upper, lam = solve_conic(*asked)
    else:
        upper, lam = in_process(solve_conic, *asked, stop=lambda: run.expired)
    if plan.input_norm == "l1" and ball == "vertices":
        upper = min(upper, float(column_bounds(form, lam).max()))
    return upper


@dataclass(frozen=True)
class _Piece:
    """Consecutive layers of a network, the last of them affine.

    Attributes
    ----------
    network : Network
    phases : tuple of ndarray
    norm : OutputNorm
    domain : Domain
    input_norm : {'linf', 'l1', 'l2'}
    directions : Matrix or None
    sharing : {'neuron', 'layer'}
    solver : str
    """

    network: Network
    phases: Phases
    norm: OutputNorm
    domain: Domain
    input_norm: InputNorm
    directions: Matrix | None
    sharing: Sharing
    solver: str

    def layer_by_layer(self) -> ChainBounds | None:
        """Prepare bounds layer by layer, if the solver is Newton's method and they are cheaper."""
        if self.sharing != "neuron" or self.solver not in ("auto", "newton"):
            return None
        network = exact_tangents(self.network, self.directions)
        _, targets = _targets(self.network, self.norm, self.input_norm, self.directions)
        known = np.full(targets.count, np.inf)
        return chain_bounds(network, self.norm, self.phases, targets, known, _TOLERANCE)


def bound_piece(piece: _Piece, run: Run) -> float:
    """Prove the LipSDP bound of one piece, with one matrix."""
    network, along = piece.network, piece.directions
    ball, targets = _targets(network, piece.norm, piece.input_norm, along)
    left = presolve(network, targets.functionals, piece.domain, piece.phases, along)
    system, every = left.system, left.phases
    targets = replace(targets, functionals=left.functionals)
    root = RootBounds.of(system, targets, every, norm=piece.norm, tolerance=_TOLERANCE)
    conic = root.form.units.size and (piece.sharing == "layer" or piece.solver in _SOLVERS[2:])
    if conic:
        sized = Prover(system, targets, every, ball).sized(root.form)
        layers = system.layer_of[root.form.units]
        forms = [sized]
        if ball == "vertices":
            forms = [sized.select(np.array([row])) for row in range(len(sized.objective))]
        try:
            found = max(_conic(form, layers, ball, piece, run) for form in forms)
            if math.isfinite(found):
                return found
            run.warn(
                "the conic solver's multipliers prove no bound: Newton's method bounds instead"
            )
        except SolverError as error:
            if run.clock.interrupted:
                return math.inf
            run.warn(f"{error}: Newton's method bounds instead, with one multiplier a unit")
    return root.run(clock=run.clock).value


def pieces(network: Network, phases: Phases, length: int) -> Iterator[tuple[Network, Phases]]:
    """Cut a network after every `length` hidden layers; each piece ends with an affine layer."""
    hidden = list(network.hidden)
    for start in range(0, len(hidden), length):
        part = hidden[start : start + length]
        last = start + length >= len(hidden)
        n = part[-1].units
        head = network.head if last else Layer(np.eye(n), np.zeros(n))
        yield Network([*part, head]), phases[start : start + length]


@method(
    "lipsdp",
    "LipSDP",
    Guarantee.UPPER,
    "Fazlyab et al., Efficient and accurate estimation (NeurIPS 2019)",
    options={"form": "neuron", "solver": "auto", "split": 0, "slopes": "local"},
    **TAKES_ALL,
)
def run(run: Run) -> Result:
    """Bound the constant by LipSDP.

    Options
    -------
    form : {'neuron', 'layer'}
        One multiplier per unit, or one per layer.
    solver : {'auto', 'newton', 'clarabel', 'scs', 'mosek'}
        Conic solvers get a CVXPY model; ``newton`` is this project's own method (neuron form only).
        ``auto`` is Newton for the neuron form and Clarabel for the layer form.
    split : int
        Bound pieces of this many hidden layers separately and multiply the bounds; 0 for no split.
    slopes : {'local', 'global'}
        Whether units that are stable on the domain keep their slope, or all units may have any.
    """
    sharing = cast(Sharing, choice(run, "form", ("neuron", "layer")))
    solver = choice(run, "solver", _SOLVERS)
    slopes = choice(run, "slopes", ("local", "global"))
    split = count_option(run, "split", least=0)
    if sharing == "layer" and solver == "newton":
        raise MethodError(
            "the solver newton has no layer form.  Remedy: choose clarabel, scs or form=neuron"
        )
    small = run.problem.reduced.problem
    bounds = domain_bounds(run) if slopes == "local" else None
    if bounds is None:
        everywhere = AllSpace(small.network.input_dim)
        network = with_slopes(small.network, preactivation_bounds(small.network, everywhere))
        phases = open_phases(network)
    else:
        network, phases = switched(run, bounds).network, bounds.phases
    run.state(unstable=count_open(phases))
    parts = list(pieces(network, phases, split or len(network.hidden))) if network.hidden else []
    if not parts:
        parts = [(network, phases)]
    found = []
    for position, (part, part_phases) in enumerate(parts):
        norm: OutputNorm = small.output_norm if position == len(parts) - 1 else L2Output()
        begins: tuple[InputNorm, Matrix | None] = "l2", None
        if position == 0:
            begins = small.norm, small.directions
        domain = small.domain if len(parts) == 1 else AllSpace(part.input_dim)
        found.append(_Piece(part, part_phases, norm, domain, *begins, sharing, solver))
    product_bound(run)
    if bounds is not None:
        operator_bound(run, bounds)
    chains = [piece.layer_by_layer() for piece in found]
    if any(chain is None for chain in chains) and not form_fits(run, phases):
        fall_back(run, bounds)
        return run.result(done=False)
    factors = [
        bound_piece(piece, run) if chain is None else chain.run(clock=run.clock).value
        for piece, chain in zip(found, chains, strict=True)
    ]
    upper = float(np.prod(factors)) * (1.0 + 2.0**-52 * len(factors))
    run.record(form=sharing, pieces=factors)
    run.drop_upper(upper)
    if run.expired or not math.isfinite(upper):
        fall_back(run, bounds)
    return run.result(solver=solver)
