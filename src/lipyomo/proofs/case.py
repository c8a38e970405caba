"""Cases: parts of the domain and of the patterns, of which a proof says what becomes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.phases import LEFT, OPEN, RIGHT
from lipyomo.problems.affine.system import NodeForm
from lipyomo.proofs.context import Recording
from lipyomo.search.spaces.phases.node import Ahead, Node
from lipyomo_check import linear as checked

Step = list[Any]
"""A step of the proof, as it is written."""

OURS: dict[int, int] = {checked.OPEN: OPEN, checked.RIGHT: RIGHT, checked.LEFT: LEFT}
"""The search's phases by the checker's."""


@dataclass(frozen=True, eq=False)
class Parting:
    """A split on a unit, of which something is learnt once both sides are settled.

    Attributes
    ----------
    ours : Node
        What was split.
    unit : int
    features : ndarray
        What was known of the unit.
    """

    ours: Node
    unit: int
    features: FloatArray


@dataclass(frozen=True, eq=False)
class Case:
    """A case, with what is claimed of it so far; whatever accepts a claim makes a new one.

    Attributes
    ----------
    node : lipyomo_check.linear.Node
        The checker's; only copies of it are written to.
    ours : Node
        The search's, which follows it.
    steps : tuple of Step
        What the checker accepts so far.
    parting : Parting, optional
        The split that it is a side of.
    before : int, optional
        If it is one side of a cut: the number of units that were open before that.
    form : NodeForm, optional
        The form under which it was bounded.
    worst : Ahead, optional
        What holds its bound up.
    is_open : bool
        Whether something of it is left.
    """

    node: checked.Node
    ours: Node
    steps: tuple[Step, ...] = ()
    parting: Parting | None = None
    before: int | None = None
    form: NodeForm | None = None
    worst: Ahead | None = None
    is_open: bool = True

    @property
    def is_root(self) -> bool:
        """Whether it is the whole."""
        return self.parting is None and self.before is None

    @property
    def still(self) -> int:
        """Number of unstable units."""
        return self.node.phases.count(checked.OPEN)

    @property
    def is_known(self) -> bool:
        """Whether nothing was decided since it was bounded."""
        return self.form is not None and self.form.units.size == self.still

    @property
    def known_form(self) -> NodeForm:
        """The form of a case that has one."""
        assert self.form is not None
        return self.form

    def claim(self, *steps: Step) -> Case:
        """With these steps as well."""
        return replace(self, steps=(*self.steps, *steps))

    def end(self, *steps: Step) -> Case:
        """With these steps as well, after which nothing is left."""
        return replace(self, steps=(*self.steps, *steps), is_open=False)

    def at(self, recording: Recording, node: checked.Node) -> Case:
        """With this node of the checker's, which ours follows."""
        ours, points = self.ours, recording.points
        phases = np.array([OURS[p] for p in node.phases], dtype=np.int8)
        kinked = np.flatnonzero(recording.search.system.kinked)
        inside = points.pool.within(ours.points, phases, kinked)
        here = points.pool.at(inside)
        ours = ours.but(
            phases=phases,
            lower=np.array(node.lower, dtype=np.float64),
            upper=np.array(node.upper, dtype=np.float64),
            points=inside[((here >= ours.low) & (here <= ours.high)).all(axis=1)],
        )
        return replace(self, node=node, ours=ours)

    def needed(self, recording: Recording) -> list[Step]:
        """The steps of a case that leaves none, without the bounds that nothing rests on.

        What decides a unit, or contradicts itself, matters; so do, for what is proved afterwards,
        the ranges of the layers that it goes back through.
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
