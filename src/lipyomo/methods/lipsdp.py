"""LipSDP: slope-restricted units and one semidefinite program."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from lipyomo.errors import MethodError
from lipyomo.methods.registry import Method, register
from lipyomo.methods.support import MAX_VERTICES, choice, domain_bounds, upper_result
from lipyomo.network import Layer, Network
from lipyomo.norms import InputNorm, L1Output, L2Output, OutputNorm
from lipyomo.phases import Phases, count_open, open_phases
from lipyomo.result import Guarantee, Result
from lipyomo.run import Clock, Run
from lipyomo.semidefinite.choice import Ball
from lipyomo.semidefinite.columns import column_bounds
from lipyomo.semidefinite.lipsdp_model import Sharing, along_norms, solve_conic
from lipyomo.semidefinite.multipliers import Stop, node_bound
from lipyomo.semidefinite.reduce import ReducedForm, reduce_form

NEWTON = Stop(tolerance=1e-7, iterations=1000)
"""A bound for its own sake is worth more steps than one of thousands of nodes."""

_MANY_INPUTS = 3
"""Conic solvers get one fixed metric of the inputs when these outnumber the units so often."""

_SOLVERS = ("auto", "newton", "clarabel", "scs", "mosek")


@dataclass(frozen=True)
class _Plan:
    """How one piece of a network is bounded."""

    input_norm: InputNorm
    sharing: Sharing
    solver: str


def _form(network: Network, phases: Phases, norm: OutputNorm) -> tuple[Ball, ReducedForm]:
    """The objective rows of an output norm: vertices one by one, or a ball."""
    m = network.output_dim
    vertices = norm.vertices(m)
    if vertices is not None and (len(vertices) == 1 or not isinstance(norm, L1Output)):
        if len(vertices) > MAX_VERTICES:
            raise MethodError(
                f"method lipsdp treats the {len(vertices)} vertices of the dual ball of "
                f"{norm.name} one by one, at most {MAX_VERTICES}.  Remedy: give a functional, or "
                "use the output norm l2"
            )
        return "vertices", reduce_form(network, phases, vertices)
    ball: Ball = "l2" if isinstance(norm, L2Output) else "l1"
    return ball, reduce_form(network, phases, np.eye(m))


def _conic(form: ReducedForm, ball: Ball, plan: _Plan, clock: Clock) -> float:
    """One functional or ball by a conic solver; l1 inputs through shared multipliers."""
    grouped = plan.input_norm != "linf"
    model = form
    if not grouped and form.inputs > _MANY_INPUTS * (form.count + 10):
        model, grouped = along_norms(form), True
    limit = clock.left if math.isfinite(clock.left) else None
    name = "CLARABEL" if plan.solver == "auto" else plan.solver.upper()
    answer = solve_conic(model, grouped, ball, plan.sharing, name, limit)
    upper = answer.upper
    if plan.input_norm == "l1" and ball == "vertices":
        upper = min(upper, float(column_bounds(form, answer.lam).max()))
    return upper


def bound_piece(
    network: Network, phases: Phases, norm: OutputNorm, plan: _Plan, clock: Clock
) -> float:
    """Proved LipSDP bound of one piece."""
    ball, form = _form(network, phases, norm)
    if form.count == 0 or (plan.sharing == "neuron" and plan.solver in ("auto", "newton")):
        found = node_bound(form, plan.input_norm, ball, stop=NEWTON).upper
        if plan.solver == "newton" or math.isfinite(found):
            return found
    if ball != "vertices":
        return _conic(form, ball, plan, clock)
    singles = (form.select(np.array([row])) for row in range(len(form.objective)))
    return max(_conic(single, ball, plan, clock) for single in singles)


def pieces(network: Network, phases: Phases, length: int) -> Iterator[tuple[Network, Phases]]:
    """Cut a network after every `length` hidden layers; each piece ends with an affine layer."""
    hidden = list(network.hidden)
    for start in range(0, len(hidden), length):
        part = hidden[start : start + length]
        last = start + length >= len(hidden)
        n = part[-1].units
        head = network.head if last else Layer(np.eye(n), np.zeros(n))
        yield Network([*part, head]), phases[start : start + length]


def run(run: Run) -> Result:
    """Bound the constant by LipSDP.

    Options
    -------
    form : {'neuron', 'layer'}
        One multiplier a unit, or one a layer.
    solver : {'auto', 'newton', 'clarabel', 'scs', 'mosek'}
        Conic solvers get the CVXPY model; ``newton`` is the own method of `multipliers` (neuron
        form only).  ``auto`` is Newton for the neuron form and Clarabel for the layer form.
    split : int
        Bound pieces of that many hidden layers by themselves and multiply; 0 does not split.
    slopes : {'local', 'global'}
        Whether units that the domain decides keep their slope, or all units may have any.
    """
    sharing = cast(Sharing, choice(run.settings, "form", ("neuron", "layer")))
    solver = choice(run.settings, "solver", _SOLVERS)
    slopes = choice(run.settings, "slopes", ("local", "global"))
    split = run.settings.options.get("split", 0)
    if not isinstance(split, int) or split < 0:
        raise MethodError(f"option split must be a whole number of layers, not {split}")
    if sharing == "layer" and solver == "newton":
        raise MethodError(
            "the solver newton has no layer form.  Remedy: choose clarabel, scs or form=neuron"
        )
    small = run.problem.reduced.problem
    network = small.network
    rung = None
    phases = open_phases(network)
    if slopes == "local":
        bounds = domain_bounds(run)
        phases, rung = bounds.phases, bounds.rung
    parts = list(pieces(network, phases, split or len(network.hidden))) if network.hidden else []
    if not parts:
        parts = [(network, phases)]
    factors = []
    for position, (part, part_phases) in enumerate(parts):
        norm: OutputNorm = small.output_norm if position == len(parts) - 1 else L2Output()
        plan = _Plan(small.input_norm if position == 0 else "l2", sharing, solver)
        factors.append(bound_piece(part, part_phases, norm, plan, run.clock))
    upper = float(np.prod(factors)) * (1.0 + 2.0**-52 * len(factors))
    run.record(form=sharing, pieces=factors)
    if not math.isfinite(upper):
        run.warn("the solver's multipliers prove no bound; try another solver")
    return upper_result(run, upper, solver=solver, bounds=rung, unstable=count_open(phases))


register(
    Method(
        name="lipsdp",
        title="LipSDP",
        guarantee=Guarantee.UPPER,
        reference="Fazlyab et al., Efficient and accurate estimation (NeurIPS 2019)",
        run=run,
        input_norms=("linf", "l1", "l2"),
        output_norms=("scalar", "l1", "l2", "linf", "cross", "cross(i)", "linear"),
        unbounded=True,
        options={"form": "neuron", "solver": "auto", "split": 0, "slopes": "local"},
    )
)
