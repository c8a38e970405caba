"""Polytopes ``{x : A x <= b}`` as domains; their geometry is computed by warm-started LPs."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.arguments import real_numbers
from lipyomo.domains.bodies import FLAT, Box, Domain, Rows
from lipyomo.errors import DomainError
from lipyomo.network import BoolArray, FloatArray, Matrix
from lipyomo.numerics.lp import LinearProgram


class Polytope(Domain):
    """``{x : A x <= b, lower <= x <= upper}``; may be unbounded, must not be empty or flat.

    Parameters
    ----------
    A : array_like or sparse array, shape (r, d)
    b : array_like, shape (r,)
    lower, upper : array_like, shape (d,), or float, optional
        Further box bounds.

    Raises
    ------
    DomainError
        If it is empty, or flat in other directions than single frozen inputs.
    """

    def __init__(
        self,
        A: object,  # the usual name of the matrix
        b: npt.ArrayLike,
        lower: npt.ArrayLike = -np.inf,
        upper: npt.ArrayLike = np.inf,
    ) -> None:
        dense = None if sp.issparse(A) else real_numbers(A, "the polytope's A", DomainError)
        if dense is not None and dense.ndim != 2:
            raise DomainError(f"the polytope's A has {dense.ndim} axes, expected 2 (rows, inputs)")
        matrix = sp.csr_array(A if dense is None else dense, dtype=np.float64)
        right = real_numbers(b, "the polytope's b", DomainError).reshape(-1)
        if matrix.shape[0] != right.size:
            raise DomainError(f"A has {matrix.shape[0]} rows, but b has {right.size} entries")
        if not np.isfinite(matrix.data).all() or np.isnan(right).any():
            raise DomainError("the polytope's A or b holds NaN or infinite entries")
        keep = np.isfinite(right)
        if np.isneginf(right).any():
            raise DomainError("the polytope is empty: an entry of b is -inf")
        self._rows = Rows(sp.csr_array(matrix[keep]), right[keep])
        outer = Box(lower, upper, matrix.shape[1])
        self._lp = LinearProgram(outer.lower, outer.upper, self._rows.A, self._rows.b)
        if not self._lp.is_feasible():
            raise DomainError("the polytope is empty: no x satisfies A x <= b and the bounds")
        self._enclose(outer)
        d = matrix.shape[1]
        self.upper = self._tidy(self.support(sp.eye_array(d, format="csr")), outer.upper)
        self.lower = self._tidy(-self.support(-sp.eye_array(d, format="csr")), outer.lower)
        bounded = np.isfinite(self.upper) & np.isfinite(self.lower)
        high, low = (np.where(bounded, side, 0.0) for side in (self.upper, self.lower))
        flat = bounded & (high - low <= FLAT * np.maximum(1.0, np.abs(high)))
        self.lower = np.where(flat, self.upper, self.lower)
        radius = self._inscribed[1]
        if radius <= FLAT * (1.0 + float(np.abs(self._inscribed[0]).max(initial=0.0))):
            raise DomainError(
                "the polytope has no interior (its rows imply an equation), so directions in it "
                "are not those of R^d.  Remedy: eliminate the dependent inputs, or fix single "
                "inputs by equal lower and upper bounds"
            )

    def __reduce__(self) -> tuple[type[Polytope], tuple[object, ...]]:
        """Pickle by the rows and the box: the solver's state stays behind."""
        return Polytope, (self._rows.A, self._rows.b, self.lower, self.upper)

    def _enclose(self, outer: Box) -> None:
        """Give the linear program finite bounds of the inputs wherever the rows imply them.

        With weights y >= 0 and ``y A = e_j - r`` every point has ``x_j <= y.b + r.x``.  Entries of
        r that point to a given bound cost a known amount; if the others have |r|_1 below one, all
        |x| are bounded although r is not zero.
        """
        A, b = self._rows.A, self._rows.b
        loose = np.flatnonzero(~(np.isfinite(outer.lower) & np.isfinite(outer.upper)))
        if not loose.size or not b.size:
            return
        eye = np.eye(A.shape[1])
        both = np.isfinite(outer.lower) & np.isfinite(outer.upper)
        reach = np.maximum(np.abs(outer.lower), np.abs(outer.upper))
        ends, residuals = np.zeros((2, loose.size)), np.zeros((2, loose.size))
        for i, j in enumerate(loose.tolist()):
            for side, sign in enumerate((1.0, -1.0)):
                if self._lp.maximise(sign * eye[j]).point is None:
                    return
                y = self._lp.duals
                rest = sign * eye[j] - A.T @ y
                error = 2.0**-52 * (b.size + 8) * (abs(A).T @ y + eye[j])
                face = np.where(rest > 0, outer.upper, outer.lower)
                held = np.isfinite(face)
                # a residual towards a given bound costs that much; others are told apart
                given = np.where(held, face, 0.0)
                size = float(y @ np.abs(b) + np.abs(rest * given).sum())
                ends[side, i] = (
                    float(y @ b + rest @ given) + 2.0**-52 * (b.size + len(eye) + 8) * size
                )
                ends[side, i] += float(error[both] @ reach[both])
                residuals[side, i] = error[~both].sum() + np.abs(rest[~held]).sum()
        worst = float(residuals.max())
        if worst > 0.5:
            return
        most = 2.0 * max(float(ends.max()), 0.0)  # of |x_j| over the loose inputs
        for i, j in enumerate(loose.tolist()):
            high = (ends[0, i] + residuals[0, i] * most) * (1.0 + 2.0**-50) + 2.0**-1000
            low = -(ends[1, i] + residuals[1, i] * most) * (1.0 + 2.0**-50) - 2.0**-1000
            size = 2.0**-50 * (abs(high) + abs(low))
            self._lp.set_bounds(
                j, max(low - size, outer.lower[j]), min(high + size, outer.upper[j])
            )

    @staticmethod
    def _tidy(found: FloatArray, given: FloatArray) -> FloatArray:
        """Prefer a given bound to a computed one that only differs by solver tolerance."""
        both = np.isfinite(given) & np.isfinite(found)
        known = np.where(both, given, 0.0)
        close = np.abs(np.where(both, found, 0.0) - known) <= 1e-7 * (1.0 + np.abs(known))
        return np.where(both & close, given, found)

    @property
    def rows(self) -> Rows:
        """The rows ``A x <= b``."""
        return self._rows

    @cached_property
    def _inscribed(self) -> tuple[FloatArray, float]:
        """Centre and radius of the largest Euclidean ball inside, in the inputs that can move."""
        move = ~self.frozen
        d = int(move.sum())
        if d == 0:
            return self.upper.copy(), np.inf
        fixed = self._rows.b - self._rows.A @ np.where(move, 0.0, self.upper)
        matrix = sp.csr_array(self._rows.A[:, np.flatnonzero(move)])
        sizes = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).reshape(-1))
        eye = sp.eye_array(d, format="csr")
        low, high = self.lower[move], self.upper[move]
        up, down = np.isfinite(high), np.isfinite(low)
        body = sp.vstack([matrix, eye[np.flatnonzero(up)], -eye[np.flatnonzero(down)]])
        column = np.concatenate([sizes, np.ones(up.sum() + down.sum())])[:, None]
        right = np.concatenate([fixed, high[up], -low[down]])
        program = LinearProgram(
            np.append(np.full(d, -np.inf), 0.0),
            np.append(np.full(d, np.inf), np.inf if self.is_bounded else 1.0),
            sp.csr_array(sp.hstack([body, sp.csr_array(column)])),
            right,
        )
        found = program.maximise(np.append(np.zeros(d), 1.0))
        center = self.upper.copy()
        if found.point is None:
            return center, 0.0
        center[move] = found.point[:d]
        return center, float(found.point[d])

    @property
    def center(self) -> FloatArray:
        """Centre of the largest inscribed Euclidean ball, shape (d,)."""
        return self._inscribed[0].copy()

    def support(self, directions: Matrix) -> FloatArray:
        """Maxima by LP, made safe by their dual bounds; shape (k,)."""
        dense = directions if isinstance(directions, np.ndarray) else directions.toarray()
        return np.array([self._lp.maximise(row).bound for row in dense])

    def sample(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Hit-and-run from the inscribed ball's centre, shape (count, d)."""
        rows, move = self._rows, ~self.frozen
        x = self.center
        points = np.empty((count, self.dimension))
        steps = max(1, min(10, self.dimension))
        for i in range(count):
            for _ in range(steps):
                v = np.where(move, rng.standard_normal(self.dimension), 0.0)
                x = x + rng.uniform(*self._chord(x, v, rows)) * v
            points[i] = x
        return points

    def _chord(self, x: FloatArray, v: FloatArray, rows: Rows) -> tuple[float, float]:
        """Interval of t with ``x + t v`` inside (cut at +-100 where unbounded)."""
        gaps = np.concatenate([rows.b - rows.A @ x, self.upper - x, x - self.lower])
        rates = np.concatenate([rows.A @ v, v, -v])
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.maximum(gaps, 0.0) / rates
        high = float(ends[rates > 0].min(initial=100.0))
        low = float(ends[rates < 0].max(initial=-100.0))
        return 0.999 * min(low, 0.0), 0.999 * max(high, 0.0)

    def restrict(self, keep: BoolArray) -> Polytope:
        """The polytope in the kept inputs, the others at their (frozen) values."""
        right = self._rows.b - self._rows.A @ np.where(keep, 0.0, self.upper)
        matrix = self._rows.A[:, np.flatnonzero(keep)]
        return Polytope(matrix, right, self.lower[keep], self.upper[keep])

    def describe(self) -> str:
        """One line for summaries."""
        return f"polytope with {self._rows.count} rows in R^{self.dimension}"
