"""Upper bounds that are proved without any split, and their proof steps.

`layer_steps` proves the bound of a deep network layer by layer, if its bounds are computed in the
same way (`lipyomo.relaxations.semidefinite.chain_root`), so that no matrix is larger than a layer.
`undivided` returns the bound that the multipliers of a case prove.  `slope_steps` replaces smooth
units by two-slope ones whose slopes are the ends of the range of the smooth unit's slope
(`lipyomo.search.spaces.boxes.wide.ranges`).  This is used on unbounded domains, and with too many
inputs for a tree of boxes.  Its multipliers are computed, rounded and proved like those of any
root; splits would not help, since pre-activations are not bounded.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.domains import Box
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.proofs.accept import proved_step
from lipyomo.proofs.case import Case, Step
from lipyomo.proofs.context import Recording
from lipyomo.proofs.params import PARAMS
from lipyomo.relaxations.semidefinite.bounder import inherited
from lipyomo.relaxations.semidefinite.chain_proof import proved_chain_bound
from lipyomo.relaxations.semidefinite.chain_root import (
    LAYERS,
    ChainBounds,
    chain_bounds,
    exact_tangents,
)
from lipyomo.search.spaces.phases.bound import bound_targets
from lipyomo_check.smooth.slopes import between
from lipyomo_check.statement import Statement


def layer_steps(recording: Recording, case: Case) -> tuple[float, list[Step]] | None:
    """Return an upper bound proved layer by layer, at least the statement's, and its steps.

    Returns None if there is no such proof, or another one is cheaper.
    """
    search = recording.search
    system, problem, targets = search.system, search.problem, search.targets
    if np.unique(system.layer_of[case.known_form.units]).size < LAYERS:
        return None
    phases = tuple(np.split(case.ours.phases, system.starts[1:-1]))
    tangents = exact_tangents(system.network, problem.directions)
    known = np.full(targets.count, np.inf)
    tight = recording.params.aim
    chain = chain_bounds(tangents, problem.output_norm, phases, targets, known, tight)
    if chain is None:
        return None
    chain = chain.run(recording.aim, recording.clock)
    steps: list[Step] = []
    upper, every = recording.upper, range(targets.count)
    proved = [_layered(recording, chain, target) for target in every]
    if not all(bound < np.inf for bound, _, _ in proved):
        return None
    upper = max(upper, *(bound / (1.0 - 2.0 * recording.params.aim) for bound, _, _ in proved))
    for target, (_, lam, shape) in zip(every, proved, strict=True):
        step = _step(upper, lam, shape, recording.params.multiplier_bits)
        steps.append(["layers", [recording.numbers[target]], *step])
    return upper, case.end(*steps, ["end"]).needed(recording)


def _layered(
    recording: Recording, chain: ChainBounds, target: int
) -> tuple[float, FloatArray, FloatArray | None]:
    """Round a target's multipliers to few bits; return the bound that they prove, and them."""
    descent = chain.descents.get(target) or chain.together
    if descent is None or descent.best is None:
        return np.inf, np.zeros(0), None
    bits = recording.params.multiplier_bits
    lam, shape = _short(descent.best.lam, bits), descent.best.shape(descent.chain)
    shape = None if shape is None else _short(shape, bits)
    return proved_chain_bound(chain.layered_of(target), lam, shape), lam, shape


def _short(values: FloatArray, bits: int) -> FloatArray:
    """Round numbers to `bits` bits each."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits))


def _step(
    upper: float, lam: FloatArray, shape: FloatArray | None, bits: int
) -> tuple[list[int], list[int]]:
    """Encode zeta and lambda as integers in one unit, where ``tau`` is ``upper**2 / 4``."""
    share = np.ones(1) if shape is None else shape / shape.sum()
    zeta = 0.25 * upper * upper * share
    unit = min(0, int(np.frexp(min(zeta.min(), lam.min()))[1]) - 2 * bits)
    return _whole(zeta, unit), _whole(lam, unit)


def _whole(values: FloatArray, unit: int) -> list[int]:
    """Convert numbers to integer multiples of ``2^unit``, of any size."""
    ratios = (value.as_integer_ratio() for value in values.tolist())
    return [max((top << -unit) // bottom, 1) for top, bottom in ratios]


def undivided(recording: Recording, case: Case) -> tuple[float, list[Step]] | None:
    """Return the lowest upper bound that a bounded case proves without a split, and its steps."""
    ours, form, upper = case.ours, case.known_form, recording.upper
    steps: list[Step] = []
    for target in ours.targets.tolist():
        own = ours.certificates.get(target)
        if own is None:
            return None
        kernel = recording.search.bounder.kernel(form, target)
        y = inherited(kernel, form, own.units, own.multipliers)
        bound, step = proved_step(recording, target, y, form)
        upper = max(upper, bound / (1.0 - 2.0 * recording.params.aim))
        steps.append(step)
    if not math.isfinite(upper):
        return None
    return upper, case.end(*steps, ["end"]).needed(recording)


def slope_steps(
    problem: LipschitzProblem, statement: Statement, clock: Clock
) -> tuple[float, list[Step]] | None:
    """Return an upper bound proved by ranges of slopes, at least the statement's, and its steps.

    Returns None if there was not enough time.

    Raises
    ------
    ProofError
        If the statement has other targets than the problem.
    """
    known = between(statement)
    hidden = [
        Layer(layer.weight, np.zeros(layer.units), own.left, own.right)
        for layer, own in zip(problem.network.hidden, known.hidden, strict=True)
    ]
    head, box = problem.network.head, known.domain.box
    anywhere = LipschitzProblem(
        Network([*hidden, Layer(head.weight, np.zeros(head.units))]),
        Box(np.array(box.lower), np.array(box.upper)),
        problem.norm,
        problem.output_norm,
        directions=problem.directions,
    )
    recording = Recording.of(anywhere, known, clock, PARAMS)
    node = recording.linear.root()
    case = Case(node, recording.search.whole(recording.points.pool.count)).at(recording, node)
    case = replace(case, form=recording.search.system.form(case.ours.phases))
    layered = layer_steps(recording, case)
    if layered is not None:
        return layered
    unknown = np.full(case.ours.targets.size, np.inf)
    ours = case.ours._replace(proved=unknown, target_bounds=unknown)
    found = bound_targets(recording.search, ours, case.known_form, None, 0.0, clock)
    return undivided(recording, replace(case, ours=found.node))
