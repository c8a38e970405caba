"""The recorder: proves the upper bound by a tree of cases that `lipyomo_check` can check.

The tree is made once the interval is known, by a branch and bound that only has to prove its
cutoff.  It uses the steps of the search: `bounds.py`, `accept.py`, `undivided.py` and `refute.py`
round the numbers that these compute, test in the checker's arithmetic what has no margin, and
continue with what is accepted.

It is not driven by the search's engine.  A proof is read depth first, each case before its parts,
and written as it is made, so that neither writer nor checker holds the whole tree.  So the order of
cases is fixed, and does not depend on bounds, incumbents or batches, with which the engine is
concerned; the loop below is what remains without these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lipyomo.base.arrays import FloatArray
from lipyomo.proofs.accept import bounded_case, concluded, finished_case
from lipyomo.proofs.bounds import tightened
from lipyomo.proofs.case import OURS, Case, Parting, Step
from lipyomo.proofs.context import Recording
from lipyomo.proofs.pairs import UnfinishedError
from lipyomo.proofs.refute import refuted
from lipyomo.proofs.undivided import layer_steps, undivided
from lipyomo.search.spaces.phases.node import PhaseNode
from lipyomo.search.spaces.phases.score import candidates, score
from lipyomo.search.spaces.phases.split import box_halves, wants_box
from lipyomo.search.spaces.phases.statistics import Statistics

_THEIRS = {ours: theirs for theirs, ours in OURS.items()}


@dataclass(frozen=True, eq=False)
class Examined:
    """A finished case: the steps to write, and its parts.

    Attributes
    ----------
    steps : list of Step
    parts : tuple of int
        Numbers of the cases into which it is divided, left first.
    """

    steps: list[Step]
    parts: tuple[int, ...] = ()


class Recorder:
    """Records the cases of one proof.

    Parameters
    ----------
    recording : Recording
    look_ahead : ndarray, shape (N,), optional
        The search's average look-ahead of splits on each unit.

    Attributes
    ----------
    cases : int
        Number of cases generated so far.
    undivided : (float, list of Step) or None
        The upper bound that is proved without any split, and its steps, once known.
    """

    def __init__(self, recording: Recording, look_ahead: FloatArray | None = None) -> None:
        self._recording = recording
        self._statistics = statistics = Statistics.nothing(recording.search.system.count)
        if look_ahead is not None:
            looks = recording.params.looks
            self._statistics = statistics._replace(
                ahead=looks * look_ahead, looks=statistics.looks + looks
            )
        self._sides: dict[Parting, list[PhaseNode]] = {}  # splits with one finished side
        self.cases = 0
        self.undivided: tuple[float, list[Step]] | None = None

    def nodes(self) -> Iterator[list[Step]]:
        """Generate the nodes of the proof, depth first.

        Raises
        ------
        UnfinishedError
            If the time is up.
        ProofError
            If a case can be neither closed nor split.
        """
        recording = self._recording
        node = recording.linear.root()
        root = Case(node, recording.search.whole(recording.points.pool.count)).at(recording, node)
        unwritten, waiting, count = [0], [(0, root)], 1  # stacks: the next one is last
        examined: dict[int, Examined] = {}
        together = recording.search.params.together
        del root  # keep no case that is written
        while unwritten:
            while unwritten[-1] not in examined:
                if recording.clock.expired:
                    raise UnfinishedError("the proof of the upper end was stopped")
                ahead = waiting[-together:]
                del waiting[-together:]
                parts = self._examine([case for _, case in ahead])
                for (number, _), (case, left) in zip(ahead, parts, strict=True):
                    own = range(count, count + len(left))
                    count += len(left)
                    steps = list(case.steps) if left else case.needed(recording)
                    examined[number] = Examined(steps, tuple(own))
                    waiting += reversed(list(zip(own, left, strict=True)))
                del ahead, parts, case, left
            now = examined.pop(unwritten.pop())
            self.cases += 1
            yield now.steps
            unwritten += reversed(now.parts)

    def _examine(self, cases: list[Case]) -> list[tuple[Case, tuple[Case, ...]]]:
        """Process cases: return each with all its steps, and its parts."""
        recording, found = self._recording, list(cases)
        left: dict[int, tuple[Case, ...]] = {}
        for k, case in enumerate(cases):  # inherited multipliers may close it before tightening
            if case.ours.certificates and recording.search.ascent is not None:
                found[k] = self._bound(case)
        going = [k for k, case in enumerate(found) if case.is_open]
        while going:
            wide = [k for k in going if found[k].still]
            for k, case in zip(wide, tightened(recording, [found[k] for k in wide]), strict=True):
                found[k] = case
            for k in going:
                if found[k].is_open and not found[k].is_known:
                    found[k] = self._bound(found[k])
            again = [k for k in going if found[k].is_open and not found[k].is_known]
            for k in going:
                if found[k].is_open and found[k].is_known:
                    found[k], left[k] = self._part(found[k])
            going = again
        parts = [(case, left.get(k, ())) for k, case in enumerate(found)]
        for case, own in parts:
            self._learn(case, bool(own))
        return parts

    def _bound(self, case: Case) -> Case:
        """Bound the gradient of a case; this may close it, or decide units."""
        recording = self._recording
        case = replace(case, form=recording.search.system.form(case.ours.phases))
        if not case.known_form.units.size:
            case, self._statistics = finished_case(recording, case, self._statistics)
            return case
        if case.is_root:
            self.undivided = layer_steps(recording, case)
            if self.undivided is not None and self.undivided[0] <= recording.upper:
                return replace(case, steps=tuple(self.undivided[1]), is_open=False)
        bounded = bounded_case(recording, case)
        case = concluded(recording, bounded)
        if case.is_open and case.is_root and self.undivided is None:
            self.undivided = undivided(recording, bounded)
        return case

    def _part(self, case: Case) -> tuple[Case, tuple[Case, ...]]:
        """Refute a case, or else split it."""
        case, self._statistics = refuted(self._recording, case, self._statistics)
        if not case.is_open:
            return case, ()
        case, parts, self._statistics = _parted(self._recording, case, self._statistics)
        return case, parts

    def _learn(self, case: Case, is_left: bool) -> None:
        """Enter the score of a split into the statistics, once both sides are finished."""
        parting = case.parting
        if parting is None:
            return
        own = [case.ours] if is_left else []
        other = self._sides.pop(parting, None)
        if other is None:
            self._sides[parting] = own
            return
        value = score(self._recording.search, parting.ours, [*other, *own], self._recording.upper)
        self._statistics = self._statistics.learn(parting.unit, parting.features, value)


def _parted(
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
