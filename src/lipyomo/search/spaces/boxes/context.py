"""What never changes while boxes are split: the network as dense arrays, the functionals, X."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.exact import close_product
from lipyomo.base.numerics.rounding import UNDERFLOW, gamma
from lipyomo.problems.domains import Domain
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.targets import Targets, targets_of
from lipyomo.search.spaces.boxes.closed_forms import passed_outputs
from lipyomo.search.spaces.boxes.features import Features, features_of
from lipyomo.search.spaces.boxes.local_roots import LocalRoots, local_roots_of
from lipyomo.search.spaces.boxes.params import Params
from lipyomo.search.spaces.boxes.seen import of_features, rows_seen
from lipyomo.search.spaces.boxes.stage import Stage
from lipyomo.search.spaces.boxes.stages import stages_of
from lipyomo.search.spaces.boxes.tails import Tail, tail_of


@dataclass(frozen=True, eq=False)
class Question:
    """What is searched, and how: all that a context is made from.

    Attributes
    ----------
    problem : LipschitzProblem
        Without frozen inputs.
    gap : float
        Relative gap that is good enough.
    enough : float
        A bound that is good enough, whatever is attained.
    params : Params
    """

    problem: LipschitzProblem
    gap: float = 0.0
    enough: float = 0.0
    params: Params = field(default_factory=Params)


@dataclass(frozen=True, eq=False)
class Structure:
    """What is seen of layers.

    Attributes
    ----------
    stages : tuple of Stage
    """

    stages: tuple[Stage, ...]

    @property
    def multiplies(self) -> bool:
        """Whether any stage has products."""
        return any(stage.products is not None for stage in self.stages)

    @property
    def has_roots(self) -> bool:
        """Whether any stage has inverse roots of sums of squares: networks behind norms have."""
        return any(stage.roots is not None for stage in self.stages)

    @cached_property
    def carries(self) -> bool:
        """Whether z and u are carried along as forms (`forms.py`), which many products make long.

        Bounds are the same where rows are sums of more products than there are inputs.
        """
        if not self.multiplies or self.local_roots is not None:
            return False
        inputs = self.stages[0].weight.shape[1]
        return all(_most_products(*pair) <= inputs for pair in pairwise(self.stages))

    @cached_property
    def tail(self) -> Tail | None:
        """The last layers, where they are rows of quotients."""
        return tail_of(self.stages) if self.has_roots else None

    @cached_property
    def local_roots(self) -> LocalRoots | None:
        """Norms of what the first layer sees."""
        return local_roots_of(self.stages) if self.has_roots else None

    @cached_property
    def breaks(self) -> tuple[tuple[float, ...], ...]:
        """The breaks of each unit that has phases."""
        found: list[tuple[float, ...]] = []
        for stage in self.stages:
            own: dict[int, tuple[float, ...]] = {}
            for activation, units in stage.kinds:
                numbers = np.arange(stage.bias.size)[units].tolist()
                own |= dict.fromkeys(numbers, activation.breaks)
            found += [own[unit] for unit in stage.broken.tolist()]
        return tuple(found)

    @cached_property
    def edges(self) -> tuple[tuple[FloatArray, FloatArray], ...]:
        """For each layer the breaks of its units with phases, and how far slopes jump there.

        Shapes (m, b), for m breaks of a unit at most; NaN and zero where there are fewer.
        """
        found = []
        for stage in self.stages:
            most = max((len(activation.breaks) for activation, _ in stage.kinds), default=0)
            places = np.full((most, stage.bias.size), np.nan)
            jumps = np.zeros_like(places)
            for activation, units in stage.kinds:
                at = np.array(activation.breaks)
                low, high = activation.slope_range(at, at)
                places[: at.size, units] = at[:, None]
                jumps[: at.size, units] = (high - low)[:, None]
            found.append((places[:, stage.broken], jumps[:, stage.broken]))
        return tuple(found)


@dataclass(frozen=True, eq=False)
class Context:
    """A question, and what follows from it.

    Attributes
    ----------
    question : Question
    targets : Targets
    stages : tuple of Stage
    head : ndarray, shape (m, n_L)
        The last layer's weights of the last stage's outputs.
    unit : float
        Relative error that pays for all sums of products of a bound (`relax.py` says how).
    features : Features, optional
        What boxes have ends for instead of the inputs.
    """

    question: Question
    targets: Targets
    stages: tuple[Stage, ...]
    head: FloatArray
    unit: float
    features: Features | None = None

    @classmethod
    def of(
        cls,
        question: Question,
        featured: bool = False,
        targets: Targets | None = None,
        native: bool = True,
    ) -> Context:
        """The context of a question.

        Parameters
        ----------
        question : Question
        featured : bool, optional
            Whether boxes may have ends for what the first layer sees, where that is less.
        targets : Targets, optional
            By default those of the problem's norms.
        native : bool, optional
            Whether products are products, and not the squares that the network has for them.

        Raises
        ------
        MethodError
            If the dual ball has too many vertices.
        """
        network, tangents = question.problem.network, question.problem.tangent_network
        found, head = stages_of(network, tangents, native)
        stages = list(found)
        products = sum(stage.products is not None for stage in stages)
        operations = sum(network.sizes) + tangents.input_dim + 8 * len(network.layers)
        unit, seen = gamma(operations + 16 * products), None
        if featured and stages:
            domain = question.problem.domain
            seen = features_of(rows_seen(stages), domain, question.params)
        if seen is not None:
            stages = list(of_features(stages, seen, unit))
        targets = targets or targets_of(question.problem)
        return cls(question, targets, tuple(stages), head, unit, seen)

    @property
    def params(self) -> Params:
        """The numbers of the search."""
        return self.question.params

    @property
    def domain(self) -> Domain:
        """X, or what of it boxes have ends for."""
        return self.question.problem.domain if self.features is None else self.features.domain

    @property
    def inputs(self) -> int:
        """D: what boxes have ends for."""
        if self.features is not None:
            return len(self.features.basis)
        return self.question.problem.network.input_dim

    @property
    def directions(self) -> int:
        """K: entries of a direction v; as many as inputs if all are asked for."""
        return self.question.problem.tangent_network.input_dim

    @cached_property
    def structure(self) -> Structure:
        """What is seen of the layers."""
        return Structure(self.stages)

    @cached_property
    def batches(self) -> Batches:
        """How many boxes and points are looked at together."""
        many, size = self.structure.multiplies, box_bytes(self.question.problem)
        if self.structure.carries:
            size = max(size, bytes_of_forms(self.stages, self.inputs + self.directions))
        return Batches.of(self.params, size, 8 * len(self.rows) * self.directions, many)

    @cached_property
    def curved(self) -> bool:
        """Whether the first layer's units are parabolas as well (`curves.py`)."""
        if self.params.curved is None or self.structure.multiplies:
            return False
        fewest, most = self.params.curved
        return fewest <= self.inputs <= most

    @property
    def sign_weight(self) -> float:
        """How often the gap of an entry of v counts against that of an input."""
        many = self.structure.multiplies
        return self.params.sign_weight_of_products if many else self.params.sign_weight

    @cached_property
    def up_to_tail(self) -> Context:
        """The layers up to a tail's squares, or the first one, if they are sums of its units."""
        tail = self.structure.tail
        assert tail is not None
        count = tail.start + 1 if tail.first is None else 1
        params = replace(self.params, curved=None)  # rows are products
        question = replace(self.question, params=params)
        return replace(self, stages=self.stages[:count], question=question)

    @property
    def rows(self) -> FloatArray:
        """The last layer's weights under each functional: shape (k, n_L)."""
        return self._rows[0]

    @property
    def row_errors(self) -> FloatArray:
        """What the entries of `rows` may be off by."""
        return self._rows[1]

    @cached_property
    def _rows(self) -> tuple[FloatArray, FloatArray]:
        functionals = self.targets.functionals
        rows, errors = close_product(functionals, self.head)
        plain = np.count_nonzero(functionals, axis=1) <= 1
        plain &= np.isin(np.abs(functionals), (0.0, 1.0)).all(axis=1)
        return rows, np.where(plain[:, None], 0.0, errors)

    def cutoff(self, value: float) -> float:
        """Bounds at or below it fathom, where `value` is attained."""
        question = self.question
        met = max(value, 0.0) / (1.0 - max(question.gap, self.params.slack)) * (1.0 - gamma(0))
        return max(met, question.enough, question.problem.underflow, UNDERFLOW)


