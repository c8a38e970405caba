"""Small linear programs solved by HiGHS with warm starts and safe upper bounds.

The upper bound of a maximum is recomputed from the row duals: for any ``y >= 0`` (``<=`` rows),

    max c.x  <=  y.b + sum_j max over [l_j, u_j] of (c - A^T y)_j x_j,

which holds regardless of the solver's errors (Neumaier and Shcherbina, 2004).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray, Matrix


def silent_highs() -> Any:
    """Return a new ``highspy.Highs`` with ``output_flag`` off, which prints nothing.

    Setting the option afterwards is too late: from version 1.16 on, HiGHS prints its header as soon
    as its callbacks are registered, which the constructor does.
    """
    highs = _silent_class()()
    highs.setOptionValue("output_flag", False)
    return highs


@cache
def _silent_class() -> Any:
    import highspy

    class SilentHighs(highspy.Highs):
        """HiGHS with output switched off before its callbacks are registered."""

        def enableCallbacks(self) -> None:
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()

    return SilentHighs


class LPOutcome(NamedTuple):
    """The result of maximising one objective.

    Attributes
    ----------
    bound : float
        A safe upper bound of the maximum; ``inf`` if the solver finds no optimum, even if it claims
        infeasibility, which is not proved.
    value : float
        The objective at `point` (``-inf`` without one).
    point : ndarray or None
        The solver's solution, feasible to its tolerance.
    """

    bound: float
    value: float
    point: FloatArray | None


IndexArray = npt.NDArray[np.int32]


class LinearProgram:
    """``A x <= b, lower <= x <= upper``, solved for many objectives with warm starts.

    Parameters
    ----------
    lower, upper : ndarray, shape (n,)
        Entries may be infinite.
    A : ndarray or sparse array, shape (r, n)
    b : ndarray, shape (r,)
    tolerance : float, optional
        Primal and dual feasibility tolerance; that of HiGHS by default.

    Attributes
    ----------
    duals : ndarray, shape (r,)
        Row duals of the last optimal solve, clipped to nonnegative values.
    """

    def __init__(
        self,
        lower: FloatArray,
        upper: FloatArray,
        A: Matrix,
        b: FloatArray,
        tolerance: float | None = None,
    ) -> None:
        import highspy

        self._highspy = highspy
        self._solver = silent_highs()
        self._solver.setOptionValue("presolve", "off")  # presolve would throw the basis away
        self._solver.setOptionValue("threads", 1)
        if tolerance is not None:
            self._solver.setOptionValue("primal_feasibility_tolerance", tolerance)
            self._solver.setOptionValue("dual_feasibility_tolerance", tolerance)
        self.load(lower, upper, A, b)

    def load(self, lower: FloatArray, upper: FloatArray, A: Matrix, b: FloatArray) -> None:
        """Replace variables and rows, which is cheaper than a new program.

        If HiGHS rejects the numbers, the program has no optimum.
        """
        highspy = self._highspy
        self._lower = np.array(lower, dtype=np.float64)
        self._upper = np.array(upper, dtype=np.float64)
        self._A = A if isinstance(A, np.ndarray) else sp.csr_array(A)
        self._b = np.asarray(b, dtype=np.float64)
        n, r = self._lower.size, self._b.size
        starts, columns, values = _by_rows(self._A)
        self.duals: FloatArray = np.zeros(r)
        status = self._solver.passModel(
            n,
            r,
            values.size,
            int(highspy.MatrixFormat.kRowwise),
            int(highspy.ObjSense.kMaximize),
            0.0,
            np.zeros(n),
            self._lower,
            self._upper,
            np.full(r, -np.inf),
            self._b,
            starts,
            columns,
            values,
            np.zeros(n, dtype=np.int32),
        )
        self._loaded = status != highspy.HighsStatus.kError

    def set_bounds(self, index: int, lower: float, upper: float) -> None:
        """Change the bounds of one variable."""
        self._lower[index], self._upper[index] = lower, upper
        self._solver.changeColBounds(index, lower, upper)

    def maximise(self, objective: FloatArray) -> LPOutcome:
        """Maximise ``objective . x``.

        Parameters
        ----------
        objective : ndarray, shape (n,)

        Returns
        -------
        LPOutcome
        """
        c = np.asarray(objective, dtype=np.float64)
        found = self.optimum(c)
        if found is None:
            return LPOutcome(np.inf, -np.inf, None)
        end, loose, _ = self._dual_bound(c, self.duals)
        return LPOutcome(np.inf if loose > 0 else end, *found)

    def optimum(
        self, objective: FloatArray, time_limit: float = math.inf
    ) -> tuple[float, FloatArray] | None:
        """Return the solver's maximum of ``objective . x`` and its solution, and set `duals`.

        None if the solver finds no optimum, within a time limit in seconds.
        """
        if not self._loaded:
            return None
        statuses = self._highspy.HighsModelStatus
        known = statuses.kOptimal, statuses.kInfeasible, statuses.kUnbounded, statuses.kTimeLimit
        clock = self._solver.getRunTime()  # of all runs
        self._solver.setOptionValue("time_limit", clock + max(time_limit, 0.0))
        columns = np.arange(objective.size, dtype=np.int32)
        self._solver.changeColsCost(objective.size, columns, objective)
        self._run()
        if self._solver.getModelStatus() not in known:
            self._solver.clearSolver()
            self._run()
        if self._solver.getModelStatus() != statuses.kOptimal:
            return None
        solution = self._solver.getSolution()
        point = np.array(solution.col_value)
        self.duals = np.maximum(np.array(solution.row_dual), 0.0)
        return float(objective @ point), point

    def bound(self, objective: FloatArray, time_limit: float = math.inf) -> float:
        """Return a safe upper bound of the maximum of ``objective . x``, even at the time limit.

        Uses an interior-point method, for large programs with a single objective.

        Parameters
        ----------
        objective : ndarray, shape (n,)
        time_limit : float, optional
            Seconds; with bounded variables, the bound is finite whatever is known by then.
        """
        solver, c = self._solver, np.asarray(objective, dtype=np.float64)
        duals: FloatArray = np.zeros(self._b.size)
        if self._loaded:
            solver.setOptionValue("presolve", "choose")
            solver.setOptionValue("solver", "ipm")
            solver.setOptionValue("run_crossover", "off")
            if math.isfinite(time_limit):
                solver.setOptionValue("time_limit", max(time_limit, 0.1))
            solver.changeColsCost(c.size, np.arange(c.size, dtype=np.int32), c)
            self._run()
            found = np.array(solver.getSolution().row_dual)
            duals = found if found.size == duals.size else duals
        # any y >= 0 proves a bound; the sign of HiGHS's duals depends on the algorithm
        proofs = (self._dual_bound(c, np.maximum(sign * duals, 0.0)) for sign in (1.0, -1.0))
        return min(np.inf if loose > 0 else end for end, loose, _ in proofs)

    def enclose(self) -> None:
        """Compute bounds of the unbounded variables that the rows imply, from dual values.

        With ``c = +-e_j`` every feasible x has ``c . x <= end + r |x|`` over the unbounded
        variables, where r is the residual of their reduced costs, including rounding.  If r is
        below one for all j, all variables are bounded although r is not zero.
        """
        free = np.flatnonzero(~(np.isfinite(self._lower) & np.isfinite(self._upper)))
        if not free.size or not self._b.size:
            return
        eye = np.eye(self._lower.size)
        ends, residuals = np.zeros((2, free.size)), np.zeros((2, free.size))
        for i, j in enumerate(free.tolist()):
            for side, sign in enumerate((1.0, -1.0)):
                if self.maximise(sign * eye[j]).point is None:
                    return
                ends[side, i], loose, noise = self._dual_bound(sign * eye[j], self.duals)
                residuals[side, i] = loose + noise
        if residuals.max() > 0.5:
            return
        most = 2.0 * max(float(ends.max()), 0.0)  # of |x_j| over the free variables
        ends += residuals * most
        ends += 2.0**-50 * np.abs(ends).sum(axis=0) + 2.0**-1000
        for j, up, down in zip(free.tolist(), *ends.tolist(), strict=True):
            self.set_bounds(j, max(-down, self._lower[j]), min(up, self._upper[j]))

    def _run(self) -> None:
        """Run HiGHS; on an error, retry with the number of threads that its scheduler has.

        HiGHS has one scheduler per Python thread, which other code may have started already, and
        raises an error if another number of threads is requested.
        """
        if self._solver.run() == self._highspy.HighsStatus.kError:
            self._solver.setOptionValue("threads", 0)
            self._solver.run()

    def _dual_bound(self, c: FloatArray, y: FloatArray) -> tuple[float, float, float]:
        return weak_duality(c, self._A, self._b, self._lower, self._upper, y)


def weak_duality(
    c: FloatArray, A: Matrix, b: FloatArray, lower: FloatArray, upper: FloatArray, y: FloatArray
) -> tuple[float, float, float]:
    """Return ``end``, ``loose``, ``noise``: ``c . x <= end + (loose + noise) |x|`` for feasible x.

    The norm is linf over the variables that are unbounded on a side: `loose` is the sum of the
    absolute reduced costs that point there, `noise` bounds the rounding of the reduced costs.

    Parameters
    ----------
    c : ndarray, shape (n,)
    A, b : matrix (r, n) and ndarray (r,)
        Rows ``A x <= b``.
    lower, upper : ndarray, shape (n,)
        May be infinite.
    y : ndarray, shape (r,)
        Any nonnegative row duals.
    """
    reduced = c - A.T @ y
    side = np.where(reduced > 0, upper, lower)
    open_ = ~np.isfinite(side)
    given = np.where(open_ | (reduced == 0), 0.0, side)
    reach = np.maximum(np.abs(lower), np.abs(upper))
    half = ~np.isfinite(reach)
    reach = np.where(half, np.abs(given), reach)
    error = 2.0**-52 * (c.size + y.size + 8) * (np.abs(c) + abs(A).T @ y)
    end = float(y @ b + reduced @ given)
    size = float(y @ np.abs(b) + np.abs(reduced) @ np.abs(given))
    end += 2.0**-52 * (c.size + y.size + 8) * size + float(error @ reach)
    return end, float(np.abs(reduced[open_]).sum()), float(error[half].sum())


def _by_rows(A: Matrix) -> tuple[IndexArray, IndexArray, FloatArray]:
    """Return row starts, column indices and values of the nonzeros."""
    if not isinstance(A, np.ndarray):
        return A.indptr, A.indices, A.data
    entries = A != 0.0
    starts = np.zeros(len(A) + 1, dtype=np.int32)
    np.cumsum(np.count_nonzero(entries, axis=1), out=starts[1:])
    place = np.flatnonzero(entries)
    return starts, (place % A.shape[1]).astype(np.int32), A.ravel()[place]
