"""One step of the search: some nodes in, the surviving children of each out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lipyomo.affine.system import FlatPhases, NodeForm, UnitSystem
from lipyomo.bnb.bounding import NodeBounder, Worst
from lipyomo.bnb.branching import PROBE_SHARE, RELIABLE, Brancher, worth
from lipyomo.bnb.counters import Counters
from lipyomo.bnb.experience import Experience
from lipyomo.bnb.node import Node, stack_of, substitute_back
from lipyomo.bnb.pool import Pool
from lipyomo.bnb.tighten import Tightener
from lipyomo.bounds.derivative import gradient_sizes
from lipyomo.bounds.layers import by_layer
from lipyomo.bounds.pairs import Pairs, find_pairs, seconds_for_pairs
from lipyomo.bounds.preactivation import within
from lipyomo.bounds.stack import Stack
from lipyomo.ladder import Ladder
from lipyomo.network import FloatArray, Pattern
from lipyomo.numerics.exact import approximate
from lipyomo.numerics.pace import fits
from lipyomo.phases import OPEN, to_pattern
from lipyomo.problem import LipschitzProblem
from lipyomo.regions.full import examine
from lipyomo.regions.partial import RegionProgram
from lipyomo.regions.replay import exact_gradients
from lipyomo.run import Clock
from lipyomo.sampling.local_search import LocalSearch, SearchState
from lipyomo.semidefinite.root import RootBounds, climb_root, root_cost, system_under
from lipyomo.targets import Targets, targets_of

PRUNE = 2e-7
"""Relative slack at which a bound counts as met by the incumbent."""

PROGRAM_TRIALS = 32
"""Linear programs of nodes after which their yield of empty nodes is judged."""

PROGRAM_PAYS = 0.2
"""Share of empty nodes above which the programs pay for themselves."""

PROGRAM_TURN = 8
"""Otherwise one in so many nodes without a known point gets one, for the point."""

LONG = 0.3
"""Predicted seconds of a root bound from which it is lowered step by step, each one an answer."""

COMMON = 40_000
"""Open units squared times inputs (or units, if they are fewer) of a node that counts as one;
larger ones count as several."""

TOGETHER = 16
"""Most nodes of the size `COMMON` that are split together."""

ROUNDED = 1e-10
"""Relative gains of points that may be none: the search may work with rounded weights."""

_CANCELLED = 1e-8
"""Rounding errors of a value above this share of it call for exact arithmetic, which takes seconds
for a CNN; smaller ones are far below what bounds are compared with."""


class _OutOfTimeError(Exception):
    """The bounds of some parts came too late."""


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


@dataclass
class Part:
    """A part of a node on its way through the tests.

    Attributes
    ----------
    parent, node : Node
        The same for the root.
    into : Expansion
        Hears what becomes of it.
    form : NodeForm
        Its reduction, once its phases are settled.
    asks : bool
        Whether a linear program is to tell if it has interior.
    worst : Worst, optional
        What holds its bound up.
    """

    parent: Node
    node: Node
    into: Expansion
    form: NodeForm = field(init=False, repr=False)
    asks: bool = False
    worst: Worst | None = None

    @property
    def keeps_box(self) -> bool:
        """Whether its box is its parent's."""
        return self.node.low is self.parent.low and self.node.high is self.parent.high


