"""Closing cases without unstable units: their Jacobian is known, up to its region being empty."""

from __future__ import annotations

import numpy as np

from lipyomo.base.errors import ProofError
from lipyomo.problems.affine.system import NodeForm
from lipyomo.proofs.case import Case, Step
from lipyomo.proofs.context import Recording
from lipyomo.proofs.refute import refuted
from lipyomo.search.spaces.phases.statistics import Statistics
from lipyomo_check.parts import MOST_VERTICES
from lipyomo_check.semidefinite import Tangents


def finished(recording: Recording, case: Case, statistics: Statistics) -> tuple[Case, Statistics]:
    """A case without unstable units, closed.

    Raises
    ------
    ProofError
        If its norm is too large, and nothing shows that it is empty.
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
    """Multipliers for the Euclidean norm of a fixed Jacobian, to be tried in turn."""
    bits = 2 * recording.params.multiplier_bits
    equal = [1 << bits]
    if column is not None or recording.search.targets.norm == "l2":
        return [equal]
    sums = np.abs(form.jacobian.T @ form.jacobian).sum(axis=1)
    scaled = np.ldexp(sums / max(sums.max(), 1e-300), bits)
    return [[int(z) + 1 for z in scaled], equal * form.inputs]


def _why(recording: Recording, vertex: int | None, column: int | None) -> str:
    """Why a full pattern is neither closed nor refuted."""
    if vertex is None and column is None and recording.search.targets.norm == "linf":
        return (
            "the Euclidean norm of more than two outputs over a cube is known by the cube's "
            f"corners, of which at most {MOST_VERTICES} are listed; take another norm"
        )
    return "a region with a larger norm seems to have no interior, but no certificate was found"
