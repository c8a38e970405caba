"""Splitting a case on a unit, or by a cut of its input box."""

from __future__ import annotations

from lipyomo.proofs.case import OURS, Case, Parting
from lipyomo.proofs.context import Recording
from lipyomo.search.spaces.phases.node import PhaseNode
from lipyomo.search.spaces.phases.score import candidates
from lipyomo.search.spaces.phases.split import box_halves, wants_box
from lipyomo.search.spaces.phases.statistics import Statistics

_THEIRS = {ours: theirs for theirs, ours in OURS.items()}


def parted_case(
    recording: Recording, case: Case, statistics: Statistics
) -> tuple[Case, tuple[Case, Case], Statistics]:
    """Split a case: return it with the step that does so, and its two parts."""
    context, ours = recording.search, case.ours
    # written bounds have margins, so ever smaller boxes need not decide any unit
    cuts = wants_box(context, ours) and case.still != case.before
    boxes = box_halves(context, ours) if cuts else []
    if boxes:
        return *_cut(recording, case, boxes), statistics
    return _split(recording, case, statistics)


def _split(
    recording: Recording, case: Case, statistics: Statistics
) -> tuple[Case, tuple[Case, Case], Statistics]:
    weights, upper = statistics.weights(), recording.upper
    units, features, statistics = candidates(
        recording.search, case.ours, case.known_form, case.worst, statistics, weights, upper
    )
    unit = int(units[0])
    parting = Parting(case.ours, unit, features[0])

    def side(ours: PhaseNode) -> Case:
        node = case.node.copy()
        node.phases[unit] = _THEIRS[int(ours.phases[unit])]
        recording.linear.stabilise(node, unit)
        return Case(node, ours, parting=parting).at(recording, node)

    left, right = case.ours.sides(unit)
    return case.claim(["split", unit]), (side(left), side(right)), statistics


def _cut(
    recording: Recording, case: Case, halved: list[PhaseNode]
) -> tuple[Case, tuple[Case, Case]]:
    first, second = halved
    j = first.trail[-1].number
    value, place = float(first.high[j]), int(recording.moving[j])
    box = case.node.box

    def side(ours: PhaseNode, low: float, high: float) -> Case:
        node = case.node.copy(box.cut(place, low, high))
        return Case(node, ours, before=case.still).at(recording, node)

    parts = side(first, box.lower[place], value), side(second, value, box.upper[place])
    return case.claim(["cut", place, value]), parts
