"""The interior of an activation region: its rows, and whether it meets the domain's interior.

A region is given by rows of inequalities, without those that cannot matter.  A unit whose
pre-activation is constant on the region (dead predecessors, cancelling duplicates) has no kink
there.  If the constant is not zero, the pattern must have its sign; if it is zero, either slope
gives the same Jacobian.

The margin of a point is its distance, in the linf norm, to the nearest kink of the region and to
the nearest face of the domain.  Linear programs maximise it; for a Euclidean ball, the nearest
point of the region to the centre is computed as well.  A pattern counts for the Lipschitz constant
if and only if its largest margin is positive.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.base.arrays import BoolArray, FloatArray, Matrix, Pattern, dense
from lipyomo.base.errors import DomainError
from lipyomo.base.numerics.lp import LinearProgram
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.networks.network import Network
from lipyomo.primal.regions.euclidean import nearest_point
from lipyomo.primal.regions.params import PARAMS
from lipyomo.problems.affine.signal import FloatSignal, TrackedSignal, carry, decided
from lipyomo.problems.domains import Domain
from lipyomo.problems.domains.base import RoundPart


class Interior(NamedTuple):
    """A point of the interior, a proof that there is none, or neither.

    Attributes
    ----------
    point : ndarray, shape (d,), or None
        A point strictly inside; (2, d) if only the sum of two rows is.
    margin : float
        Roughly how deep it lies: a distance for full patterns, a share of the ranges for nodes.
    support : ndarray of int, or None
        Units, numbered through all layers, whose signs contradict each other in the domain, so that
        the region has no interior.
    """

    point: FloatArray | None = None
    margin: float = 0.0
    support: npt.NDArray[np.intp] | None = None

    @property
    def empty(self) -> bool:
        """Whether the region is proved to have no interior."""
        return self.support is not None


UNKNOWN = Interior()


class RegionRows(NamedTuple):
    """The region of a pattern as ``A x <= b``, every row with l1 norm one.

    Attributes
    ----------
    A : ndarray, shape (r, d)
        The columns of inputs that cannot move are zero.
    b : ndarray, shape (r,)
    owners : ndarray of int, shape (r,)
        The unit of each row, numbered through all layers.
    contradiction : bool
        Whether a unit is constant with the wrong sign, so that the region is empty.
    """

    A: FloatArray
    b: FloatArray
    owners: npt.NDArray[np.intp]
    contradiction: bool


def region_rows(
    network: Network, pattern: Pattern, moving: BoolArray, values: FloatArray
) -> RegionRows:
    """Compute the rows of the region of `pattern`.

    Parameters
    ----------
    network : Network
    pattern : Pattern
    moving : ndarray of bool, shape (d,)
        Which inputs can move.
    values : ndarray, shape (d,)
        The values of the others.
    """
    d = network.input_dim
    start = TrackedSignal.of(FloatSignal.inputs(d, 0, moving, values))
    unit_maps = decided(network.hidden, pattern)
    contradiction, first = False, 0
    blocks: list[FloatArray] = [np.zeros((0, d))]
    sides: list[FloatArray] = [np.zeros(0)]
    owners = [np.zeros(0, dtype=np.intp)]
    for layer, on, z in zip(
        network.hidden, pattern, carry(start, network.hidden, unit_maps), strict=True
    ):
        maps, sizes = np.asarray(z.values.matrix), z.relative * np.asarray(z.sizes.matrix)
        rows, constant = maps[:, :-1], maps[:, -1]
        length = np.abs(rows).sum(axis=1)
        flat = length <= sizes[:, :-1].sum(axis=1)
        wrong = flat & (np.abs(constant) > sizes[:, -1]) & layer.kinked & ((constant > 0) != on)
        contradiction |= bool(wrong.any())
        keep = layer.kinked & ~flat
        scale = np.where(on, -1.0, 1.0)[keep] / length[keep]
        blocks.append(scale[:, None] * rows[keep])
        sides.append(-scale * constant[keep])
        owners.append(first + np.flatnonzero(keep))
        first += layer.units
    found = np.vstack(blocks), np.concatenate(sides), np.concatenate(owners)
    return RegionRows(*found, contradiction)


class InteriorPoint(NamedTuple):
    """A point of a region with its margin.

    Attributes
    ----------
    x : ndarray, shape (d,)
    margin : float
        The margin of `x`, recomputed; at most zero if `x` is not interior, ``-inf`` if the pattern
        contradicts itself.
    ceiling : float
        No point of the region has a larger margin (from LP duals, not from the solver's optimum);
        infinite if margins are unbounded.
    """

    x: FloatArray
    margin: float
    ceiling: float

    def better(self, x: FloatArray, margin: float) -> InteriorPoint:
        """Keep the point with the larger margin."""
        return self._replace(x=x, margin=margin) if margin > self.margin else self


class Deepest(NamedTuple):
    """The results about a region in floating point.

    Attributes
    ----------
    point : InteriorPoint
    rows : RegionRows
    guesses : list of ndarray, shape (r + faces,)
        Weights of the rows and of the domain's rows, by which they may contradict each other.
    """

    point: InteriorPoint
    rows: RegionRows
    guesses: list[FloatArray]


@with_one_blas_thread
def interior_point(network: Network, domain: Domain, pattern: Pattern) -> InteriorPoint:
    """Find a point of the region of `pattern` with the largest margin, and bound all margins.

    Parameters
    ----------
    network : Network
    domain : Domain
        Inputs that cannot move are left out of the margin.
    pattern : Pattern
        A full pattern.

    Returns
    -------
    InteriorPoint
        Its margin, in the linf norm, is zero or negative if the region has no interior in the
        domain.  With many inputs it is the largest up to a few percent; for Euclidean balls it is
        only positive if possible.
    """
    network.check_pattern(pattern)
    if domain.dimension != network.input_dim:
        raise DomainError(
            f"the domain has {domain.dimension} inputs, the network takes {network.input_dim}"
        )
    return deepest(network, domain, pattern).point


def deepest(network: Network, domain: Domain, pattern: Pattern) -> Deepest:
    """Do the same as `interior_point`; also return weights that may prove emptiness."""
    moving = ~domain.frozen
    rows = region_rows(network, pattern, moving, np.where(moving, 0.0, domain.upper))
    if rows.contradiction:
        return Deepest(InteriorPoint(domain.center, -np.inf, -np.inf), rows, [])
    body = _Margins(rows, domain)
    best = InteriorPoint(domain.center, margin_of(rows, domain, domain.center), np.inf)
    best = body.moved_faces(best) if domain.dimension > PARAMS.wide else body.written_faces(best)
    if domain.ball is not None and domain.ball.norm == "l2":
        best = body.towards_center(best, domain.ball)
    return Deepest(best, rows, body.guesses)


def margin_of(rows: RegionRows, domain: Domain, x: FloatArray) -> float:
    """Return the distance of `x` to the rows and faces of the domain (in inputs that can move)."""
    return min(float((rows.b - rows.A @ x).min(initial=np.inf)), domain.margin(x))


def margin_from_below(network: Network, domain: Domain, pattern: Pattern, x: FloatArray) -> float:
    """Bound the margin of `x` from below without the rows of all units.

    The l1 norms of the units' gradients are bounded by products of absolute weights.
    """
    signal, sizes = x, (~domain.frozen).astype(np.float64)
    found = [domain.margin(x)]
    for layer, on in zip(network.hidden, pattern, strict=True):
        z, sizes = layer.preactivation(signal), np.asarray(layer.sizes @ sizes)
        moves = layer.kinked & (sizes > 0)
        found.append(float((np.abs(z[moves]) / sizes[moves]).min(initial=np.inf)))
        slope = layer.slopes(on)
        signal, sizes = slope * z, np.abs(slope) * sizes
    return min(found) * (1.0 - PARAMS.rounding)


class _Margins:
    """Region and domain in the variables (y, t): ``normal . y + |normal|_1 t <= right``.

    The inputs are ``x = shift + scale y``, since solvers have absolute tolerances, and a domain may
    have a width of a millionth or be far from the origin.
    """

    def __init__(self, rows: RegionRows, domain: Domain) -> None:
        self.rows, self.domain = rows, domain
        self.guesses: list[FloatArray] = []
        self.moving: BoolArray = ~domain.frozen
        width = np.where(self.moving, domain.upper - domain.lower, 0.0)
        bounded = width[np.isfinite(width)]
        self.scale = float(bounded.max(initial=0.0)) or 1.0
        self.shift = domain.center
        self.lower = (domain.lower - self.shift) / self.scale
        self.upper = (domain.upper - self.shift) / self.scale
        narrow = float(np.where(self.moving, width, np.inf).min(initial=np.inf))
        self.capped = not np.isfinite(narrow)  # margins may be unbounded: one is enough
        self.cap = 1.0 / self.scale if self.capped else 0.5 * narrow / self.scale
        faces = domain.rows
        self.normals: Matrix
        if domain.dimension <= PARAMS.wide:  # sparse arrays would take longer than the program
            self.normals = np.vstack([rows.A, faces.A.toarray()])
        else:
            self.normals = sp.csr_array(sp.vstack([sp.csr_array(rows.A), faces.A]))
        lengths = domain.row_lengths
        self.column = np.concatenate([np.ones(len(rows.b)), lengths])
        right = np.concatenate([rows.b, faces.b])
        self.right = (right - self.normals @ self.shift) / self.scale

    def written_faces(self, best: InteriorPoint) -> InteriorPoint:
        """Solve one linear program, with two rows for each input."""
        eye = np.eye(self.domain.dimension)
        high = np.flatnonzero(np.isfinite(self.upper) & self.moving)
        low = np.flatnonzero(np.isfinite(self.lower) & self.moving)
        normals = np.vstack([dense(self.normals), eye[high], -eye[low]])
        column = np.concatenate([self.column, np.ones(high.size + low.size)])
        right = np.concatenate([self.right, self.upper[high], -self.lower[low]])
        program, objective = self._program(normals, column, right)
        return self._solved(program, objective, best, 0.0)[0]

    def moved_faces(self, best: InteriorPoint) -> InteriorPoint:
        """Solve linear programs with the box shrunk by tau on all sides.

        The largest margin phi(tau) to the other rows decreases with tau and is concave.  The margin
        in question solves phi(tau) = tau, and a chord of phi crosses the diagonal below it.
        """
        program, objective = self._program(self.normals, self.column, self.right)
        points: list[tuple[float, float]] = []
        tau = 0.0
        for _ in range(PARAMS.secants):
            self._shrink(program, tau)
            best, value = self._solved(program, objective, best, tau)
            points.append((tau, value))
            if value <= tau * 1.05 or best.margin >= 0.9 * best.ceiling:
                break
            tau = value if len(points) == 1 else _crossing(points[0], points[-1])
            tau = min(tau, 0.999 * self.cap)
        (first, _), (last, value) = points[0], points[-1]
        if last > first and value < last and best.margin < 0.9 * best.ceiling:
            tau = min(max(_crossing(points[0], points[-1]), 0.0), 0.999 * self.cap)
            self._shrink(program, tau)
            best, _ = self._solved(program, objective, best, tau)
        return best

    def towards_center(self, best: InteriorPoint, ball: RoundPart) -> InteriorPoint:
        """Find points of the region near the centre of a Euclidean ball, for decreasing margins.

        The region reduced by a margin may miss the ball even if the region itself does not.  A
        distance above the radius for a margin of zero proves that the intersection is empty.
        """
        if best.ceiling <= 0 or best.margin >= 0.5 * best.ceiling:
            return best
        A = dense(self.normals)
        point, radius = (ball.point - self.shift) / self.scale, ball.radius / self.scale
        zero = nearest_point(A, self.right, self.lower, self.upper, point)
        self.guesses.append(zero.dual)
        if zero.bound > radius * (1.0 + PARAMS.rounding):
            return best._replace(ceiling=0.0)
        dual, tau = zero.dual, 0.7 * min(best.ceiling / self.scale, self.cap)
        for _ in range(PARAMS.tries):
            shrunk = self.right - tau * self.column
            found = nearest_point(A, shrunk, self.lower + tau, self.upper - tau, point, dual)
            best = self._improved(best, found.x)
            if best.margin >= 0.3 * tau * self.scale:
                break
            dual, tau = found.dual, 0.4 * tau
        return best

    def _shrink(self, program: LinearProgram, tau: float) -> None:
        for j in np.flatnonzero(self.moving):
            program.set_bounds(int(j), self.lower[j] + tau, self.upper[j] - tau)

    def _program(
        self, normals: Matrix, column: FloatArray, right: FloatArray
    ) -> tuple[LinearProgram, FloatArray]:
        """Return the linear program in (y, t), and e for an l1 ball; and the objective t."""
        domain, d = self.domain, self.domain.dimension
        A: Matrix
        if isinstance(normals, np.ndarray):
            A = np.hstack([normals, column[:, None]])
        else:
            A = sp.csr_array(sp.hstack([normals, sp.csr_array(column[:, None])]))
        reach = float(right.min(initial=0.0))  # the gap of the centre, which is y = 0
        floor = 2.0 * min(reach, 0.0) / float(column[column > 0].min(initial=1.0)) - self.cap
        lower, upper = np.append(self.lower, floor), np.append(self.upper, self.cap)
        ball = domain.ball
        if ball is not None and ball.norm == "l1":
            point, radius = (ball.point - self.shift) / self.scale, ball.radius / self.scale
            extra, more = _cross_polytope(point, radius, int(self.moving.sum()))
            A = sp.csr_array(A)
            A.resize((A.shape[0], extra.shape[1]))
            A, right = sp.csr_array(sp.vstack([A, extra])), np.concatenate([right, more])
            lower = np.concatenate([lower, np.zeros(d)])
            upper = np.concatenate([upper, np.full(d, radius)])
        objective = np.zeros(lower.size)
        objective[d] = 1.0
        return LinearProgram(lower, upper, A, right), objective

    def _solved(
        self, program: LinearProgram, objective: FloatArray, best: InteriorPoint, tau: float
    ) -> tuple[InteriorPoint, float]:
        """Maximise t; return the better point with its ceiling, and t.

        Margins above tau are at most t.
        """
        outcome = program.maximise(objective)
        self.guesses.append(program.duals[: self.right.size])
        if not self.capped or outcome.bound < self.cap * (1.0 - PARAMS.rounding):
            ceiling = self.scale * max(outcome.bound, tau)
            best = best._replace(ceiling=min(best.ceiling, ceiling))
        if outcome.point is not None:
            best = self._improved(best, outcome.point[: self.domain.dimension])
        return best, outcome.value

    def _improved(self, best: InteriorPoint, y: FloatArray) -> InteriorPoint:
        """Return `best`, or the point y if its margin is larger."""
        x = np.where(self.moving, self.shift + self.scale * y, self.domain.upper)
        return best.better(x, margin_of(self.rows, self.domain, x))


def _crossing(first: tuple[float, float], last: tuple[float, float]) -> float:
    """Return where the chord through two points (tau, phi) meets the diagonal."""
    (t0, f0), (t1, f1) = first, last
    slope = (f1 - f0) / (t1 - t0) if t1 > t0 else 0.0
    return (f0 - slope * t0) / (1.0 - slope)


def _cross_polytope(
    point: FloatArray, radius: float, moving: int
) -> tuple[sp.csr_array, FloatArray]:
    """Return rows of ``|y - point|_1 + moving t <= radius`` in (y, t, e), ``e >= |y - point|``."""
    d = point.size
    eye = sp.eye_array(d, format="csr")
    none = sp.csr_array((d, 1))
    total = sp.csr_array(np.concatenate([np.zeros(d), [moving], np.ones(d)])[None, :])
    rows = sp.vstack([sp.hstack([eye, none, -eye]), sp.hstack([-eye, none, -eye]), total])
    return sp.csr_array(rows), np.concatenate([point, -point, [radius]])
