"""Semidefinite bounds of a node's targets, and the unit decisions that they rule out."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lipyomo.affine.system import NodeForm, UnitSystem
from lipyomo.bnb.node import Node
from lipyomo.bnb.prove import Exclusion, Prover
from lipyomo.network import FloatArray
from lipyomo.semidefinite.choice import kernel_for
from lipyomo.semidefinite.descent import minimise
from lipyomo.semidefinite.kernel import Kernel, State
from lipyomo.targets import ALL, Targets

MOST_UNITS = 1500
"""With more open units a semidefinite bound takes minutes, and intervals have to do."""


@dataclass
class Worst:
    """The target that holds a node's bound up, with its multipliers and unit look-ahead.

    Attributes
    ----------
    target : int
    problem : Kernel
    state : State
    off, on : ndarray, shape (F,)
        Relative drop of the bound if a unit is decided and the multipliers stay.
    """

    target: int
    problem: Kernel
    state: State
    off: FloatArray
    on: FloatArray


class Bounder:
    """Runs the semidefinite kernels on nodes.

    Parameters
    ----------
    system : UnitSystem
    targets : Targets

    Attributes
    ----------
    deadline : float
        Value of ``time.perf_counter()`` at which iterations stop.
    solved, steps : int
        Bounds computed and Newton steps taken.
    """

    def __init__(self, system: UnitSystem, targets: Targets) -> None:
        self._targets = targets
        self._prover = Prover(system, targets)
        self.deadline = math.inf
        self.solved = 0
        self.steps = 0

    @property
    def value_errors(self) -> FloatArray:
        """Rounding errors of the targets' values under full patterns, shape (T,)."""
        return np.asarray(self._targets.interval(self._prover.gradient_errors[None])[0])

    def bound(self, node: Node, form: NodeForm, aim: float | None, cutoff: float) -> Worst | None:
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

        Returns
        -------
        Worst or None
            None if no target was bounded above the cutoff.
        """
        warm: dict[int, FloatArray] = {}
        worst: tuple[int, Kernel, State] | None = None
        reached = -np.inf
        for index in np.argsort(-node.target_bounds, kind="stable"):
            if node.target_bounds[index] <= max(reached, cutoff):
                break
            target = int(node.targets[index])
            state = None
            if form.units.size <= MOST_UNITS:
                problem = self._problem(form, target)
                warm_start = _inherited(problem, node, form, target)
                state = minimise(problem, warm_start, aim, stop=self._late)
                self.solved += 1
            if state is None:
                reached = max(reached, float(node.target_bounds[index]))
                continue
            self.steps += state.iterations
            warm[target] = state.multipliers
            value = state.value
            if value <= cutoff:
                value = self._prover.bound(form, target, state.multipliers)
                node.proved[index] = min(float(node.proved[index]), value)
            node.target_bounds[index] = min(float(node.target_bounds[index]), value)
            if state.value > max(reached, cutoff):
                worst, reached = (target, problem, state), state.value
        for target in node.warm:
            if target not in warm and target in node.targets:
                problem = self._problem(form, target)
                inherited = _inherited(problem, node, form, target)
                if inherited is not None:
                    warm[target] = inherited
        node.warm, node.units = warm, form.units
        if worst is None:
            return None
        return Worst(*worst, *worst[1].lookahead(worst[2]))

    def prove(self, node: Node, form: NodeForm) -> float:
        """The node's bound with every semidefinite part of it proved."""
        for index, target in enumerate(node.targets):
            multipliers = node.warm.get(int(target))
            if multipliers is not None and form.units.size:
                proved = self._prover.bound(form, int(target), multipliers)
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
        if not worst.problem.rank_one:
            return []
        value, d = worst.state.value, worst.problem.inputs
        primal = worst.state.primal
        slack = worst.problem.rows @ primal - primal[d:]
        candidates = []
        for on, drops, along in ((False, worst.off, primal[d:]), (True, worst.on, slack)):
            hits = np.flatnonzero((value * (1.0 - drops) <= aim) & (along != 0.0))
            removed = 0.5 * value * (1.0 - np.square(1.0 - drops[hits]))
            candidates += [
                Exclusion(int(k), on, float(2.0 * r / a))
                for k, r, a in zip(hits, removed, along[hits], strict=True)
            ]
        if not candidates:
            return []
        proved = self._prover.exclude(form, worst.target, worst.state.multipliers, candidates)
        return [(c.position, c.on, float(b)) for c, b in zip(candidates, proved, strict=True)]

    def _problem(self, form: NodeForm, target: int) -> Kernel:
        """The kernel for a target on a node."""
        row, column = int(self._targets.rows[target]), int(self._targets.columns[target])
        rows, objectives, inputs = form.rows, form.objective, form.inputs
        euclidean = self._targets.input_norm == "l2"
        if column != ALL:
            keep = np.concatenate([[column], np.arange(inputs, rows.shape[1])])
            rows, objectives, inputs, euclidean = rows[:, keep], objectives[:, keep], 1, True
        if row == ALL:
            return kernel_for(rows, objectives, inputs, euclidean, "l2")
        return kernel_for(rows, objectives[row][None], inputs, euclidean)

    def _late(self) -> bool:
        return time.perf_counter() >= self.deadline


def _inherited(
    problem: Kernel, node: Node, form: NodeForm, target: int
) -> npt.NDArray[np.float64] | None:
    """The parent's multipliers for the units that are still open."""
    old = node.warm.get(target)
    if old is None:
        return None
    head = old.size - node.units.size
    first = old[:head]
    if problem.euclidean:  # one zeta, for however many inputs are left after rotation
        outputs = problem.outputs
        first = np.concatenate([old[:outputs], np.full(problem.inputs, old[outputs])])
    positions = np.searchsorted(node.units, form.units)
    return np.concatenate([first, old[head + positions]])