@dataclass(frozen=True)
class Batches:
    """Counts of boxes and points.

    Attributes
    ----------
    box_bytes : int
        Bytes of the largest array that bounding one box takes.
    samples : int
        Points of the first look: their Jacobians take about as much as a bundle's rows.
    bundle : int
        Most boxes of a node.
    chunk : int
        Boxes that are bounded at a time.
    few : int
        Boxes for which a call is worth it, or half a chunk of large ones.
    """

    box_bytes: int
    samples: int
    bundle: int
    chunk: int
    few: int

    @classmethod
    def of(cls, params: Params, box_bytes: int, point_bytes: int, multiplies: bool) -> Batches:
        """Those of boxes and points of so many bytes, with products or without."""
        chunk_bytes = params.chunk_bytes_of_products if multiplies else params.chunk_bytes
        chunk = max(1, chunk_bytes // box_bytes)
        return cls(
            box_bytes,
            int(np.clip(params.bundle_bytes // point_bytes, 64, params.samples)),
            int(np.clip(params.bundle_bytes // box_bytes, 1, params.bundle)),
            chunk,
            min(params.few, max(1, chunk // 2)),
        )


def box_bytes(problem: LipschitzProblem) -> int:
    """Bytes of the largest array that bounding one box of a problem takes: rows of a layer."""
    network = problem.network
    widths = [layer.units for layer in network.hidden] or [1]
    return 8 * max(widths) * max([*widths[:-1], network.input_dim])


def bytes_of_forms(stages: Sequence[Stage], columns: int) -> int:
    """The same of forms, where z and u are carried along: in so many e, and those of layers."""
    most = 0
    for stage, after in pairwise(stages):
        used = np.flatnonzero(after.weight.any(axis=0))
        columns += int((~passed_outputs(stage)[used]).sum())
        rows = after.bias.size if after.copies is None else after.copies.fresh.size
        most = max(most, 8 * max(rows, used.size) * columns)
    return most


def _most_products(before: Stage, stage: Stage) -> int:
    """How many products and squares of the layer before a row sums, at most."""
    outputs = before.squares
    if before.products is not None:
        after = before.products.units + np.arange(before.products.left.size)
        outputs = np.concatenate([outputs, after])
    return int((stage.weight[:, outputs] != 0.0).sum(axis=1).max(initial=0))
