"""What a node has to bound: one scalar a target.

The constant is the largest of finitely many scalars ``max_v |y . J v|``:

- y runs through the vertices of the dual ball if it is a polytope;
- v runs through the input ball as a whole (linf, l2), or through its vertices +-e_j (l1), each of
  which is a target of its own.

For a Euclidean output ball there is one target that stands for all y.  Nodes carry the targets
that can still matter.
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
"""Most pairs of a dual vertex and an input column that are told apart."""

_ALL = -1


@dataclass(frozen=True)
class Targets:
    """The scalars whose maximum is the constant.

    Attributes
    ----------
    functionals : ndarray, shape (k, m)
        Vertices of the dual ball; the identity for one as a whole.
    rows : ndarray of int, shape (T,)
        Functional of each target, or -1 for the ball over all rows (`whole_ball`): a Euclidean
        one, or, for semidefinite bounds, a cube with too many vertices.
    columns : ndarray of int, shape (T,)
        Input, or direction, of each target (`by_column`), or -1.
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
        """Each vertex (k, m) of a dual ball with each direction that is told apart.

        None stands for the ball as a whole, and for inputs of which none is told apart.
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
        """Whether targets are of the dual ball as a whole: mostly a Euclidean one over all rows."""
        return bool(self.rows[0] == _ALL)

    @property
    def euclidean(self) -> bool:
        """Whether one of the norms is, or may be, the Euclidean one."""
        return self.norm == "l2" or self.whole_ball

    @property
    def by_column(self) -> bool:
        """Whether each input, or direction, has targets of its own."""
        return bool(self.columns[0] != _ALL)

    @property
    def count(self) -> int:
        """Number of targets T."""
        return len(self.rows)

    def interval(self, sizes: FloatArray) -> FloatArray:
        """Bounds (B, T) of the targets from bounds (B, k, d) of the gradients' entries.

        With room for the rounding of the norms.
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
        """The targets (T,) where the gradients (k, d) are constant; bounds for the hard pair."""
        if self.whole_ball and not self.by_column:
            return np.array([operator_norm(gradients, self.norm, L2Output()).upper])
        return np.asarray(self.interval(np.abs(gradients)[None])[0])


def targets_of(problem: LipschitzProblem) -> Targets:
    """The targets of a problem without frozen inputs.

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
