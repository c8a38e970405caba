"""The recorder: the upper end as a tree of cases that `lipyomo_check` can check.

The tree is made once the interval is known: a branch and bound that only has to prove its cutoff,
with the steps of the search and with an acceptor of its own.  Steps claim; `bounds.py`,
`accept.py`, `undivided.py` and `refute.py` round what is claimed, try what has no room in the
checker's arithmetic, and go on with what that accepts; `split.py` splits.

The engine of the search does not drive it.  A proof is read depth first, each case before those
that it leaves, and is written as it is made, so that neither side holds the tree: what counts is
where a case stands and what is left of it, and not its bound, its incumbent or its batch, all of
which the engine is about.  The loop below is what remains without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import ProofError
from lipyomo.proofs.accept import bounded_case, concluded, finished_case
from lipyomo.proofs.bounds import tightened
from lipyomo.proofs.case import Case, Parting, Step
from lipyomo.proofs.context import Recording
from lipyomo.proofs.refute import refuted
from lipyomo.proofs.split import parted_case
from lipyomo.proofs.undivided import layer_steps, undivided
from lipyomo.search.spaces.phases.node import Node
from lipyomo.search.spaces.phases.score import score
from lipyomo.search.spaces.phases.statistics import Statistics


class Unfinished(ProofError):
    """The tree was stopped before its end."""


@dataclass(frozen=True, eq=False)
class Settled:
    """A case of which the steps are known: what is written, and what it leaves.

    Attributes
    ----------
    steps : list of Step
    parts : tuple of int
        Numbers of the cases that it leaves, left first.
    """

    steps: list[Step]
    parts: tuple[int, ...] = ()


class Recorder:
    """Records the cases of one proof.

    Parameters
    ----------
    recording : Recording
    look_ahead : ndarray, shape (N,), optional
        The search's look-ahead of a split on each unit, on average.

    Attributes
    ----------
    cases : int
        Number of cases that were handed out.
    undivided : (float, list of Step) or None
        The upper end that follows from the whole without any split, and its steps, once known.
    """

    def __init__(self, recording: Recording, look_ahead: FloatArray | None = None) -> None:
        self._recording = recording
        self._statistics = statistics = Statistics.nothing(recording.search.system.count)
        if look_ahead is not None:
            looks = recording.params.looks
            self._statistics = replace(
                statistics, ahead=looks * look_ahead, looks=statistics.looks + looks
            )
        self._sides: dict[Parting, list[Node]] = {}  # of which one is settled
        self.cases = 0
        self.undivided: tuple[float, list[Step]] | None = None

    def nodes(self) -> Iterator[list[Step]]:
        """The nodes of the proof, depth first.

        Raises
        ------
        Unfinished
            If it is stopped.
        ProofError
            If a case can be neither closed nor split.
        """
        recording = self._recording
        node = recording.linear.root()
        root = Case(node, recording.search.whole(recording.points.pool.count)).at(recording, node)
        unwritten, waiting, count = [0], [(0, root)], 1  # the next one last
        settled: dict[int, Settled] = {}
        together = recording.search.params.together
        del root  # what is written is forgotten
        while unwritten:
            while unwritten[-1] not in settled:
                if recording.clock.expired:
                    raise Unfinished("the proof of the upper end was stopped")
                ahead = waiting[-together:]
                del waiting[-together:]
                parts = self._settle([case for _, case in ahead])
                for (number, _), (case, left) in zip(ahead, parts, strict=True):
                    own = range(count, count + len(left))
                    count += len(left)
                    steps = list(case.steps) if left else case.needed(recording)
                    settled[number] = Settled(steps, tuple(own))
                    waiting += reversed(list(zip(own, left, strict=True)))
                del ahead, parts, case, left
            now = settled.pop(unwritten.pop())
            self.cases += 1
            yield now.steps
            unwritten += reversed(now.parts)

    def _settle(self, cases: list[Case]) -> list[tuple[Case, tuple[Case, ...]]]:
        """The cases with all their steps, and what they leave."""
        recording, found = self._recording, list(cases)
        left: dict[int, tuple[Case, ...]] = {}
        for k, case in enumerate(cases):  # what it inherits may close it before it is tightened
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
        """A case with bounds of its gradient; they may close it, or decide units."""
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
        """Refute a case, or else part it."""
        case, self._statistics = refuted(self._recording, case, self._statistics)
        if not case.is_open:
            return case, ()
        case, parts, self._statistics = parted_case(self._recording, case, self._statistics)
        return case, parts

    def _learn(self, case: Case, is_left: bool) -> None:
        """Note what a split was worth, once both sides are known."""
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
