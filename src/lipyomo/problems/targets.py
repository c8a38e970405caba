"""Targets: the scalars that each node bounds.

The constant is the maximum of finitely many scalars ``max_v |y . J v|``, the targets:

- y is a vertex of the dual ball if it is a polytope, each with targets of its own;
- v ranges over the whole input ball (linf, l2), or is one of its vertices +-e_j (l1), each with
  targets of its own.

For a Euclidean output ball there is one target for all y.  A node carries the targets that are
above the cutoff.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray, lengths
from lipyomo.base.errors import MethodError
from lipyomo.base.numerics.rounding import gamma
from lipyomo.problems.norms import InputNorm, L2Output
from lipyomo.problems.operator_norm import operator_norm
from lipyomo.problems.problem import LipschitzProblem

MAX_TARGETS = 1 << 14
"""Limit of the number of targets: pairs of a dual vertex and an input column."""

_ALL = -1


@dataclass(frozen=True, eq=False)
class Targets:
    """The scalars whose maximum is the constant.

    Attributes
    ----------
    functionals : ndarray, shape (k, m)
        Vertices of the dual ball; the identity if it is treated as a whole.
    rows : ndarray of int, shape (T,)
        Functional of each target, or -1 for the ball over all rows (`whole_ball`): a Euclidean
        one, or, for semidefinite bounds, a cube with too many vertices.
    columns : ndarray of int, shape (T,)
        Input, or direction, of each target (`by_column`), or -1 for all.
    norm : {'l1', 'l2', 'linf'}
    """

    functionals: FloatArray
    rows: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int64]
    norm: InputNorm

    @classmethod
    def of(
        cls, vertices: FloatArray | None, outputs: int, inputs: int | None, input_norm: InputNorm
    ) -> Targets:
        """Combine each vertex (k, m) of a dual ball with each input of an l1 ball.

        `vertices` is None for the ball as a whole, `inputs` None to treat all inputs together.
        """
        functionals = np.eye(outputs) if vertices is None else vertices
        rows = np.array([_ALL]) if vertices is None else np.arange(len(vertices))
        columns = np.array([_ALL])
        if input_norm == "l1" and inputs is not None:
            columns = np.arange(inputs)
        rows, columns = np.repeat(rows, columns.size), np.tile(columns, rows.size)
        return cls(functionals, rows, columns, input_norm)

    @property
    def whole_ball(self) -> bool:
        """Whether targets stand for the dual ball as a whole, usually a Euclidean one."""
        return bool(self.rows[0] == _ALL)

    @property
    def euclidean(self) -> bool:
        """Whether one of the norms is, or may be, the Euclidean one."""
        return self.norm == "l2" or self.whole_ball

    @property
    def by_column(self) -> bool:
        """Whether each input, or direction, has its own targets."""
        return bool(self.columns[0] != _ALL)

    @property
    def count(self) -> int:
        """Number of targets T."""
        return len(self.rows)

    def interval(self, sizes: FloatArray) -> FloatArray:
        """Bound the targets (B, T) by bounds (B, k, d) of the gradients' absolute entries.

        The rounding of the norms is included.
        """
        if self.by_column and not self.whole_ball:
            return np.asarray(sizes[:, self.rows, self.columns])
        return self._norms(sizes) * (1.0 + gamma(sum(sizes.shape[1:])))

    def _norms(self, sizes: FloatArray) -> FloatArray:
        if self.by_column:
            return lengths(sizes, axis=1)
        if not self.whole_ball:
            if self.norm == "linf":
                return np.asarray(sizes.sum(axis=2))
            return lengths(sizes)
        if self.norm == "linf":
            return lengths(sizes.sum(axis=2))[:, None]
        return np.asarray(np.linalg.norm(sizes, 2, axis=(1, 2)))[:, None]

    def exact(self, gradients: FloatArray) -> FloatArray:
        """Return the targets (T,) for constant gradients (k, d); bounds for the hard pair."""
        if self.whole_ball and not self.by_column:
            return np.array([operator_norm(gradients, self.norm, L2Output()).upper])
        return np.asarray(self.interval(np.abs(gradients)[None])[0])


def targets_of(problem: LipschitzProblem) -> Targets:
    """Return the targets of a problem without frozen inputs.

    Raises
    ------
    MethodError
        If the dual ball has too many vertices.
    """
    d, *_, m = problem.tangent_network.sizes
    vertices = problem.dual_vertices
    if vertices is None and problem.output_norm.is_linear:
        raise MethodError(
            f"the dual ball of {problem.output_norm.name} over {m} outputs has too many vertices"
        )
    rows, columns = 1 if vertices is None else len(vertices), d if problem.norm == "l1" else 1
    if rows * columns > MAX_TARGETS:
        raise MethodError(
            f"{rows} dual vertices times {columns} inputs are too many for branch and bound.  "
            "Remedy: another output norm, or a scalar functional"
        )
    return Targets.of(vertices, m, d, problem.norm)
