"""Upper ends of deep networks: multipliers that the checker proves layer by layer.

Where bounds come layer by layer (`lipyomo.relaxations.semidefinite.chain_root`), so does the proof
of the whole: no matrix is larger than a layer.
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.proofs.case import Case, Step
from lipyomo.proofs.context import Recording
from lipyomo.relaxations.semidefinite.chain_proof import proved_bound
from lipyomo.relaxations.semidefinite.chain_root import (
    ChainBounds,
    chain_bounds,
    exact_tangents,
)


def layer_steps(recording: Recording, case: Case) -> tuple[float, list[Step]] | None:
    """The upper end that a case proves layer by layer, at least the stated one, and its steps.

    None where there is no such proof, or another one is cheaper.
    """
    search = recording.search
    system, problem, targets = search.system, search.problem, search.targets
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
    proved = [_proved(recording, chain, target) for target in every]
    if not all(bound < np.inf for bound, _, _ in proved):
        return None
    upper = max(upper, *(bound / (1.0 - 2.0 * recording.params.aim) for bound, _, _ in proved))
    for target, (_, lam, shape) in zip(every, proved, strict=True):
        step = _step(upper, lam, shape, recording.params.multiplier_bits)
        steps.append(["layers", [recording.numbers[target]], *step])
    return upper, case.end(*steps, ["end"]).needed(recording)


def _proved(
    recording: Recording, chain: ChainBounds, target: int
) -> tuple[float, FloatArray, FloatArray | None]:
    """What a target's multipliers prove once they have few bits, and these."""
    descent = chain.descents.get(target) or chain.together
    if descent is None or descent.best is None:
        return np.inf, np.zeros(0), None
    bits = recording.params.multiplier_bits
    lam, shape = _short(descent.best.lam, bits), descent.best.shape(descent.chain)
    shape = None if shape is None else _short(shape, bits)
    return proved_bound(chain.layered_of(target), lam, shape), lam, shape


def _short(values: FloatArray, bits: int) -> FloatArray:
    """Numbers of so many bits each."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits))


def _step(
    upper: float, lam: FloatArray, shape: FloatArray | None, bits: int
) -> tuple[list[int], list[int]]:
    """Zeta and lambda as whole numbers in one unit, where ``tau`` is a quarter of the square."""
    share = np.ones(1) if shape is None else shape / shape.sum()
    zeta = 0.25 * upper * upper * share
    unit = min(0, int(np.frexp(min(zeta.min(), lam.min()))[1]) - 2 * bits)
    return _whole(zeta, unit), _whole(lam, unit)


def _whole(values: FloatArray, unit: int) -> list[int]:
    """Numbers in units of ``2^unit``, of any size."""
    ratios = (value.as_integer_ratio() for value in values.tolist())
    return [max((top << -unit) // bottom, 1) for top, bottom in ratios]
