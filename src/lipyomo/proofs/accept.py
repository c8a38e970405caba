"""Accepting bounds of targets: multipliers are rounded, and go on as the checker reads them.

The steps of the search claim bounds in floating point.  What is accepted here is proved with its
rounding errors counted, from the very numbers that are written.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.problems.affine.system import NodeForm
from lipyomo.proofs.case import Case, Step
from lipyomo.proofs.context import Recording
from lipyomo.relaxations.semidefinite.bounder import inherited
from lipyomo.search.spaces.phases.bound import bound_targets
from lipyomo.search.spaces.phases.part import Worst
from lipyomo_check import linear as checked


def bounded(recording: Recording, case: Case) -> Case:
    """A case with a form, with semidefinite bounds; targets proved low enough are closed."""
    unknown = np.full(case.ours.targets.size, np.inf)
    ours, aim = case.ours.but(proved=unknown, target_bounds=unknown), recording.aim
    found = bound_targets(recording.search, ours, case.known_form, aim, 0.0, recording.clock)
    ours, most = found.node, aim * (1.0 + recording.params.aim)
    steps: list[Step] = []
    kept = []
    for index, target in enumerate(ours.targets.tolist()):
        own = ours.certificates.get(target)
        if own is not None and ours.target_bounds[index] <= most:
            bound, step = _proved(recording, target, own.multipliers, case.known_form)
            if bound <= most:
                steps.append(step)
                continue
        kept.append(index)
    ours = ours.but(
        targets=ours.targets[kept],
        target_bounds=ours.target_bounds[kept],
        proved=ours.proved[kept],
    )
    return replace(case, ours=ours, worst=found.worst).claim(*steps)


def concluded(recording: Recording, case: Case) -> Case:
    """A case that was bounded: closed, or without the sides that its multipliers exclude."""
    targets, worst = case.ours.targets.tolist(), case.worst
    if not targets:
        return case.end(["end"])
    if worst is None or targets != [worst.found.target]:
        return case
    return _excluded(recording, case, worst)


def undivided(recording: Recording, case: Case) -> tuple[float, list[Step]] | None:
    """The least upper end that a bounded case proves without leaving others, and its steps."""
    ours, form, upper = case.ours, case.known_form, recording.upper
    steps: list[Step] = []
    for target in ours.targets.tolist():
        own = ours.certificates.get(target)
        if own is None:
            return None
        kernel = recording.search.bounder.kernel(form, target)
        y = inherited(kernel, form, own.units, own.multipliers)
        bound, step = _proved(recording, target, y, form)
        upper = max(upper, bound / (1.0 - 2.0 * recording.params.aim))
        steps.append(step)
    if not math.isfinite(upper):
        return None
    return upper, case.end(*steps, ["end"]).needed(recording)


def _excluded(recording: Recording, case: Case, worst: Worst) -> Case:
    """Decide the units whose other sides the multipliers close."""
    target, aim, form = worst.found.target, recording.aim, case.known_form
    bounder = recording.search.bounder
    tries = [
        replace(given, step=float(f"{given.step:.6g}"))
        for given in bounder.exclusions(worst.found, (worst.off, worst.on), aim)
    ]
    if not tries:
        return case.at(recording, case.node)
    zeta, lam, rounded = _rounded(recording, target, worst.found.state.multipliers, form)
    bounds = bounder.prover.exclude(form, target, rounded, tries)
    sides: dict[int, Step] = {}
    for given, bound in zip(tries, bounds, strict=True):
        if bound <= aim:
            unit = int(form.units[given.position])
            multiple = -given.step if target in recording.turned else given.step
            sides[unit] = [unit, "L" if given.on else "R", multiple]
    if not sides:
        return case.at(recording, case.node)
    node = case.node.copy()
    for unit, side, _ in sides.values():
        node.phases[unit] = checked.LEFT if side == "L" else checked.RIGHT
    is_open = all(recording.linear.settle(node, unit) for unit in sides)
    case = case.claim(["exclude", zeta, lam, list(sides.values())])
    return replace(case.at(recording, node), is_open=is_open)


def _proved(
    recording: Recording, target: int, multipliers: FloatArray, form: NodeForm
) -> tuple[float, Step]:
    """What a target's multipliers prove as the checker reads them, and the step of it."""
    zeta, lam, rounded = _rounded(recording, target, multipliers, form)
    bound = recording.search.bounder.prover.bound(form, target, rounded)
    return float(bound), ["close", [recording.numbers[target]], zeta, lam]


def _rounded(
    recording: Recording, target: int, multipliers: FloatArray, form: NodeForm
) -> tuple[list[int], list[int], FloatArray]:
    """Zeta and lambda of a target's multipliers as the checker wants them, and as floats."""
    targets, bits, count = (
        recording.search.targets,
        recording.params.multiplier_bits,
        form.units.size,
    )
    head = multipliers.size - count
    first = head - 1 if targets.norm == "l2" or targets.by_column else head - form.inputs
    own = multipliers[first:]
    _, exponent = np.frexp(own.max())
    numbers = np.maximum(np.rint(np.ldexp(own, bits - exponent)), 1.0)
    rounded = multipliers.copy()
    rounded[first:] = np.ldexp(numbers, exponent - bits)
    written = numbers.astype(np.int64).tolist()
    return written[: head - first], written[head - first :], rounded
