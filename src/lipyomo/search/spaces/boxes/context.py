"""The data that stay fixed while boxes are split: dense layers, functionals, the domain X."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.exact import close_product
from lipyomo.base.numerics.rounding import UNDERFLOW, gamma
from lipyomo.problems.domains import Domain
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.targets import Targets, targets_of
from lipyomo.search.spaces.boxes.params import Params
from lipyomo.search.spaces.boxes.structure.closed_forms import passed_outputs
from lipyomo.search.spaces.boxes.structure.features import (
    Features,
    features_of,
    of_features,
    rows_seen,
)
from lipyomo.search.spaces.boxes.structure.local_roots import LocalRoots, local_roots_of
from lipyomo.search.spaces.boxes.structure.stage import Stage
from lipyomo.search.spaces.boxes.structure.stages import stages_of
from lipyomo.search.spaces.boxes.structure.tails import Tail, tail_of


class BoxQuestion(NamedTuple):
    """The problem and options of a search, from which its context is made.

    Attributes
    ----------
    problem : LipschitzProblem
        Without frozen inputs.
    gap : float
        Relative gap that is good enough.
    enough : float
        A bound that is good enough, whatever value is attained.
    params : Params
    """

    problem: LipschitzProblem
    gap: float = 0.0
    enough: float = 0.0
    params: Params = Params()

    def cutoff(self, value: float) -> float:
        """Return the bound at or below which boxes are fathomed, if `value` is attained."""
        met = max(value, 0.0) / (1.0 - max(self.gap, self.params.slack)) * (1.0 - gamma(0))
        return max(met, self.enough, self.problem.underflow, UNDERFLOW)


@dataclass(frozen=True, eq=False)
class Structure:
    """Structure found in the layers.

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
        """Whether any stage has inverse roots of sums of squares, as normalisations have."""
        return any(stage.roots is not None for stage in self.stages)

    @cached_property
    def carries(self) -> bool:
        """Whether z and u are affine forms (`relaxing/forms.py`), long with many products.

        If rows sum more products than there are inputs, they would not improve bounds.
        """
        if not self.multiplies or self.local_roots is not None:
            return False
        inputs = self.stages[0].weight.shape[1]
        return all(_most_products(*pair) <= inputs for pair in pairwise(self.stages))

    @cached_property
    def tail(self) -> Tail | None:
        """The last layers, if these are rows of quotients."""
        return tail_of(self.stages) if self.has_roots else None

    @cached_property
    def local_roots(self) -> LocalRoots | None:
        """Inverse roots of sums of squares of the first layer, if the network begins with them."""
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
        """Breaks of each layer's units with phases, and the jumps of slopes at them.

        Shapes (m, b), for at most m breaks per unit; filled with NaN and zero.
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
class BoxContext:
    """A question, and the data derived from it.

    Attributes
    ----------
    question : BoxQuestion
    targets : Targets
    stages : tuple of Stage
    head : ndarray, shape (m, n_L)
        The last layer's weights on the last stage's outputs.
    unit : float
        Relative error that covers all sums of products of a bound (see `relaxing/relax.py`).
    features : Features, optional
        Features on which boxes are defined instead of on the inputs.
    """

    question: BoxQuestion
    targets: Targets
    stages: tuple[Stage, ...]
    head: FloatArray
    unit: float
    features: Features | None = None

    @classmethod
    def of(
        cls,
        question: BoxQuestion,
        featured: bool = False,
        targets: Targets | None = None,
        native: bool = True,
    ) -> BoxContext:
        """Make the context of a question.

        Parameters
        ----------
        question : BoxQuestion
        featured : bool, optional
            Whether boxes may be defined on features that the first layer sees, if these are fewer.
        targets : Targets, optional
            By default those of the problem's norms.
        native : bool, optional
            Whether to restore products from the squares by which the network represents them.

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
        """The parameters of the search."""
        return self.question.params

    @property
    def domain(self) -> Domain:
        """The domain X, or that of the features."""
        return self.question.problem.domain if self.features is None else self.features.domain

    @property
    def inputs(self) -> int:
        """Dimension of the boxes: number of inputs or of features."""
        if self.features is not None:
            return len(self.features.basis)
        return self.question.problem.network.input_dim

    @property
    def directions(self) -> int:
        """Length of a direction v; the number of inputs, unless the problem gives directions."""
        return self.question.problem.tangent_network.input_dim

    @cached_property
    def structure(self) -> Structure:
        """Structure found in the layers."""
        return Structure(self.stages)

    @cached_property
    def batches(self) -> Batches:
        """Numbers of boxes and points that are processed together."""
        many, size = self.structure.multiplies, box_bytes(self.question.problem)
        if self.structure.carries:
            size = max(size, bytes_of_forms(self.stages, self.inputs + self.directions))
        return Batches.of(self.params, size, 8 * len(self.rows) * self.directions, many)

    @cached_property
    def curved(self) -> bool:
        """Whether the first layer's units are also relaxed to parabolas (`relaxing/curves.py`)."""
        if self.params.curved is None or self.structure.multiplies:
            return False
        fewest, most = self.params.curved
        return fewest <= self.inputs <= most

    @property
    def sign_weight(self) -> float:
        """Weight of the gaps of entries of v, relative to those of inputs."""
        many = self.structure.multiplies
        return self.params.sign_weight_of_products if many else self.params.sign_weight

    @cached_property
    def up_to_tail(self) -> BoxContext:
        """Context of the layers up to a tail's squares, or of the first if they sum its units."""
        tail = self.structure.tail
        assert tail is not None
        count = tail.start + 1 if tail.first is None else 1
        params = self.params._replace(curved=None)  # products do not use parabolas
        question = self.question._replace(params=params)
        return replace(self, stages=self.stages[:count], question=question)

    @property
    def rows(self) -> FloatArray:
        """The last layer's weights under each functional: shape (k, n_L)."""
        return self._rows[0]

    @property
    def row_errors(self) -> FloatArray:
        """Bounds of the rounding errors of `rows`."""
        return self._rows[1]

    @cached_property
    def _rows(self) -> tuple[FloatArray, FloatArray]:
        functionals = self.targets.functionals
        rows, errors = close_product(functionals, self.head)
        plain = np.count_nonzero(functionals, axis=1) <= 1
        plain &= np.isin(np.abs(functionals), (0.0, 1.0)).all(axis=1)
        return rows, np.where(plain[:, None], 0.0, errors)


