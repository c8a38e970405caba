"""Semidefinite bounds of a node's targets, and the unit decisions that they rule out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.affine.system import FlatPhases, NodeForm, UnitSystem
from lipyomo.bnb.node import Node
from lipyomo.network import FloatArray
from lipyomo.numerics.pace import fits
from lipyomo.run import Clock
from lipyomo.semidefinite.bounder import Bounder, Minimum
from lipyomo.semidefinite.root import RootBounds, RootCost, root_cost
from lipyomo.targets import Targets

MOST_STEPS = 60
"""Most Newton steps from inherited multipliers."""


@dataclass
class Worst:
    """The target that holds a node's bound up, with its unit look-ahead.

    Attributes
    ----------
    found : Minimum
    off, on : ndarray, shape (F,)
        Relative drop of the bound if a unit is decided and the multipliers stay.
    """

    found: Minimum
    off: FloatArray
    on: FloatArray


class NodeBounder:
    """Bounds nodes, target by target, with what they inherit.

    Parameters
    ----------
    system : UnitSystem
    targets : Targets
    known : ndarray of int8, shape (N,), optional
        Phases that hold on all nodes: inputs may be joined by the signs that follow from them.

    Attributes
    ----------
    root : RootBounds or None
        What is known of the root, for nodes that inherit nothing.
    clock : Clock
        Iterations stop once it has expired.
    solved, steps : int
        Bounds computed and Newton steps taken.
    """

    def __init__(
        self, system: UnitSystem, targets: Targets, known: FlatPhases | None = None
    ) -> None:
        self._system, self._targets = system, targets
        self.bounder = Bounder(system, targets, known, join=known is not None)
        self._costs: dict[tuple[int, int], RootCost] = {}
        self.root: RootBounds | None = None
        self.clock = Clock()
        self.solved = 0
        self.steps = 0

    @property
    def value_errors(self) -> FloatArray:
        """Rounding errors of the targets' values under full patterns, shape (T,)."""
        return self.bounder.value_errors

    def bound(
        self,
        node: Node,
        form: NodeForm,
        aim: float | None,
        cutoff: float,
        afresh: bool = False,
    ) -> Worst | None:
        """Bound the node's targets, worst first, until one stays above the next one's bound.

        Parameters
        ----------
        node : Node
            Its bounds and multipliers are updated.
        form : NodeForm
            With at least one open unit.
        aim : float, optional
            What floating-point bounds should reach; without it they are minimised.
        cutoff : float
            Bounds at or below it must be proved: they close targets.
        afresh : bool, optional
            Whether to refine multipliers that were found for this very form.

        Returns
        -------
        Worst or None
            None if no target was bounded above the cutoff.
        """
        if not (self.solved or node.warm):
            return self._root(node, form, cutoff)
        bounder = self.bounder
        warm: dict[int, FloatArray] = {}
        worst: Minimum | None = None
        reached = -np.inf
        affordable = self._affordable(form)
        # multipliers that were found for this very form are not refined once more
        steps = MOST_STEPS if afresh or not np.array_equal(node.units, form.units) else 0
        for index in np.argsort(-node.target_bounds, kind="stable"):
            if node.target_bounds[index] <= max(reached, cutoff):
                break
            target = int(node.targets[index])
            found = None
            if affordable:
                old = node.warm.get(target)
                start = None if old is None else (node.units, old)
                found = bounder.minimise(form, target, start, aim, self._late, steps)
                self.solved += 1
            if found is None:
                reached = max(reached, float(node.target_bounds[index]))
                continue
            state = found.state
            self.steps += state.iterations
            warm[target] = state.multipliers
            value = state.value
            if value <= cutoff:
                value = bounder.prover.bound(form, target, state.multipliers)
                node.proved[index] = min(float(node.proved[index]), value)
            node.target_bounds[index] = min(float(node.target_bounds[index]), value)
            if state.value > max(reached, cutoff):
                worst, reached = found, state.value
        for target, old in node.warm.items():
            if target not in warm and target in node.targets:
                warm[target] = bounder.inherited(
                    bounder.kernel(form, target), form, node.units, old
                )
        node.warm, node.units = warm, form.units
        if worst is None:
            return None
        return Worst(worst, *worst.kernel.lookahead(worst.state))

    def _root(self, node: Node, form: NodeForm, cutoff: float) -> Worst | None:
        """Bound a node that inherits nothing: in closed form first, and all targets together."""
        known = np.zeros(self._targets.count)
        known[node.targets] = node.proved
        root = self.root
        if root is None or not np.array_equal(root.form.units, form.units):
            root = RootBounds(self._system, self._targets, node.phases, known, bounder=self.bounder)
        root.run(cutoff, self.clock)
        self.solved += max(len(root.multipliers), 1)
        self.steps += root.steps
        node.proved = root.upper[node.targets]
        node.target_bounds = np.minimum(node.target_bounds, node.proved)
        node.warm, node.units = dict(root.multipliers), form.units
        target = int(node.targets[np.argmax(node.target_bounds)])
        found = root.minimum(target)
        if found is None or node.bound <= cutoff:
            return None
        return Worst(found, *found.kernel.lookahead(found.state))

    def prove(self, node: Node, form: NodeForm) -> float:
        """The node's bound with every semidefinite part of it proved."""
        for index, target in enumerate(node.targets.tolist()):
            multipliers = node.warm.get(target)
            unproved = node.target_bounds[index] < node.proved[index]
            if multipliers is not None and form.units.size and unproved:
                proved = self.bounder.prover.bound(form, target, multipliers)
                node.proved[index] = min(proved, float(node.proved[index]))
        node.target_bounds = node.proved
        return node.bound

    def excluded(self, form: NodeForm, worst: Worst, aim: float) -> list[tuple[int, bool, float]]:
        """Unit decisions that the multipliers of `worst` rule out.

        Returns
        -------
        list of (position, on, bound)
            Deciding open unit number `position` that way cannot exceed the proved `bound`.
        """
        return self.bounder.excluded(form, worst.found, (worst.off, worst.on), aim)

    def _affordable(self, form: NodeForm) -> bool:
        """Whether a step fits into memory and into the time that is left."""
        size = form.inputs, form.units.size
        if size not in self._costs:
            self._costs[size] = root_cost(self._targets, *size)
        cost = self._costs[size]
        return cost.fits and fits(cost.step, self.clock.left)

    def _late(self) -> bool:
        return self.clock.expired