@dataclass
class Trial:
    """A split that is tried.

    Attributes
    ----------
    unit : int or None
        The unit that is decided; None if the box is split, or nothing.
    parts : list of Node
    found : Expansion
    value : float
        What a split on a unit was worth.
    """

    unit: int | None
    parts: list[Node]
    found: Expansion = field(default_factory=Expansion)
    value: float = 0.0


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
    enough : float, optional
        A bound that is good enough, whatever is attained.

    Attributes
    ----------
    pool : Pool
        Points, and the incumbent.
    experience : Experience
    searched : LipschitzProblem
        Whose points `climb` looks for: `problem`, or the same with fewer kinks.
    attend : callable
        Called now and then while nodes are split.
    """

    def __init__(
        self,
        problem: LipschitzProblem,
        rng: np.random.Generator,
        gap: float = 0.0,
        record: bool = False,
        known: FlatPhases | None = None,
        enough: float = 0.0,
    ) -> None:
        self.problem, self.known, self.searched = problem, known, problem
        self.targets: Targets = targets_of(problem)
        self._functionals = self.targets.functionals
        network, domain = problem.network, problem.domain
        if known is None:
            self.system = UnitSystem(network, self._functionals, domain)
            self._units = np.arange(self.system.count)
        else:
            phases = tuple(by_layer(network.hidden, known))
            self.system, self._units, self.targets, known = system_under(
                network, self.targets, domain, phases
            )
        self.pool = Pool(problem, self._units, rng)
        self.region = RegionProgram(self.system, domain)
        self.bounder = NodeBounder(self.system, self.targets, known)
        self.brancher = Brancher(self.system, domain)
        self.tightener: Tightener | None = None
        if domain.is_bounded and self.system.kinked.any():
            self.tightener = Tightener(self.system, domain)
        self.open_at_root, self.root_seconds = 0, 0.0
        self.experience = Experience.none(self.system.count)
        self.attend: Callable[[], object] = lambda: None
        self._pairs = Pairs.none()
        self._gap, self._enough = max(gap, PRUNE), enough
        self._record = record
        self._value_errors = self.bounder.value_errors
        self._bounded = domain.is_bounded
        self._rng = rng
        self._heuristic: tuple[LocalSearch, SearchState] | None = None

    def _pattern(self, phases: FlatPhases) -> Pattern:
        """The pattern of phases without open units, of all units of the problem's network."""
        if self.known is not None and self.system.roughness:
            own = self._units >= 0
            full = self.known.copy()
            full[self._units[own]] = phases[own]
            phases = full
        return to_pattern(tuple(by_layer(self.problem.network.hidden, phases)))

    @property
    def promises(self) -> FloatArray:
        """What splits on each unit of the problem's network promised on average, shape (N,)."""
        known, own = self.experience, self._units >= 0
        found = np.zeros(sum(layer.units for layer in self.problem.network.hidden))
        found[self._units[own]] = (known.promise / np.maximum(known.promises, 1.0))[own]
        return found

    @property
    def cutoff(self) -> float:
        """Bounds at or below it prune."""
        return max(self.pool.best / (1.0 - self._gap), self._enough)

    @property
    def aim(self) -> float:
        """What floating-point bounds should reach, so that their proofs meet the cutoff."""
        return self.cutoff - 0.5 * PRUNE * max(self.pool.best, self._enough)

    def climb(self, evaluations: int, clock: Clock, nodes: Sequence[Node] = ()) -> None:
        """Look for a better incumbent by local search, which also knows the best point so far.

        Parameters
        ----------
        evaluations : int
            Work, in points to evaluate.
        clock : Clock
        nodes : sequence of Node, optional
            Where to look first, in any order: a linear program gives a point of each, if it is not
            empty.
        """
        if self._heuristic is None:
            search = LocalSearch(self.searched, self._rng)
            state = search.begun
        else:
            search, state = self._heuristic
            if self.pool.best_point is not None:
                state = search.offered(state, np.atleast_2d(self.pool.best_point)[:1])
        order = [nodes[k] for k in self._rng.permutation(len(nodes))]
        answers = (self.region.examine(self.system.reduce(node.phases), node) for node in order)
        points = (answer.point for answer in answers if answer.point is not None)
        state = search.improve(state, self._rng, evaluations, clock, lambda: next(points, None))
        self._heuristic = search, state
        better = state.best.values > self.pool.best * (1.0 + ROUNDED)
        if better.any():
            self.pool.enter(state.best.points[better])

    def root(
        self,
        clock: Clock | None = None,
        ladder: Ladder | None = None,
        report: Callable[[float], object] | None = None,
        search: Callable[[], object] = lambda: None,
    ) -> Expansion:
        """The whole problem as a node (or nothing, if its bounds already close it).

        Parameters
        ----------
        clock : Clock, optional
        ladder : Ladder, optional
            Of the same problem: pre-activation bounds and upper ends to start from.
        report : callable, optional
            Called with proved bounds of the whole problem while they drop.
        search : callable, optional
            Called where there is a ladder, before bounds that take long: looks for points.
        """
        node, clock = self.whole(), clock or Clock()
        if ladder is not None and self.system.count:
            self._take_over(node, ladder)
            self._descend(node, clock, ladder, report, search)
            root = self.bounder.root
            if clock.expired or (root is not None and root.stopped):
                self.root_seconds = math.inf  # nor is there time for a node
                return Expansion([node])
        began = clock.seconds
        found = Expansion()
        try:
            known = ladder is not None and not self.system.roughness
            self._examine([Part(node, node, found)], known)
        except _OutOfTimeError:
            return replace(found, children=[node])
        self.root_seconds = clock.seconds - began
        self.open_at_root = int(np.count_nonzero(node.phases == OPEN))
        return self._paired(found, clock)

    @property
    def known_pairs(self) -> tuple[Pairs, Pairs]:
        """Pairs of units that exclude each other, and those whose products bounds make use of."""
        return self._pairs, self.bounder.bounder.prover.pairs

    def take_pairs(self, pairs: Pairs, chosen: Pairs) -> None:
        """Take the known pairs of the same tree elsewhere."""
        self._pairs, self.bounder.bounder.prover.pairs = pairs, chosen

    def _paired(self, found: Expansion, clock: Clock) -> Expansion:
        """The root bounded once more, with the products of pairs of units that exclude each other.

        They pay where units are many; proofs do without.
        """
        if len(found.children) != 1 or self.known is None or self.tightener is None:
            return found
        node = replace(found.children[0])
        bounder = self.bounder.bounder
        if bounder.prover.pairs.count or clock.expired:
            return found
        form = self.system.reduce(node.phases)
        if not any(bounder.takes_pairs(form, target) for target in node.warm):
            return found
        node.warm = {  # some units may be excluded since
            target: bounder.inherited(bounder.kernel(form, target), form, node.units, y)
            for target, y in node.warm.items()
        }
        node.units = form.units
        pairs = self._find_pairs(node, clock)
        chosen = bounder.promising(form, node.warm, pairs)
        if not chosen.count:
            return found
        self.take_pairs(pairs, chosen)
        zeros = np.zeros(chosen.count)
        node.warm = {target: np.concatenate([y, zeros]) for target, y in node.warm.items()}
        node.target_bounds, node.proved = node.target_bounds.copy(), node.proved.copy()
        again = replace(found, children=[])
        part = Part(node, node, again)
        part.form = form
        part.worst = self.bounder.bound(node, form, None, self.cutoff, afresh=True)
        if not self._drop_targets(part):
            self._choose(node, part)
            again.children.append(node)
        return again

    def _find_pairs(self, node: Node, clock: Clock) -> Pairs:
        """Pairs of units that exclude each other, which the tree makes use of from now on."""
        if self.tightener is not None and self.known is not None:
            ascent = self.tightener.ascent
            units = int(np.count_nonzero(node.phases[ascent.first :] == OPEN))
            if fits(seconds_for_pairs(ascent, units), clock.left):
                self._pairs = find_pairs(ascent, stack_of([node]), self.pool.on[node.pool])
        return self._pairs

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
        node.proved = ladder.bounds_of(self.targets)
        node.target_bounds = node.proved.copy()

    def _descend(
        self,
        node: Node,
        clock: Clock,
        ladder: Ladder,
        report: Callable[[float], object] | None,
        search: Callable[[], object],
    ) -> None:
        """Lower the root's bounds, step by step where the first one would be long in coming."""
        still = int(np.count_nonzero(node.phases == OPEN))
        if root_cost(self.targets, self.system.inputs, still).full < LONG:
            search()
            ladder.climb(("joint",))
            self._take_over(node, ladder)
            return
        norm = self.problem.output_norm
        bounder = self.bounder.bounder
        root = RootBounds(
            self.system, self.targets, node.phases, node.proved, norm, bounder=bounder
        )
        root.begin(self.cutoff, clock, report)
        search()
        climb_root(root, ladder, clock, report, self.cutoff, lambda: self._find_pairs(node, clock))
        self.bounder.root = root
        node.proved = root.upper.copy()
        node.target_bounds = root.upper.copy()
        node.warm, node.units = root.multipliers, root.form.units

    def together(self, node: Node) -> int:
        """How many nodes like this one to split together."""
        units = int(np.count_nonzero(node.phases == OPEN))
        size = units**2 * min(node.low.size, units) / COMMON
        return max(int(TOGETHER / max(size, 1.0)), 1)

    def plan(self, nodes: list[Node]) -> list[list[int]]:
        """Units of each node whose splits are to be tried, because too little is known of them.

        They count as begun from now on, wherever it is that they are tried.
        """
        known, plans = self.experience, []
        known.nodes += sum(node.candidates.size > 0 for node in nodes)
        enough = 1 + self.system.count // RELIABLE
        for node in nodes:
            units = []
            for unit in [] if self.brancher.wants_box(node) else node.candidates.tolist():
                if known.begun[unit] < enough and known.probes <= PROBE_SHARE * known.nodes:
                    known.probes += 1
                    known.begun[unit] += 1
                    units.append(unit)
            plans.append(units)
        return plans

    def expand(self, nodes: list[Node], plans: list[list[int]]) -> list[Expansion]:
        """Split some nodes, which stay as they are; what became of the parts of each.

        Many are split together: at the sizes of most networks, numpy's own time is what counts.

        Parameters
        ----------
        nodes : list of Node
            They come back as they are where time runs out.
        plans : list of list of int
            What to try, from `plan`.
        """
        pairs = zip(nodes, plans, strict=True)
        try:
            first = self._tried([(node, self._first_trials(node, units)) for node, units in pairs])
            weights = self.experience.weights()
            last = self._tried([(n, self._last_trial(n, tried, weights)) for n, tried in first])
        except _OutOfTimeError:
            return [Expansion([node]) for node in nodes]
        found = []
        for (node, tried), (_, more) in zip(first, last, strict=True):
            chosen = more[0] if more else max(tried, key=lambda trial: trial.value)
            counters = Counters(nodes=int(node.candidates.size > 0))
            for trial in [*tried, *more]:
                counters = counters + trial.found.counters
            found.append(replace(chosen.found, counters=counters))
        return found

    def _first_trials(self, node: Node, units: list[int]) -> list[Trial]:
        """The split of a box; or those on units of which too little is known."""
        if not node.candidates.size:  # not examined yet
            return [Trial(None, [replace(node, proved=node.proved.copy())])]
        halves = self.brancher.halves(node) if self.brancher.wants_box(node) else []
        if halves:
            return [Trial(None, halves)]
        return [Trial(unit, self.brancher.sides(node, unit)) for unit in units]

    def _last_trial(self, node: Node, tried: list[Trial], weights: FloatArray) -> list[Trial]:
        """The split that is expected to be worth most, unless one that was tried is worth more."""
        if any(trial.unit is None for trial in tried):
            return []
        known = self.experience
        expected = np.exp(known.forecast(node.candidates, node.outlook, weights))
        for trial in tried:
            expected[node.candidates == trial.unit] = -np.inf
        k = int(np.argmax(expected))
        if expected[k] <= max((trial.value for trial in tried), default=-np.inf):
            return []
        unit = int(node.candidates[k])
        self.experience.begun[unit] += 1
        return [Trial(unit, self.brancher.sides(node, unit))]

    def _tried(self, trials: list[tuple[Node, list[Trial]]]) -> list[tuple[Node, list[Trial]]]:
        """Bound the parts of all trials, and learn what they were worth."""
        pairs = [(node, trial) for node, here in trials for trial in here]
        self._examine([Part(n, part, t.found) for n, t in pairs for part in t.parts])
        for node, trial in pairs:
            if trial.unit is not None:
                trial.value = worth(node, trial.found.children, self.cutoff)
                place = int(np.argmax(node.candidates == trial.unit))
                self.experience.learn(trial.unit, node.outlook[place], trial.value)
        return trials

    def close(self, node: Node) -> Expansion:
        """Close a waiting node that the incumbent has overtaken, by a proved bound.

        If the proof does not meet the cutoff, the node comes back with what is proved.
        """
        found, known = Expansion(), self._with_proof(node)
        if known.bound > self.cutoff:
            found.children.append(known)
        else:
            self._close(Part(node, node, found), known.bound)
        return found

    def proved_bound(self, node: Node) -> float:
        """The node's bound with its semidefinite part proved."""
        return self._with_proof(node).bound

    def _with_proof(self, node: Node) -> Node:
        """The node with bounds that are proved."""
        if (node.proved <= node.target_bounds).all():
            return node
        phases = node.phases.copy()
        phases[node.units] = OPEN  # exclusions came after the bound
        copy = replace(node, proved=node.proved.copy())
        self.bounder.prove(copy, self.system.reduce(phases))
        return copy

    def _examine(self, parts: list[Part], known: bool = False) -> None:
        """Bound parts of nodes, look for points in them, choose their branches.

        Parameters
        ----------
        parts : list of Part
        known : bool, optional
            Whether pre-activation bounds are known.
        """
        full: list[Part] = []
        still: list[Part] = []
        if not parts:
            return
        for part in self._propagated(parts, known):
            self._check_time()
            self._forget_unproved(part.node)
            if self._drop_targets(part):
                continue
            part.form = self.system.reduce(part.node.phases)
            (still if part.form.units.size else full).append(part)
        self._check_time()
        for part in full:
            part.asks = not part.node.pool.size
        for part in self._with_interior(full):
            self._check_time()
            self._finish(part)
        for part in still:
            part.asks = not part.node.pool.size and self.asks_program()
        # of the two tests that cost about the same, the one that closes more nodes comes first;
        # on unbounded domains emptiness is proved in rational numbers, which costs more
        learnt = self.experience
        bounds_close = learnt.closed_by_bound * learnt.programs
        empties = learnt.empty * learnt.bounds
        if bounds_close > empties or not self._bounded:
            still = self._with_interior(self._bound(still))
        else:
            still = self._bound(self._with_interior(still))
        weights = learnt.weights()
        for part in still:
            node = self._without_excluded(part)
            self._choose(node, part, weights)
            part.into.children.append(node)

    def _choose(self, node: Node, part: Part, weights: FloatArray | None = None) -> None:
        """Note the units that a node may be split on."""
        node.candidates, node.outlook = self.brancher.candidates(
            node, part.form, part.worst, self.experience, self.cutoff, weights
        )

    def _check_time(self) -> None:
        """Leave parts as they are when time is over: those of large nodes take seconds."""
        self.attend()
        if self.bounder.clock.expired:
            raise _OutOfTimeError

    def _propagated(self, parts: list[Part], known: bool) -> list[Part]:
        """Bound pre-activations and gradients of a batch; the parts that are left."""
        stack, system = stack_of([part.node for part in parts]), self.system
        over = within(self.problem.domain, stack.low, stack.high)
        self._pairs.settle(stack)
        # a split on a unit leaves the first layer's ranges as they are, and an ascent that goes on
        # from a parent's multipliers knows what substitution would find
        same = all(part.node is not part.parent and part.keeps_box for part in parts)
        if known or (same and all(part.node.ascent is not None for part in parts)):
            stack.settle(system.kinked)
        elif self._bounded:
            substitute_back(system, over, stack, first=int(same))
        self._locate(parts, stack)
        self._check_time()
        if self.tightener is not None:
            self._tighten(parts, stack)
            self._check_time()
        ends = system.head - system.head_errors, system.head + system.head_errors
        sizes = self.targets.interval(
            gradient_sizes(system.network.hidden, stack.phases, *ends, system.rough)
        )
        alive = []
        for b, part in enumerate(parts):
            if not stack.alive[b]:
                self._close_empty(part)
                continue
            node = part.node
            node.phases = stack.phases[b].copy()  # a view would keep the whole batch in memory
            node.lower, node.upper = stack.lower[b].copy(), stack.upper[b].copy()
            node.proved = np.minimum(node.proved, sizes[b, node.targets])
            node.target_bounds = np.minimum(node.target_bounds, node.proved)
            alive.append(part)
        return alive

    def _locate(self, parts: list[Part], stack: Stack) -> None:
        """Tell the parts which known points lie in them."""
        for b, part in enumerate(parts):
            if not stack.alive[b]:
                continue
            node, phases = part.node, stack.phases[b]
            before = OPEN if node is part.parent else part.parent.phases
            inside = self.pool.within(node.pool, phases, np.flatnonzero(phases != before))
            if inside.size and not part.keeps_box:
                points = self.pool.points[inside]
                inside = inside[((points >= node.low) & (points <= node.high)).all(axis=1)]
            node.pool = inside

    def _tighten(self, parts: list[Part], stack: Stack) -> None:
        """Improve the bounds of a stack by dual ascent, and what follows from them."""
        assert self.tightener is not None
        seen = [self.pool.seen(part.node.pool) for part in parts]
        before = stack.phases.copy()
        inherited = [part.node.ascent for part in parts]
        kept = self.tightener.tighten(stack, inherited, seen, self.experience)
        self._pairs.settle(stack)
        for part, multipliers in zip(parts, kept, strict=True):
            part.node.ascent = multipliers
        more = np.flatnonzero(stack.alive & (stack.phases != before).any(axis=1))
        if more.size:
            some = stack.take(more)
            over = within(self.problem.domain, some.low, some.high)
            substitute_back(self.system, over, some, first=1)
            stack.put(more, some)
        self._pairs.settle(stack)

    def _close(self, part: Part, bound: float) -> None:
        """Remember what a closed part was worth; an empty one has minus infinity."""
        part.into.closed = max(part.into.closed, bound)
        if self._record:
            worth = bound if np.isneginf(bound) else max(bound, part.node.dropped)
            part.into.leaves.append((part.node, worth))

    def _close_empty(self, part: Part) -> None:
        part.into.counters.empty += 1
        self.experience.empty += 1
        self._close(part, -np.inf)

    def _drop_targets(self, part: Part) -> bool:
        """Forget targets that cannot beat the incumbent; True if none is left (closes the part)."""
        node = part.node
        keep = node.target_bounds > self.cutoff
        if not keep.any():
            self._close(part, node.bound)
            return True
        if not keep.all():
            node.dropped = max(node.dropped, float(node.target_bounds[~keep].max()))
            part.into.closed = max(part.into.closed, node.dropped)
            node.targets, node.target_bounds = node.targets[keep], node.target_bounds[keep]
            node.proved = node.proved[keep]
        return False

    def _forget_unproved(self, node: Node) -> None:
        """Take back inherited floating-point bounds that an incumbent found since has overtaken."""
        stale = (node.target_bounds <= self.cutoff) & (node.proved > self.cutoff)
        node.target_bounds = np.where(stale, node.proved, node.target_bounds)

    def _bound(self, parts: list[Part]) -> list[Part]:
        """Bound the parts' targets; the parts that are left."""
        kept = []
        for part in parts:
            self.attend()
            self._forget_unproved(part.node)
            solved, steps = self.bounder.solved, self.bounder.steps
            part.worst = self.bounder.bound(part.node, part.form, self.aim, self.cutoff)
            part.into.counters.semidefinite += self.bounder.solved - solved
            part.into.counters.newton += self.bounder.steps - steps
            self.experience.bounds += self.bounder.solved - solved
            if self._drop_targets(part):
                self.experience.closed_by_bound += 1
            else:
                kept.append(part)
        return kept

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

    def _with_interior(self, parts: list[Part]) -> list[Part]:
        """Those parts whose regions may have interior, as programs say where they are asked."""
        kept, found = [], []
        for part in parts:
            if part.asks:
                solved = self.region.solved
                answer = self.region.examine(part.form, part.node)
                part.into.counters.programs += self.region.solved - solved
                self.experience.programs += self.region.solved - solved
                if answer.empty:
                    self.experience.empty_by_program += 1
                    self._close_empty(part)
                    continue
                if answer.point is not None:
                    found.append((part.node, answer.point, answer.margin))
            kept.append(part)
        if found:
            nodes, points, margins = zip(*found, strict=True)
            visited = self.pool.visit(np.array(points), np.array(margins))
            units = np.flatnonzero(self.system.kinked)
            for node, near in zip(nodes, visited, strict=True):
                node.pool = self.pool.within(near, node.phases, units)
        return kept

    def _without_excluded(self, part: Part) -> Node:
        """The part with units decided whose other side cannot beat the incumbent."""
        node, form, worst = part.node, part.form, part.worst
        if worst is None or node.targets.size > 1:
            return node
        remaining = node
        for position, on, bound in self.bounder.excluded(form, worst, self.aim):
            unit = int(form.units[position])
            if bound > self.cutoff or remaining.phases[unit] != OPEN:
                continue
            left, right = self.brancher.sides(remaining, unit)
            other, remaining = (right, left) if on else (left, right)
            self._close(Part(node, other, part.into), bound)
            part.into.counters.fixed += 1
        if remaining is not node:
            more = np.flatnonzero(remaining.phases != node.phases)
            remaining.pool = self.pool.within(node.pool, remaining.phases, more)
        return remaining

    def _value(self, node: Node, form: NodeForm) -> float:
        """Upper bound of a node without open units; exact where much of its gradient cancels."""
        values = self.targets.exact(form.jacobian)[node.targets]
        errors = self._value_errors[node.targets]
        if (errors > _CANCELLED * values).any() and (values + errors).max() > self.cutoff:
            network, domain = self.problem.network, self.problem.domain
            pattern = self._pattern(node.phases)
            rows = exact_gradients(network, pattern, self._functionals, ~domain.frozen)
            gradients = np.array([[approximate(entry) for entry in row] for row in rows])
            values, errors = self.targets.exact(gradients)[node.targets], 0.0 * errors
        return float((values + errors).max()) * (1.0 + 1e-12)

    def _finish(self, part: Part) -> None:
        """Close a part without open units: its value is known, if its region has interior."""
        node = part.node
        value = min(self._value(node, part.form), float(node.proved.max()))
        if value > self.cutoff:
            network, domain = self.problem.network, self.problem.domain
            answer = examine(network, domain, self._pattern(node.phases))
            if answer.empty:
                self._close_empty(part)
                return
            if answer.point is not None:
                self.pool.challenge(answer.point)
            part.into.counters.unresolved += value > self.cutoff
        self._close(part, value)