class Batches(NamedTuple):
    """Numbers of boxes and points that are processed together.

    Attributes
    ----------
    box_bytes : int
        Bytes of the largest array needed to bound one box.
    samples : int
        Number of points sampled at first; their Jacobians take about as much as a bundle's rows.
    bundle : int
        Most boxes of a node.
    chunk : int
        Boxes that are bounded at a time.
    few : int
        Least number of boxes for which a call pays; at most half a chunk.
    """

    box_bytes: int
    samples: int
    bundle: int
    chunk: int
    few: int

    @classmethod
    def of(cls, params: Params, box_bytes: int, point_bytes: int, multiplies: bool) -> Batches:
        """Choose them from the bytes of a box and of a point, and whether there are products."""
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
    """Bytes of the largest array needed to bound a box of a problem: the rows of a layer."""
    network = problem.network
    widths = [layer.units for layer in network.hidden] or [1]
    return 8 * max(widths) * max([*widths[:-1], network.input_dim])


def bytes_of_forms(stages: Sequence[Stage], columns: int) -> int:
    """Bytes of a layer's affine forms, with `columns` coefficients and the error terms."""
    most = 0
    for stage, after in pairwise(stages):
        used = np.flatnonzero(after.weight.any(axis=0))
        columns += int((~passed_outputs(stage)[used]).sum())
        rows = after.bias.size if after.copies is None else after.copies.fresh.size
        most = max(most, 8 * max(rows, used.size) * columns)
    return most


def _most_products(before: Stage, stage: Stage) -> int:
    """Largest number of products and squares of the previous layer that a row sums."""
    outputs = before.squares
    if before.products is not None:
        after = before.products.units + np.arange(before.products.left.size)
        outputs = np.concatenate([outputs, after])
    return int((stage.weight[:, outputs] != 0.0).sum(axis=1).max(initial=0))
