"""Bounds of targets in proofs: multipliers are rounded to the numbers that the checker will read.

The steps of the search compute bounds in floating point.  Bounds accepted here are proved, rounding
errors included, from exactly the numbers that are written.  Without unstable units the Jacobian is
known, unless its region is empty, and the checker's arithmetic decides.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import ProofError
from lipyomo.problems.affine.system import NodeForm
from lipyomo.proofs.case import Case, Step
from lipyomo.proofs.context import Recording
from lipyomo.proofs.refute import refuted
from lipyomo.relaxations.semidefinite.bounder import Minimum
from lipyomo.search.spaces.phases.bound import bound_targets
from lipyomo.search.spaces.phases.statistics import Statistics
from lipyomo_check import linear as checked
from lipyomo_check.parts import MOST_VERTICES
from lipyomo_check.semidefinite import Tangents


def bounded_case(recording: Recording, case: Case) -> Case:
    """Add semidefinite bounds to a case with a form, and close targets proved low enough."""
    unknown = np.full(case.ours.targets.size, np.inf)
    ours, aim = case.ours._replace(proved=unknown, target_bounds=unknown), recording.aim
    found = bound_targets(recording.search, ours, case.known_form, aim, 0.0, recording.clock)
    ours, most = found.node, aim * (1.0 + recording.params.aim)
    steps: list[Step] = []
    kept = []
    for index, target in enumerate(ours.targets.tolist()):
        own = ours.certificates.get(target)
        if own is not None and ours.target_bounds[index] <= most:
            bound, step = proved_step(recording, target, own.multipliers, case.known_form)
            if bound <= most:
                steps.append(step)
                continue
        kept.append(index)
    ours = ours._replace(
        targets=ours.targets[kept],
        target_bounds=ours.target_bounds[kept],
        proved=ours.proved[kept],
    )
    return replace(case, ours=ours, worst=found.worst).claim(*steps)


def concluded(recording: Recording, case: Case) -> Case:
    """Close a bounded case, or decide the units of which its multipliers exclude one side."""
    targets, worst = case.ours.targets.tolist(), case.worst
    if not targets:
        return case.end(["end"])
    if worst is None or worst.found is None or targets != [worst.found.target]:
        return case
    return _excluded(recording, case, worst.found, (worst.off, worst.on))


def _excluded(
    recording: Recording, case: Case, found: Minimum, drops: tuple[FloatArray, FloatArray]
) -> Case:
    """Decide the units whose other sides the multipliers close."""
    target, aim, form = found.target, recording.aim, case.known_form
    bounder = recording.search.bounder
    tries = [
        given._replace(step=float(f"{given.step:.6g}")) for given in found.exclusions(drops, aim)
    ]
    if not tries:
        return case.at(recording, case.node)
    zeta, lam, rounded = _rounded(recording, found.state.multipliers, form)
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
    is_open = all(recording.linear.stabilise(node, unit) for unit in sides)
    case = case.claim(["exclude", zeta, lam, list(sides.values())])
    return replace(case.at(recording, node), is_open=is_open)


def proved_step(
    recording: Recording, target: int, multipliers: FloatArray, form: NodeForm
) -> tuple[float, Step]:
    """Return the bound that a target's rounded multipliers prove, and its proof step."""
    zeta, lam, rounded = _rounded(recording, multipliers, form)
    bound = recording.search.bounder.prover.bound(form, target, rounded)
    return float(bound), ["close", [recording.numbers[target]], zeta, lam]


def _rounded(
    recording: Recording, multipliers: FloatArray, form: NodeForm
) -> tuple[list[int], list[int], FloatArray]:
    """Round a target's multipliers: zeta and lambda as the checker's integers, and as floats."""
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


def finished_case(
    recording: Recording, case: Case, statistics: Statistics
) -> tuple[Case, Statistics]:
    """Close a case without unstable units.

    Raises
    ------
    ProofError
        If its norm is too large, and it cannot be proved empty.
    """
    upper = recording.upper
    tangents = Tangents(recording.linear.statement, recording.linear, case.node)
    steps: list[Step] = []
    for target in case.ours.targets.tolist():
        number = recording.numbers[target]
        pair = recording.pairs[number]
        if tangents.at_most(upper, pair):
            continue
        tries = _direct(recording, case.known_form, pair[1]) if pair[0] is None else []
        zeta = next((v for v in tries if tangents.holds(upper, pair, v, [])), None)
        if zeta is not None:
            steps.append(["close", [number], zeta, []])
            continue
        case, statistics = refuted(recording, case, statistics)
        if case.is_open:
            raise ProofError("the upper end could not be proved: " + _why(recording, *pair))
        return case, statistics
    return case.end(*steps, ["end"]), statistics


def _direct(recording: Recording, form: NodeForm, column: int | None) -> list[list[int]]:
    """Return multipliers to try for the Euclidean norm of a fixed Jacobian, in this order."""
    bits = 2 * recording.params.multiplier_bits
    equal = [1 << bits]
    if column is not None or recording.search.targets.norm == "l2":
        return [equal]
    sums = np.abs(form.jacobian.T @ form.jacobian).sum(axis=1)
    scaled = np.ldexp(sums / max(sums.max(), 1e-300), bits)
    return [[int(z) + 1 for z in scaled], equal * form.inputs]


def _why(recording: Recording, vertex: int | None, column: int | None) -> str:
    """Return why a full pattern can be neither closed nor refuted."""
    if vertex is None and column is None and recording.search.targets.norm == "linf":
        return (
            "the Euclidean norm of more than two outputs over a cube is known by the cube's "
            f"corners, of which at most {MOST_VERTICES} are listed; take another norm"
        )
    return "a region with a larger norm seems to have no interior, but no certificate was found"
