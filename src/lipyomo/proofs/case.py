"""Cases: parts of the domain and of the patterns, each of which a proof closes or divides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.phases import LEFT, OPEN, RIGHT
from lipyomo.problems.affine.system import NodeForm
from lipyomo.proofs.context import Recording
from lipyomo.search.spaces.phases.node import Ahead, PhaseNode
from lipyomo_check import linear as checked

Step = list[Any]
"""A step of the proof, as written to the file."""

OURS: dict[int, int] = {checked.OPEN: OPEN, checked.RIGHT: RIGHT, checked.LEFT: LEFT}
"""Maps the checker's phases to those of the search."""


@dataclass(frozen=True, eq=False)
class Parting:
    """A split on a unit, from whose score the statistics learn once both sides are finished.

    Attributes
    ----------
    ours : PhaseNode
        The node that was split.
    unit : int
    features : ndarray
        Features of the unit.
    """

    ours: PhaseNode
    unit: int
    features: FloatArray


@dataclass(frozen=True, eq=False)
class Case:
    """A case with its proof steps so far; immutable, each new step makes a new one.

    Attributes
    ----------
    node : lipyomo_check.linear.PhaseNode
        The checker's node, which must be copied before it is changed.
    ours : PhaseNode
        The corresponding node of the search.
    steps : tuple of Step
        Steps so far, all of which the checker accepts.
    parting : Parting, optional
        The split of which it is one side.
    before : int, optional
        For one side of a cut, the number of units that were open before the cut.
    form : NodeForm, optional
        The form with which it was bounded.
    worst : Ahead, optional
        Look-ahead of its worst target.
    is_open : bool
        Whether any part of it is left.
    """

    node: checked.Node
    ours: PhaseNode
    steps: tuple[Step, ...] = ()
    parting: Parting | None = None
    before: int | None = None
    form: NodeForm | None = None
    worst: Ahead | None = None
    is_open: bool = True

    @property
    def is_root(self) -> bool:
        """Whether it is the root of the tree."""
        return self.parting is None and self.before is None

    @property
    def still(self) -> int:
        """Number of unstable units."""
        return self.node.phases.count(checked.OPEN)

    @property
    def is_known(self) -> bool:
        """Whether it was bounded, and no unit was decided since."""
        return self.form is not None and self.form.units.size == self.still

    @property
    def known_form(self) -> NodeForm:
        """The form of a case that has one."""
        assert self.form is not None
        return self.form

    def claim(self, *steps: Step) -> Case:
        """Add steps."""
        return replace(self, steps=(*self.steps, *steps))

    def end(self, *steps: Step) -> Case:
        """Add steps that close the case."""
        return replace(self, steps=(*self.steps, *steps), is_open=False)

    def at(self, recording: Recording, node: checked.Node) -> Case:
        """Set the checker's node, and update the search's node to match it."""
        ours, points = self.ours, recording.points
        phases = np.array([OURS[p] for p in node.phases], dtype=np.int8)
        kinked = np.flatnonzero(recording.search.system.kinked)
        inside = points.pool.within(ours.points, phases, kinked)
        here = points.pool.at(inside)
        ours = ours._replace(
            phases=phases,
            lower=np.array(node.lower, dtype=np.float64),
            upper=np.array(node.upper, dtype=np.float64),
            points=inside[((here >= ours.low) & (here <= ours.high)).all(axis=1)],
        )
        return replace(self, node=node, ours=ours)

    def needed(self, recording: Recording) -> list[Step]:
        """Return the steps of a closed case, without the bounds on which nothing depends.

        Needed are bounds that decide a unit or contradict each other, and bounds of all layers
        through which later steps substitute back.
        """
        system, node, steps, last = recording.search.system, self.node, [], -1
        layer_of = system.layer_of
        for step in reversed(self.steps):
            if step[0] == "empty":
                last = system.depth
            elif step[0] == "bound":
                kept = [
                    bound
                    for bound in step[1]
                    if bound[2] <= 0.0
                    or layer_of[bound[0]] < last
                    or node.lower[bound[0]] > node.upper[bound[0]]
                ]
                for unit, _, _, (_, (beta, _), _, _) in kept:
                    last = max(last, *(int(layer_of[k]) for k in [unit, *beta]))
                if not kept:
                    continue
                step = ["bound", kept]
            steps.append(step)
        return steps[::-1]
