"""Polytopes ``{x : A x <= b}`` as domains, with warm-started LPs for their geometry."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.base.arguments import real_numbers
from lipyomo.base.arrays import BoolArray, FloatArray, Matrix, dense
from lipyomo.base.errors import DomainError
from lipyomo.base.numerics.exact import approximate, exact, product_is_exact, sum_is_exact
from lipyomo.base.numerics.lp import LinearProgram
from lipyomo.base.numerics.rounding import gamma
from lipyomo.base.numerics.simplex import Decision, decide_strictly
from lipyomo.problems.domains.base import Domain, LinearRows, box_sides
from lipyomo.problems.domains.box import Box

USUAL = 20
"""Rows are not scaled if their largest coefficient is within this power of two of one."""

WALKS = 16
"""Random walks run in parallel for samples: a step of sixteen takes about as long as of one."""


def interior_of(rows: LinearRows, lower: FloatArray, upper: FloatArray) -> Decision:
    """Decide exactly whether there is a strictly interior point, not necessarily of floats.

    Parameters
    ----------
    rows : LinearRows
    lower, upper : ndarray, shape (d,)
        Equal bounds fix an input.

    Returns
    -------
    Decision
        A point in the inputs that are not fixed, or weights that prove that there is none; neither
        if there are too many rows for the exact simplex method.
    """
    moving = lower != upper
    found = [
        row
        for row in rows.exactly(moving, upper)
        if any(value != 0 for value in row[:-1]) or row[-1] < 0
    ]
    found += box_sides(lower[moving], upper[moving])
    return decide_strictly(found, np.zeros(len(found))) if found else Decision()


def _read_rows(A: object, b: npt.ArrayLike) -> LinearRows:
    """Check the given rows, and remove those with infinite entries of b."""
    given = None if sp.issparse(A) else real_numbers(A, "the polytope's A", DomainError)
    if given is not None and given.ndim != 2:
        raise DomainError(f"the polytope's A has {given.ndim} axes, expected 2 (rows, inputs)")
    matrix = sp.csr_array(A if given is None else given, dtype=np.float64)
    right = real_numbers(b, "the polytope's b", DomainError).reshape(-1)
    if matrix.shape[0] != right.size:
        raise DomainError(f"A has {matrix.shape[0]} rows, but b has {right.size} entries")
    if not np.isfinite(matrix.data).all() or np.isnan(right).any():
        raise DomainError("the polytope's A or b holds NaN or infinite entries")
    if np.isneginf(right).any():
        raise DomainError("the polytope is empty: an entry of b is -inf")
    keep = np.isfinite(right)
    return LinearRows(sp.csr_array(matrix[keep]), right[keep])


def usual_rows(rows: LinearRows) -> LinearRows:
    """Scale rows with huge or tiny coefficients by powers of two.

    HiGHS rejects coefficients from 1e15 on, and treats those below 1e-9 as zero.  Rows are kept if
    the scaling would not be exact.
    """
    owner = np.repeat(np.arange(rows.count), np.diff(rows.A.indptr))
    exponent = np.frexp(np.asarray(abs(rows.A).max(axis=1).todense()).reshape(-1))[1]
    exponent[np.abs(exponent) <= USUAL] = 0
    with np.errstate(over="ignore", under="ignore"):
        data, b = np.ldexp(rows.A.data, -exponent[owner]), np.ldexp(rows.b, -exponent)
        same = np.ldexp(b, exponent) == rows.b
        same[owner[np.ldexp(data, exponent[owner]) != rows.A.data]] = False
    data = np.where(same[owner], data, rows.A.data)
    A = sp.csr_array((data, rows.A.indices, rows.A.indptr), shape=rows.A.shape)
    return LinearRows(A, np.where(same, b, rows.b))


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
        If it is empty, or flat in directions other than single frozen inputs.
    """

    def __init__(
        self,
        A: object,  # the usual name of the matrix
        b: npt.ArrayLike,
        lower: npt.ArrayLike = -np.inf,
        upper: npt.ArrayLike = np.inf,
    ) -> None:
        self._rows = usual_rows(_read_rows(A, b))
        d = self._rows.A.shape[1]
        outer = Box(lower, upper, d)
        self._lp = LinearProgram(outer.lower, outer.upper, self._rows.A, self._rows.b)
        if self._lp.maximise(np.zeros(d)).point is None:
            if interior_of(self._rows, outer.lower, outer.upper).weights is not None:
                raise DomainError(
                    "the polytope is empty, or has no interior: no x satisfies A x < b and the "
                    "bounds"
                )
            raise DomainError(
                "no point of the polytope was found: its numbers differ too much in size for "
                "linear programs.  Remedy: scale the inputs"
            )
        self._lp.enclose()
        self.upper = self._tidy(self.support(sp.eye_array(d, format="csr")), outer.upper)
        self.lower = self._tidy(-self.support(-sp.eye_array(d, format="csr")), outer.lower)
        self._freeze(outer)
        if (
            not self.holds_inside(self._middle)
            and interior_of(self._rows, self.lower, self.upper).point is None
        ):
            raise DomainError(
                "the polytope has no interior (its rows imply an equation), so directions in it "
                "are not those of R^d.  Remedy: eliminate the dependent inputs, or fix single "
                "inputs by equal lower and upper bounds"
            )

    def _freeze(self, outer: Box) -> None:
        """Set equal bounds for frozen inputs, and distinct ones for the others.

        An input is frozen if its given bounds, and rows in this input alone, allow exactly one
        number.  Bounds that are equal only by rounding are moved apart.

        Raises
        ------
        DomainError
            If they allow none.
        """
        low = [exact(v) if np.isfinite(v) else None for v in outer.lower.tolist()]
        high = [exact(v) if np.isfinite(v) else None for v in outer.upper.tolist()]
        A, b = self._rows.A, self._rows.b
        for k in np.flatnonzero(np.diff(A.indptr) == 1).tolist():
            j, a = int(A.indices[A.indptr[k]]), float(A.data[A.indptr[k]])
            if a == 0:
                continue
            end = exact(float(b[k])) / exact(a)
            if a > 0:
                high[j] = end if high[j] is None else min(high[j], end)
            else:
                low[j] = end if low[j] is None else max(low[j], end)
        for j, (least, most) in enumerate(zip(low, high, strict=True)):
            if least is not None and least == most and exact(approximate(least)) == least:
                self.lower[j] = self.upper[j] = approximate(least)
            elif least is not None and most is not None and least > most:
                raise DomainError("the polytope is empty: no x satisfies A x <= b and the bounds")
            elif self.upper[j] <= self.lower[j]:
                ends = sorted((self.lower[j], self.upper[j]))
                self.lower[j] = max(np.nextafter(ends[0], -np.inf), outer.lower[j])
                self.upper[j] = min(np.nextafter(ends[1], np.inf), outer.upper[j])

    def __reduce__(self) -> tuple[type[Polytope], tuple[object, ...]]:
        """Pickle the rows and the box, without the solver's state."""
        return Polytope, (self._rows.A, self._rows.b, self.lower, self.upper)

    @staticmethod
    def _tidy(found: FloatArray, given: FloatArray) -> FloatArray:
        """Prefer a given bound to a computed one that only differs by solver tolerance."""
        both = np.isfinite(given) & np.isfinite(found)
        known = np.where(both, given, 0.0)
        close = np.abs(np.where(both, found, 0.0) - known) <= 1e-7 * (1.0 + np.abs(known))
        return np.where(both & close, given, found)

    @property
    def rows(self) -> LinearRows:
        """The rows ``A x <= b``."""
        return self._rows

    @cached_property
    def _middle(self) -> FloatArray:
        """A point well inside: the centre of an inscribed ball, with the box scaled to a cube.

        Frozen inputs are excluded.  Whether the point is inside must be checked exactly.
        """
        move = ~self.frozen
        if not move.any():
            return self.upper.copy()
        low, high = self.lower[move], self.upper[move]
        up, down = np.isfinite(high), np.isfinite(low)
        both = up & down
        wide = np.where(both, high, 0.0) - np.where(both, low, 0.0)
        size = np.where(both, 0.5 * wide, 1.0)
        shift = np.where(both, np.where(both, low, 0.0) + size, np.where(up, high, 0.0))
        shift = np.where(down & ~up, low, shift)
        fixed = self.upper.copy()
        fixed[move] = shift
        matrix = sp.csr_array(self._rows.A[:, np.flatnonzero(move)] @ sp.diags_array(size))
        lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).reshape(-1))
        used = np.flatnonzero(lengths > 0)
        right = (self._rows.b - self._rows.A @ fixed)[used] / lengths[used]
        matrix = sp.csr_array(sp.diags_array(1.0 / lengths[used]) @ matrix[used])
        eye = sp.eye_array(low.size, format="csr")
        body = sp.vstack([matrix, eye[np.flatnonzero(up)], -eye[np.flatnonzero(down)]])
        ends = (np.where(both, 1.0, 0.0)[up], np.where(both, 1.0, 0.0)[down])
        limits = np.concatenate([right, *ends])
        program = LinearProgram(
            np.append(np.full(low.size, -np.inf), 0.0),
            np.append(np.full(low.size, np.inf), 1.0),
            sp.csr_array(sp.hstack([body, np.ones((body.shape[0], 1))])),
            limits,
        )
        found = program.maximise(np.append(np.zeros(low.size), 1.0))
        center = self.upper.copy()
        if found.point is not None:
            center[move] = shift + size * found.point[: low.size]
        return center

    @property
    def center(self) -> FloatArray:
        """A point well inside, shape (d,)."""
        return self._middle.copy()

    def support(self, directions: Matrix) -> FloatArray:
        """Return the maxima by LP, made safe by dual bounds, shape (k,)."""
        return np.array([self._lp.maximise(row).bound for row in dense(directions)])

    def sample(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Draw points by hit-and-run from the middle, several walks in parallel, (count, d)."""
        move, d = ~self.frozen, self.dimension
        x = np.repeat(self._middle[None], min(WALKS, count), axis=0)
        found: list[FloatArray] = []
        for _ in range(-(-count // WALKS)):
            for _ in range(max(1, min(10, d))):
                v = np.where(move, rng.standard_normal(x.shape), 0.0)
                x = x + rng.uniform(*self._chords(x, v))[:, None] * v
            found.append(x)
        return np.concatenate([*found, x[:0]])[:count]

    def _chords(self, x: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return intervals of t with ``x + t v`` inside, cut at +-100, for x and v (N, d)."""
        A, b = self._rows.A, self._rows.b
        gaps = np.concatenate([b - (A @ x.T).T, self.upper - x, x - self.lower], axis=1)
        rates = np.concatenate([(A @ v.T).T, v, -v], axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.maximum(gaps, 0.0) / rates
        high = np.where(rates > 0, ends, 100.0).min(axis=1)
        low = np.where(rates < 0, ends, -100.0).max(axis=1)
        return 0.999 * np.clip(low, -100.0, 0.0), 0.999 * np.clip(high, 0.0, 100.0)

    def restrict(self, keep: BoolArray) -> Polytope:
        """Return the polytope in the kept inputs, the (frozen) others at their values."""
        held = np.where(keep, 0.0, self.upper)
        right = self._rows.b - self._rows.A @ held
        if not (
            product_is_exact(self._rows.A, held[:, None])
            and sum_is_exact(self._rows.b, -(self._rows.A @ held))
        ):  # round outwards
            sizes = abs(self._rows.A) @ np.abs(held) + np.abs(self._rows.b)
            right = right + gamma(held.size) * sizes
        matrix = self._rows.A[:, np.flatnonzero(keep)]
        return Polytope(matrix, right, self.lower[keep], self.upper[keep])

    def clipped(self, lower: FloatArray, upper: FloatArray) -> Polytope:
        """Return the intersection with a box."""
        box = np.maximum(self.lower, lower), np.minimum(self.upper, upper)
        return Polytope(self._rows.A, self._rows.b, *box)

    def describe(self) -> str:
        """Return one line for summaries."""
        return f"polytope with {self._rows.count} rows in R^{self.dimension}"


def beside(domain: Domain, lower: FloatArray, upper: FloatArray) -> Domain:
    """Return the domain of (x, e) with x in `domain` and ``lower <= e <= upper``, shape (k,).

    Raises
    ------
    DomainError
        If the domain is round.
    """
    low, high = np.append(domain.lower, lower), np.append(domain.upper, upper)
    if domain.is_box:
        return Box(low, high)
    if not domain.is_polyhedral:
        raise DomainError(
            f"the domain is round ({domain.describe()}), and errors of rounding are further inputs "
            "beside it.  Remedy: a box, or a ball of the linf norm"
        )
    rows = domain.rows
    none = sp.csr_array((rows.count, lower.size))
    return Polytope(sp.hstack([rows.A, none], format="csr"), rows.b, low, high)
