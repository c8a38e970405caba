"""One step of the search: a node in, its surviving children out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from lipyomo.affine.presolve import Presolved, presolved
from lipyomo.affine.system import FlatPhases, NodeForm, UnitSystem
from lipyomo.bnb.bounding import NodeBounder, Worst
from lipyomo.bnb.branching import PROBE_SHARE, RELIABLE, Brancher, worth
from lipyomo.bnb.counters import Counters
from lipyomo.bnb.experience import Experience
from lipyomo.bnb.node import Node, stack_of, substitute_back
from lipyomo.bnb.pool import Pool
from lipyomo.bnb.tighten import Tightener
from lipyomo.bounds.derivative import gradient_sizes
from lipyomo.bounds.preactivation import within
from lipyomo.bounds.stack import Stack
from lipyomo.ladder import Ladder
from lipyomo.network import Pattern
from lipyomo.numerics.exact import approximate
from lipyomo.phases import OPEN, to_pattern
from lipyomo.problem import LipschitzProblem
from lipyomo.regions.full import examine
from lipyomo.regions.partial import RegionProgram
from lipyomo.regions.replay import exact_gradients
from lipyomo.run import Clock
from lipyomo.sampling.local_search import LocalSearch
from lipyomo.semidefinite.root import RootBounds
from lipyomo.targets import Targets, targets_of

PRUNE = 2e-7
"""Relative slack at which a bound counts as met by the incumbent."""

PROGRAM_TRIALS = 32
"""Linear programs of nodes after which their yield of empty nodes is judged."""

PROGRAM_PAYS = 0.2
"""Share of empty nodes above which the programs pay for themselves."""

PROGRAM_TURN = 8
"""Otherwise one in so many nodes without a known point gets one, for the point."""

LONG = 1.0
"""Predicted seconds of a root bound from which it is lowered step by step, each one an answer."""

_CANCELLED = 1e-10
"""Rounding errors of a value above this share of it call for exact arithmetic."""


@dataclass
class Expansion:
    """What became of a node.

    Attributes
    ----------
    children : list of Node
        Parts that may still hold something better.
    closed : float
        Largest bound among the parts that were closed.
    leaves : list of (Node, float)
        Those parts with their bounds (minus infinity for empty ones), if they are recorded.
    counters : Counters
    """

    children: list[Node] = field(default_factory=list)
    closed: float = 0.0
    leaves: list[tuple[Node, float]] = field(default_factory=list)
    counters: Counters = field(default_factory=Counters)


class Tree:
    """Everything that stays the same from node to node.

    Parameters
    ----------
    problem : LipschitzProblem
        Without frozen inputs.
    rng : numpy Generator
    gap : float, optional
        Relative gap that is good enough.
    record : bool, optional
        Report closed nodes.
    known : FlatPhases, optional
        Phases that follow from the domain: the tree lives in the presolved network where that is
        much smaller.

    Attributes
    ----------
    pool : Pool
        Points, and the incumbent.
    experience : Experience
    """

    def __init__(
        self,
        problem: LipschitzProblem,
        rng: np.random.Generator,
        gap: float = 0.0,
        record: bool = False,
        known: FlatPhases | None = None,
    ) -> None:
        self.problem, self.known = problem, known
        self.targets: Targets = targets_of(problem)
        self._functionals = self.targets.functionals
        self.system = UnitSystem(problem.network, self._functionals, problem.domain)
        self._units = np.arange(self.system.count)
        small = self._presolved(self.system)
        if small is not None:
            eye = np.eye(len(self._functionals))
            self.targets = replace(self.targets, functionals=eye)
            self.system = UnitSystem(small.network, eye, problem.domain, small)
            self._units = small.units
        self.pool = Pool(problem, self._units, rng)
        self.region = RegionProgram(self.system, problem.domain)
        if known is not None and small is not None:
            known = self.system.root_phases()
        self.bounder = NodeBounder(self.system, self.targets, known)
        self.brancher = Brancher(self.system, problem.domain)
        self.tightener: Tightener | None = None
        if problem.domain.is_bounded and self.system.kinked.any():
            self.tightener = Tightener(self.system, problem.domain)
        self.open_at_root, self.root_seconds = 0, 0.0
        self.experience = Experience.none(self.system.count)
        self._gap = max(gap, PRUNE)
        self._record = record
        self._here = Expansion()
        self._value_errors = self.bounder.value_errors
        self._bounded = problem.domain.is_bounded
        self._rng = rng
        self._climber: LocalSearch | None = None

    def _presolved(self, system: UnitSystem) -> Presolved | None:
        """The network that is left under the known phases, if it is much smaller."""
        if self.known is None or not self.problem.domain.is_bounded:
            return None
        return presolved(self.problem.network, self._functionals, system.split(self.known))

    def _pattern(self, phases: FlatPhases) -> Pattern:
        """The pattern of phases without open units, of all units of the problem's network."""
        if self.known is not None and self.system.roughness:
            own = self._units >= 0
            full = self.known.copy()
            full[self._units[own]] = phases[own]
            phases = full
        ends = np.cumsum([layer.units for layer in self.problem.network.hidden])[:-1]
        return to_pattern(tuple(np.split(phases, ends)) if ends.size or phases.size else ())

    @property
    def cutoff(self) -> float:
        """Bounds at or below it prune."""
        return self.pool.best / (1.0 - self._gap)

    @property
    def aim(self) -> float:
        """What floating-point bounds should reach, so that their proofs meet the cutoff."""
        return self.cutoff - 0.5 * PRUNE * self.pool.best

    def climb(self, evaluations: int, clock: Clock) -> None:
        """Look for a better incumbent by local search, which also knows the best point so far.

        Parameters
        ----------
        evaluations : int
            Work, in points to evaluate.
        clock : Clock
        """
        if self._climber is None:
            self._climber = LocalSearch(self.problem, self._rng)
        elif self.pool.best_point is not None:
            self._climber.offer(np.atleast_2d(self.pool.best_point)[:1])
        self._climber.run(evaluations, clock)
        self.pool.enter(self._climber.points)

    def root(
        self,
        clock: Clock | None = None,
        ladder: Ladder | None = None,
        report: Callable[[float], object] | None = None,
    ) -> Expansion:
        """The whole problem as a node (or nothing, if its bounds already close it).

        Parameters
        ----------
        clock : Clock, optional
        ladder : Ladder, optional
            Of the same problem: pre-activation bounds and upper ends to start from.
        report : callable, optional
            Called with proved bounds of the whole problem while they drop.
        """
        node, clock = self.whole(), clock or Clock()
        if ladder is not None and self.system.count:
            self._take_over(node, ladder)
            self._descend(node, clock, report)
            if clock.expired:
                return Expansion([node])
        began = clock.seconds
        found = self._expansion(node, [node], ladder is not None and not self.system.roughness)
        self.root_seconds = clock.seconds - began
        self.open_at_root = int(np.count_nonzero(node.phases == OPEN))
        return found

    def whole(self) -> Node:
        """The whole problem as a node of which nothing is known yet."""
        n, domain = self.system.count, self.problem.domain
        everything = np.arange(self.targets.count)
        return Node(
            self.system.root_phases(),
            np.full(n, -np.inf),
            np.full(n, np.inf),
            domain.lower,
            domain.upper,
            everything,
            np.full(everything.size, np.inf),
            np.full(everything.size, np.inf),
            np.zeros(0, dtype=np.int64),
            pool=np.arange(self.pool.count),
        )

    def _take_over(self, node: Node, ladder: Ladder) -> None:
        """Start the root from what a ladder knows; its targets may be coarser than the tree's."""
        known, own = ladder.bounds, self._units >= 0
        units = self._units[own]
        node.phases[own] = np.concatenate(known.phases)[units]
        node.lower[own] = np.concatenate(known.lower)[units]
        node.upper[own] = np.concatenate(known.upper)[units]
        same = ladder.targets.count == self.targets.count
        node.proved = ladder.upper.copy() if same else np.full_like(node.proved, ladder.value)
        node.target_bounds = node.proved.copy()

    def _descend(self, node: Node, clock: Clock, report: Callable[[float], object] | None) -> None:
        """Lower the root's bounds step by step, where the first one would be long in coming."""
        norm = self.problem.output_norm
        bounder = self.bounder.bounder
        root = RootBounds(
            self.system, self.targets, node.phases, node.proved, norm, bounder=bounder
        )
        if root.cost.full < LONG:
            return
        root.run(self.cutoff, lambda: clock.left * (not clock.interrupted), report)
        node.proved = root.upper.copy()
        node.target_bounds = root.upper.copy()
        node.warm, node.units = root.multipliers, root.form.units

    def expand(self, node: Node) -> Expansion:
        """Split `node`, which stays as it is; what became of its parts."""
        self.experience.nodes += 1
        if not node.candidates.size:  # a root that time left unexamined
            return self._expansion(node, [replace(node, proved=node.proved.copy())])
        halves = self.brancher.halves(node) if self.brancher.wants_box(node) else []
        found = self._expansion(node, halves) if halves else self._best_split(node)
        found.counters.nodes += 1
        return found

    def _best_split(self, node: Node) -> Expansion:
        """Split on the unit whose splits were worth most so far; try the unknown ones first."""
        known = self.experience
        best: tuple[float, Expansion] | None = None
        tried = Counters()
        for unit in node.candidates.tolist():
            if known.gains[unit] >= RELIABLE or known.probes > PROBE_SHARE * known.nodes:
                continue
            known.probes += 1
            found, value = self._split(node, unit)
            tried = tried + found.counters
            if best is None or value > best[0]:
                best = value, found
        expected = self.brancher.expected(node.candidates, known)
        k = int(np.argmax(expected)) if np.isfinite(expected).any() else 0
        if best is None or expected[k] > best[0]:
            found, _ = self._split(node, int(node.candidates[k]))
            tried = tried + found.counters
        else:
            found = best[1]
        return replace(found, counters=tried)

    def _split(self, node: Node, unit: int) -> tuple[Expansion, float]:
        """Both sides of a unit, and what they were worth."""
        found = self._expansion(node, self.brancher.sides(node, unit))
        value = worth(node, found.children, self.cutoff)
        self.experience.gain[unit] += value
        self.experience.gains[unit] += 1
        return found, value

    def close(self, node: Node) -> Expansion:
        """Close a waiting node that the incumbent has overtaken, by a proved bound."""
        self._here = Expansion()
        self._close(node, self.proved_bound(node))
        return self._here

    def proved_bound(self, node: Node) -> float:
        """The node's bound with its semidefinite part proved."""
        copy = replace(node, proved=node.proved.copy())
        return self.bounder.prove(copy, self.system.reduce(node.phases))

    def _expansion(self, parent: Node, children: list[Node], known: bool = False) -> Expansion:
        """Bound the children of a node, and note everything that happens on the way."""
        self._here = Expansion()
        solved, steps, programs = self.bounder.solved, self.bounder.steps, self.region.solved
        kept = self._process(parent, children, known)
        counters = self._here.counters
        counters.semidefinite += self.bounder.solved - solved
        counters.newton += self.bounder.steps - steps
        counters.programs += self.region.solved - programs
        self.experience.bounds += self.bounder.solved - solved
        self.experience.programs += self.region.solved - programs
        self._here.children = kept
        return self._here

    def _process(self, parent: Node, children: list[Node], known: bool = False) -> list[Node]:
        """Bound a batch of children of one parent; `known` if that is done for pre-activations."""
        stack, system = stack_of(children), self.system
        over = within(self.problem.domain, stack.low, stack.high)
        if known:
            stack.settle(system.kinked)
        elif self._bounded:  # a split on a unit leaves the first layer's ranges as they are
            same = all(c is not parent and c.low is parent.low for c in children)
            same &= all(c.high is parent.high for c in children)
            substitute_back(system, over, stack, first=int(same))
        self._locate(parent, children, stack)
        if self.tightener is not None and self._tighten(children, stack):
            substitute_back(system, over, stack, first=1)
        ends = system.head - system.head_errors, system.head + system.head_errors
        sizes = self.targets.interval(
            gradient_sizes(system.network.hidden, stack.phases, *ends, system.rough)
        )
        kept = []
        for b, child in enumerate(children):
            if not stack.alive[b]:
                self._close_empty(child)
                continue
            child.phases, child.lower, child.upper = stack.phases[b], stack.lower[b], stack.upper[b]
            child.proved = np.minimum(child.proved, sizes[b, child.targets])
            child.target_bounds = np.minimum(child.target_bounds, child.proved)
            kept += self._examine(child)
        return kept

    def _locate(self, parent: Node, children: list[Node], stack: Stack) -> None:
        """Tell the children which known points lie in them."""
        for b, child in enumerate(children):
            if not stack.alive[b]:
                continue
            changed = (
                np.flatnonzero(stack.phases[b] != parent.phases)
                if child is not parent
                else np.flatnonzero(stack.phases[b] != OPEN)
            )
            inside = self.pool.within(child.pool, stack.phases[b], changed)
            if inside.size and (child.low is not parent.low or child.high is not parent.high):
                points = self.pool.points[inside]
                inside = inside[((points >= child.low) & (points <= child.high)).all(axis=1)]
            child.pool = inside

    def _tighten(self, children: list[Node], stack: Stack) -> bool:
        """Improve the bounds of a stack by dual ascent; whether that decided units."""
        assert self.tightener is not None
        before, seen = self.tightener.decided, []
        for child in children:
            on = self.pool.on[child.pool]
            seen.append(
                (np.asarray(~on.all(axis=0)), np.asarray(on.any(axis=0))) if len(on) else None
            )
        kept = self.tightener.tighten(stack, [child.ascent for child in children], seen)
        for child, multipliers in zip(children, kept, strict=True):
            child.ascent = multipliers
        return self.tightener.decided > before

    def _close(self, node: Node, bound: float) -> None:
        """Remember what a closed node was worth."""
        here = self._here
        here.closed = max(here.closed, bound)
        if self._record:
            empty = np.isneginf(bound)
            here.leaves.append((node, bound if empty else max(bound, node.dropped)))

    def _close_empty(self, node: Node) -> None:
        self._here.counters.empty += 1
        self.experience.empty += 1
        self._close(node, -np.inf)

    def _drop_targets(self, node: Node) -> bool:
        """Forget targets that cannot beat the incumbent; True if none is left (closes `node`)."""
        top = node.bound
        keep = node.target_bounds > self.cutoff
        if not keep.any():
            self._close(node, top)
            return True
        if not keep.all():
            node.dropped = max(node.dropped, float(node.target_bounds[~keep].max()))
            self._here.closed = max(self._here.closed, node.dropped)
            node.targets, node.target_bounds = node.targets[keep], node.target_bounds[keep]
            node.proved = node.proved[keep]
        return False

    def _forget_unproved(self, node: Node) -> None:
        """Take back inherited floating-point bounds that an incumbent found since has overtaken."""
        stale = (node.target_bounds <= self.cutoff) & (node.proved > self.cutoff)
        node.target_bounds = np.where(stale, node.proved, node.target_bounds)

    def _examine(self, node: Node) -> list[Node]:
        """Bound `node`, look for points in it, choose its branch; nothing if it is closed."""
        self._forget_unproved(node)
        if self._drop_targets(node):
            return []
        inside = node.pool
        form = self.system.reduce(node.phases)
        if not form.units.size:
            if inside.size or self._has_interior(node, form):
                self._finish(node, form)
            return []
        # of the two tests that cost about the same, the one that closes more nodes comes first;
        # on unbounded domains emptiness is proved in rational numbers, which costs more
        known = self.experience
        bounds_close = known.closed_by_bound * known.programs
        empties = known.empty * known.bounds
        bound_first = bounds_close > empties or not self._bounded
        ask = not inside.size and self.asks_program()
        if not (not ask or bound_first or self._has_interior(node, form)):
            return []
        self._forget_unproved(node)
        worst = self.bounder.bound(node, form, self.aim, self.cutoff)
        if self._drop_targets(node):
            known.closed_by_bound += 1
            return []
        if bound_first and ask and not self._has_interior(node, form):
            return []
        if worst is not None and node.targets.size == 1:
            remaining = self._without_excluded(node, form, worst)
            if remaining is not None:
                return self._process(node, [remaining])
        node.candidates = self.brancher.candidates(form, worst, known, self.cutoff)
        return [node]

    def asks_program(self) -> bool:
        """Whether the linear program is worth its time on a node in which no point is known.

        Where dual ascent runs it finds most empty nodes first.  The programs also give points,
        so that some are solved in any case.
        """
        known = self.experience
        known.pointless += 1
        if self.tightener is None or known.programs < PROGRAM_TRIALS:
            return True
        pays = known.empty_by_program > PROGRAM_PAYS * known.programs
        return pays or known.pointless % PROGRAM_TURN == 0

    def _has_interior(self, node: Node, form: NodeForm) -> bool:
        """Whether the node's region may have interior; closes it otherwise."""
        answer = self.region.examine(form, node)
        if answer.empty:
            self.experience.empty_by_program += 1
            self._close_empty(node)
            return False
        if answer.point is not None:
            found = self.pool.visit(answer.point, answer.margin)
            node.pool = self.pool.within(found, node.phases, np.flatnonzero(self.system.kinked))
        return True

    def _without_excluded(self, node: Node, form: NodeForm, worst: Worst) -> Node | None:
        """Decide units whose other side cannot beat the incumbent; None if there are none."""
        remaining = node
        for position, on, bound in self.bounder.excluded(form, worst, self.aim):
            unit = int(form.units[position])
            if bound > self.cutoff or remaining.phases[unit] != OPEN:
                continue
            left, right = self.brancher.sides(remaining, unit)
            other, remaining = (right, left) if on else (left, right)
            self._close(other, bound)
            self._here.counters.fixed += 1
        return None if remaining is node else remaining

    def _value(self, node: Node, form: NodeForm) -> float:
        """Upper bound of a node without open units; exact where much of its gradient cancels."""
        values = self.targets.exact(form.jacobian)[node.targets]
        errors = self._value_errors[node.targets]
        if (errors > _CANCELLED * values).any():
            network, domain = self.problem.network, self.problem.domain
            pattern = self._pattern(node.phases)
            rows = exact_gradients(network, pattern, self._functionals, ~domain.frozen)
            gradients = np.array([[approximate(entry) for entry in row] for row in rows])
            values, errors = self.targets.exact(gradients)[node.targets], 0.0 * errors
        return float((values + errors).max()) * (1.0 + 1e-12)

    def _finish(self, node: Node, form: NodeForm) -> None:
        """Close a node without open units: its value is known, if its region has interior."""
        value = min(self._value(node, form), float(node.proved.max()))
        if value > self.cutoff:
            network, domain = self.problem.network, self.problem.domain
            pattern = self._pattern(node.phases)
            answer = examine(network, domain, pattern)
            if answer.empty:
                self._close_empty(node)
                return
            if answer.point is not None:
                self.pool.challenge(answer.point)
            self._here.counters.unresolved += value > self.cutoff
        self._close(node, value)
