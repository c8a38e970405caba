"""Step-by-step construction of a `QuadraticProgram` from linear forms and their products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.relaxations.semidefinite.quadratic import QuadraticProgram


class ProgramBuilder:
    """Collects the constraints of a program.

    Linear forms are rows over the constant, the variables and the dense forms.

    Parameters
    ----------
    total : int
        Number N of variables, including the constant.
    extended : int
        Number E of dense forms.

    Attributes
    ----------
    total : int
    one : ndarray, shape (N + E,)
        The constant one.
    columns : ndarray, shape (N + E,)
        Magnitudes of the variables (all one) and of the dense forms.
    """

    def __init__(self, total: int, extended: int) -> None:
        self.total = total
        self.columns = np.ones(total + extended)
        self.one = self.unit(np.zeros(1, dtype=np.int64))[0]
        self._extension = np.zeros((extended, total))
        self._anchors = np.zeros(total - 1, dtype=np.int64)
        nothing = sp.csr_array((0, self.columns.size))  # there may be no products
        self._left, self._right = [nothing], [nothing]
        self._magnitudes: list[FloatArray] = [np.zeros((0, 2))]
        self._owners: list[int] = []
        self._equal: list[bool] = []

    def unit(self, places: IntArray) -> FloatArray:
        """Return the forms that are single variables or dense forms, by their positions."""
        rows = np.zeros((places.size, self.columns.size))
        rows[np.arange(places.size), places] = 1.0
        return rows

    def define(self, places: IntArray, forms: FloatArray, magnitudes: FloatArray) -> FloatArray:
        """Define dense forms (n, N) at these positions, with magnitudes; return their rows."""
        self._extension[places - self.total] = forms
        self.columns[places] = magnitudes
        return self.unit(places)

    def anchor(self, places: IntArray) -> None:
        """Add ``(1 - w)(1 + w) >= 0`` for each of these variables."""
        rows = self.unit(places)
        self.add(self.one - rows, self.one + rows, anchors=places)

    def add(
        self,
        left: FloatArray,
        right: FloatArray,
        equal: bool = False,
        magnitudes: tuple[FloatArray | None, FloatArray | None] = (None, None),
        anchors: IntArray | None = None,
    ) -> None:
        """Add ``left * right >= 0`` (or = 0) for each row.

        `magnitudes` are needed for rows with cancellation; `anchors` are the variables whose
        squares these constraints bound.
        """
        left = np.atleast_2d(left)
        numbers = self._begun(len(left), equal)
        self._append(left, np.atleast_2d(right), numbers, magnitudes)
        if anchors is not None:
            self._anchors[anchors - 1] = list(numbers)

    def add_sums(self, pairs: Sequence[tuple[FloatArray, FloatArray]]) -> None:
        """Add ``sum of left * right = 0`` over the pairs, for each row."""
        numbers = self._begun(len(pairs[0][0]), True)
        for left, right in pairs:
            self._append(left, right, numbers, (None, None))

    def _begun(self, count: int, equal: bool) -> range:
        """Register `count` new constraints and return their numbers."""
        first = len(self._equal)
        self._equal.extend([equal] * count)
        return range(first, first + count)

    def _append(
        self,
        left: FloatArray,
        right: FloatArray,
        numbers: range,
        magnitudes: tuple[FloatArray | None, FloatArray | None],
    ) -> None:
        """Append products to the constraints of these numbers."""
        self._left.append(sp.csr_array(left))
        self._right.append(sp.csr_array(right))
        self._owners.extend(numbers)
        pair = [
            np.abs(rows) @ self.columns if magnitude is None else magnitude
            for rows, magnitude in zip((left, right), magnitudes, strict=True)
        ]
        self._magnitudes.append(np.stack(np.broadcast_arrays(*pair), axis=1))

    def program(
        self, objective: FloatArray, ball: IntArray, objective_mass: float, error: float
    ) -> QuadraticProgram:
        """Return the program; see `QuadraticProgram`."""
        return QuadraticProgram(
            objective,
            sp.csr_array(sp.vstack(self._left)),
            sp.csr_array(sp.vstack(self._right)),
            self._extension,
            np.array(self._owners, dtype=np.int64),
            np.array(self._equal, dtype=bool),
            self._anchors,
            ball,
            np.concatenate(self._magnitudes),
            objective_mass,
            error,
        )
