"""One step of the search: a node in, its surviving children out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.network import FloatArray
from lipyomo.phases import LEFT, OPEN, RIGHT
from lipyomo.problem import LipschitzProblem
from lipyomo.search.barrier import BarrierProblem, BarrierState
from lipyomo.search.form import FlatPhases, NodeForm, UnitSystem
from lipyomo.search.node import Node
from lipyomo.search.pool import Pool
from lipyomo.search.propagate import Stack, gradient_bounds, propagate, support_of
from lipyomo.search.prove import Prover
from lipyomo.search.region import RegionProgram
from lipyomo.search.spectral import SpectralProblem
from lipyomo.search.targets import ALL, Targets, targets_of
from lipyomo.search.wide import WIDE, WideProblem, rotated

PRUNE = 2e-7
"""Relative slack at which a bound counts as met by the incumbent."""


@dataclass
class Counters:
    """What the search did."""

    nodes: int = 0
    semidefinite: int = 0
    newton: int = 0
    programs: int = 0
    empty: int = 0
    fixed: int = 0
    unresolved: int = 0


class Tree:
    """Everything that stays the same from node to node."""

    def __init__(
        self, problem: LipschitzProblem, rng: np.random.Generator, gap: float = 0.0
    ) -> None:
        self.problem = problem
        self.targets: Targets = targets_of(problem)
        self.system = UnitSystem(problem.network, self.targets.functionals)
        self.pool = Pool(problem, self.system, self.targets, rng)
        self.region = RegionProgram(self.system, problem.domain)
        self.counters = Counters()
        self.gap = gap
        self.closed = 0.0
        self.bounded = problem.domain.is_bounded
        self.box_mode = problem.network.input_dim <= 3 and self.bounded
        self.open_at_root = 0
        self._promise = np.zeros(self.system.count)
        self._seen = np.zeros(self.system.count)
        self.prover = Prover(self.system, self.targets)
        self.leaves: list[tuple[Node, float]] | None = None

    @property
    def cutoff(self) -> float:
        """Bounds at or below it prune."""
        slack = max(self.gap, PRUNE)
        return self.pool.best / (1.0 - slack) if slack < 1 else np.inf

    @property
    def aim(self) -> float:
        """What floating-point bounds should reach, so that their proofs meet the cutoff."""
        return self.cutoff - 0.5 * PRUNE * self.pool.best

    def root(self) -> list[Node]:
        """The whole problem as a node (or nothing, if its bounds already close it)."""
        n = self.system.count
        everything = np.arange(self.targets.count)
        node = Node(
            self.system.root_phases(),
            np.full(n, -np.inf),
            np.full(n, np.inf),
            self.problem.domain.lower,
            self.problem.domain.upper,
            everything,
            np.full(everything.size, np.inf),
            np.full(everything.size, np.inf),
            np.zeros(0, dtype=np.int64),
            pool=np.arange(self.pool.count),
        )
        kept = self._process(node, [node])
        self.open_at_root = int(np.count_nonzero(node.phases == OPEN))
        return kept

    def expand(self, node: Node) -> list[Node]:
        """Branch on `node`; the children that may still hold something better."""
        self.counters.nodes += 1
        if self.box_mode and np.count_nonzero(node.phases == OPEN) > 6:
            return self._process(node, self._halves(node))
        children = []
        for phase in (LEFT, RIGHT):
            phases = node.phases.copy()
            phases[node.branch] = phase
            children.append(self._child(node, phases, node.low, node.high))
        return self._process(node, children)

    def _child(self, node: Node, phases: FlatPhases, low: FloatArray, high: FloatArray) -> Node:
        return Node(
            phases,
            node.lower,
            node.upper,
            low,
            high,
            node.targets,
            node.target_bounds,
            node.proved,
            node.units,
            node.warm,
            node.pool,
            node.depth + 1,
        )

    def _halves(self, node: Node) -> list[Node]:
        """Split the input box in the direction that decides most units."""
        d = node.low.size
        low, high = np.tile(node.low, (2 * d, 1)), np.tile(node.high, (2 * d, 1))
        middle = 0.5 * (node.low + node.high)
        index = np.arange(d)
        high[index, index] = middle
        low[d + index, index] = middle
        stack = self._stack(
            [self._child(node, node.phases, a, b) for a, b in zip(low, high, strict=True)]
        )
        propagate(self.system, support_of(self.problem.domain, low, high), stack)
        still = np.where(stack.alive, (stack.phases == OPEN).sum(axis=1), 0).astype(float)
        cost = still[:d] + still[d:] + np.maximum(still[:d], still[d:])
        cost -= (
            1e-3 * (node.high - node.low) / (self.problem.domain.upper - self.problem.domain.lower)
        )
        k = int(np.argmin(cost))
        children = []
        for b in (k, d + k):
            child = self._child(node, node.phases, low[b], high[b])
            children.append(child)
        return children

    def _stack(self, nodes: list[Node]) -> Stack:
        return Stack(
            np.stack([node.phases for node in nodes]),
            np.stack([node.lower for node in nodes]),
            np.stack([node.upper for node in nodes]),
            np.stack([node.low for node in nodes]),
            np.stack([node.high for node in nodes]),
            np.ones(len(nodes), dtype=bool),
        )

    def _process(self, parent: Node, children: list[Node]) -> list[Node]:
        """Bound a batch of children of one parent."""
        stack = self._stack(children)
        if self.bounded:
            support = support_of(self.problem.domain, stack.low, stack.high)
            propagate(self.system, support, stack)
        sizes = self.targets.interval(gradient_bounds(self.system, stack.phases))
        kept = []
        for b, child in enumerate(children):
            if not stack.alive[b]:
                self._close(child, -np.inf)
                continue
            child.phases, child.lower, child.upper = stack.phases[b], stack.lower[b], stack.upper[b]
            child.proved = np.minimum(child.proved, sizes[b, child.targets])
            child.target_bounds = np.minimum(child.target_bounds, child.proved)
            if self._survives(parent, child):
                kept.append(child)
        return kept

    def _close(self, node: Node, bound: float) -> None:
        """Remember what a pruned node was worth."""
        self.closed = max(self.closed, bound)
        if self.leaves is not None:
            self.leaves.append((node, bound))

    def proved_bound(self, node: Node) -> float:
        """The node's bound with its semidefinite part proved."""
        form = self.system.reduce(node.phases)
        for index, target in enumerate(node.targets):
            multipliers = node.warm.get(int(target))
            if multipliers is not None:
                proved = self.prover.bound(form, int(target), multipliers)
                proved = min(proved, float(node.proved[index]))
                node.target_bounds[index] = node.proved[index] = proved
            else:
                node.target_bounds[index] = node.proved[index]
        return node.bound

    def close_proved(self, node: Node) -> None:
        """Close a waiting node that the incumbent has overtaken."""
        self._close(node, self.proved_bound(node))

    def _drop_targets(self, node: Node) -> None:
        keep = node.target_bounds > self.cutoff
        if not keep.all():
            self.closed = max(self.closed, float(node.target_bounds[~keep].max()))
            node.targets, node.target_bounds = node.targets[keep], node.target_bounds[keep]
            node.proved = node.proved[keep]

    def _survives(self, parent: Node, node: Node) -> bool:
        """Bound `node`, look for points in it, choose its branch; False if it is closed."""
        top = node.bound
        self._drop_targets(node)
        if not node.targets.size:
            self._close(node, top)
            return False
        changed = np.flatnonzero(node.phases != parent.phases)
        inside = self.pool.within(node.pool, node.phases, changed)
        if inside.size and (node.low is not parent.low or node.high is not parent.high):
            points = self.pool.points[inside]
            inside = inside[((points >= node.low) & (points <= node.high)).all(axis=1)]
        node.pool = inside
        form = self.system.reduce(node.phases)
        if not inside.size:
            answer = self.region.examine(
                form, node.phases, node.lower, node.upper, node.low, node.high
            )
            if answer.empty:
                self.counters.empty += 1
                self._close(node, -np.inf)
                return False
            if answer.point is not None:
                found = self.pool.visit(answer.point, answer.margin)
                decided = np.flatnonzero(self.system.kinked)
                node.pool = self.pool.within(found, node.phases, decided)
        return self._bound(node, form)

    def _bound(self, node: Node, form: NodeForm) -> bool:
        """Semidefinite bounds of the node's targets, worst first."""
        if not form.units.size:
            return self._finish(node, form)
        warm: dict[int, FloatArray] = {}
        worst: tuple[BarrierProblem, BarrierState] | None = None
        reached = -np.inf
        order = np.argsort(-node.target_bounds, kind="stable")
        for index in order:
            if node.target_bounds[index] <= max(reached, self.cutoff):
                break
            target = int(node.targets[index])
            problem = self._problem_of(form, target)
            state = problem.minimise(self._inherited(problem, node, form, target), self.aim)
            self.counters.semidefinite += 1
            if state is None:
                reached = max(reached, float(node.target_bounds[index]))
                continue
            self.counters.newton += state.iterations
            warm[target] = state.multipliers
            value = state.value
            if value <= self.cutoff:
                value = self.prover.bound(form, target, state.multipliers)
                node.proved[index] = min(float(node.proved[index]), value)
            node.target_bounds[index] = min(float(node.target_bounds[index]), value)
            if state.value > reached:
                worst, reached = (problem, state), state.value
        for target in node.warm:
            if target not in warm and target in node.targets:
                problem = self._problem_of(form, target)
                inherited = self._inherited(problem, node, form, target)
                if inherited is not None:
                    warm[target] = inherited
        node.warm, node.units = warm, form.units
        top = node.bound
        self._drop_targets(node)
        if not node.targets.size:
            self._close(node, top)
            return False
        node.branch = self._choose(form, worst)
        return True

    def _finish(self, node: Node, form: NodeForm) -> bool:
        """Close a node without open units: its value is known."""
        values = self.targets.exact(form.jacobian)[node.targets]
        value = float(values.max()) * (1.0 + 1e-12)
        if value > self.cutoff:
            self.counters.unresolved += 1
        self._close(node, min(value, node.bound))
        return False

    def _problem_of(self, form: NodeForm, target: int) -> BarrierProblem:
        row, column = int(self.targets.rows[target]), int(self.targets.columns[target])
        rows, objectives, inputs = form.rows, form.objective, form.inputs
        euclidean = self.targets.input_norm == "l2"
        if column != ALL:
            keep = np.concatenate([[column], np.arange(inputs, rows.shape[1])])
            rows, objectives, inputs, euclidean = rows[:, keep], objectives[:, keep], 1, True
        if euclidean and inputs > len(rows) + len(objectives):
            rows, objectives, inputs = rotated(rows, objectives, inputs)
        if row == ALL:
            return SpectralProblem(rows, objectives, inputs, euclidean)
        if not euclidean and inputs > WIDE * (len(rows) + 10):
            return WideProblem(rows, objectives[row], inputs)
        return BarrierProblem(rows, objectives[row], inputs, euclidean)

    def _inherited(
        self, problem: BarrierProblem, node: Node, form: NodeForm, target: int
    ) -> FloatArray | None:
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

    def _choose(self, form: NodeForm, worst: tuple[BarrierProblem, BarrierState] | None) -> int:
        """The open unit whose decision promises the largest drop of the bound.

        The promise is the geometric mean of the two children's drops with the multipliers frozen,
        averaged over all nodes in which the unit was open: an order that hardly changes from node
        to node needs several times fewer nodes than the node's own score.
        """
        if worst is None:
            return int(form.units[0])
        problem, state = worst
        off, on = problem.lookahead(state)
        self._promise[form.units] += np.sqrt(off * on)
        self._seen[form.units] += 1
        score = self._promise[form.units] / self._seen[form.units]
        return int(form.units[int(np.argmax(score))])
