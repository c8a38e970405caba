"""Brute force: every full-dimensional activation region, and the constant as their maximum.

Nothing here uses the library's own bounds, programs or norms: regions are found by depth-first
search with linear programs in HiGHS, norms by listing vertices.  For up to about 12 units.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

import highspy
import numpy as np
from scipy.optimize import nnls

from lipyomo.base.arrays import FloatArray, Pattern
from lipyomo.base.numerics.lp import silent_highs
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Domain
from lipyomo.problems.norms import CrossOutput, L1Output, L2Output, LinfOutput, OutputNorm
from lipyomo.problems.problem import LipschitzProblem

THIN = 1e-7
"""Regions with a smaller margin are taken for empty."""

CLEAR = 1e-5
"""Points with a larger margin are inside, whatever the tolerance of the solver that found them."""

Inside = tuple[FloatArray, float]
"""A point and its margin."""


@cache
def _solver() -> highspy.Highs:
    """What `scipy.optimize.linprog` calls, less the milliseconds that it adds to each program."""
    solver: highspy.Highs = silent_highs()
    solver.setOptionValue("threads", 1)
    return solver


def _largest_last(
    A: FloatArray, b: FloatArray, low: FloatArray, high: FloatArray
) -> FloatArray | None:
    """A point of ``A v <= b, low <= v <= high`` with the largest last entry, if HiGHS has one."""
    r, n = A.shape
    solver = _solver()
    solver.passModel(
        *(n, r, A.size, int(highspy.MatrixFormat.kRowwise), int(highspy.ObjSense.kMaximize), 0.0),
        *(np.eye(n)[-1], low, high, np.full(r, -np.inf), b),
        *(np.arange(r, dtype=np.int32) * n, np.tile(np.arange(n, dtype=np.int32), r), A.ravel()),
        np.zeros(n, dtype=np.int32),
    )
    if solver.run() == highspy.HighsStatus.kError:  # somebody else has more threads in the pool
        solver.setOptionValue("threads", 0)
        assert solver.run() != highspy.HighsStatus.kError
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return np.array(solver.getSolution().col_value)


class _Body:
    """Rows ``a . x <= b`` of a domain in the inputs that move, with a margin variable."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.moving = ~domain.frozen
        d = domain.dimension
        rows, right = [], []
        for j in np.flatnonzero(self.moving):
            for sign, side in ((1.0, domain.upper[j]), (-1.0, -domain.lower[j])):
                if np.isfinite(side):
                    rows.append(sign * np.eye(d)[j])
                    right.append(side)
        faces = domain.rows
        rows.extend(faces.A.toarray())
        right.extend(faces.b)
        ball = domain.ball
        if ball is not None and ball.norm == "l1":
            for signs in product((-1.0, 1.0), repeat=d):
                rows.append(np.array(signs))
                right.append(float(np.dot(signs, ball.point)) + ball.radius)
        self.A = np.array(rows).reshape(-1, d)
        self.b = np.array(right)

    def well_inside(self, A: FloatArray, b: FloatArray, known: Inside) -> Inside:
        """The known point of the other rows if it is inside of the last one too, or the deepest."""
        x, margin = known
        margin = min(margin, float((b[-1] - A[-1] @ x) / np.abs(A[-1]).sum()))
        round_ = self.domain.ball is not None and self.domain.ball.norm == "l2"
        return (x, margin) if margin > CLEAR and not round_ else self.deepest(A, b)

    def deepest(self, A: FloatArray, b: FloatArray) -> Inside:
        """The point with the largest margin to the domain and the rows ``A x <= b``."""
        d = self.domain.dimension
        rows = np.vstack([self.A, A.reshape(-1, d)])
        right = np.concatenate([self.b, b])
        size = np.abs(rows[:, self.moving]).sum(axis=1)
        low = np.append(np.where(self.moving, -np.inf, self.domain.upper), -1e3)
        high = np.append(np.where(self.moving, np.inf, self.domain.upper), 1.0)
        found = _largest_last(np.hstack([rows, size[:, None]]), right, low, high)
        if found is None:
            return np.zeros(d), -np.inf
        x, margin = found[:d], float(found[d])
        ball = self.domain.ball
        if ball is not None and ball.norm == "l2" and margin > THIN:
            nearest = _project(ball.point, rows, right)
            room = ball.radius - float(np.linalg.norm(nearest - ball.point))
            if room <= THIN:
                return x, -1.0
        return x, margin


def _project(point: FloatArray, A: FloatArray, b: FloatArray) -> FloatArray:
    """Nearest point of ``A x <= b`` (least distance programming, Lawson and Hanson)."""
    h = A @ point - b
    if (h <= 0).all():
        return point
    E = np.vstack([-A.T, h])
    target = np.append(np.zeros(point.size), 1.0)
    y, _ = nnls(E, target, maxiter=10_000)
    r = E @ y - target
    return point - r[:-1] / r[-1]


def _regions(network: Network, domain: Domain) -> Iterator[tuple[Pattern, FloatArray]]:
    body = _Body(domain)
    d = network.input_dim
    fixed = np.where(body.moving, 0.0, domain.upper)

    def search(
        position: int,
        pattern: list[np.ndarray],
        gain: FloatArray,
        offset: FloatArray,
        A: FloatArray,
        b: FloatArray,
        known: Inside,
    ) -> Iterator[tuple[Pattern, FloatArray]]:
        if position == len(network.hidden):
            x, margin = body.deepest(A, b)
            if margin > THIN:
                yield tuple(pattern), x
            return
        layer = network.hidden[position]
        G, g = layer.dense_weight @ gain, layer.dense_weight @ offset + layer.bias
        for on, *rest in assign(layer.kinked, G, g, A, b, known):
            slope = np.where(on, layer.right, layer.left)
            yield from search(position + 1, [*pattern, on], slope[:, None] * G, slope * g, *rest)

    def assign(
        kinked: np.ndarray,
        G: FloatArray,
        g: FloatArray,
        A: FloatArray,
        b: FloatArray,
        known: Inside,
    ) -> Iterator[tuple[np.ndarray, FloatArray, FloatArray, Inside]]:
        states = [(np.ones(len(g), dtype=bool), A, b, known)]
        for j in range(len(g)):
            grown = []
            move = G[j] * body.moving
            constant = g[j] + G[j] @ fixed
            for on, rows, right, point in states:
                if not kinked[j]:
                    grown.append((on, rows, right, point))
                    continue
                if np.abs(move).sum() <= 1e-12:
                    choice = on.copy()
                    choice[j] = constant >= -1e-12
                    grown.append((choice, rows, right, point))
                    continue
                for side in (True, False):
                    sign = -1.0 if side else 1.0
                    choice = on.copy()
                    choice[j] = side
                    new_rows = np.vstack([rows, sign * move])
                    new_right = np.append(right, -sign * constant)
                    found = body.well_inside(new_rows, new_right, point)
                    if found[1] > THIN:
                        grown.append((choice, new_rows, new_right, found))
            states = grown
        yield from states

    nowhere = np.zeros(d), -np.inf
    yield from search(0, [], np.eye(d), np.zeros(d), np.zeros((0, d)), np.zeros(0), nowhere)


_KNOWN: dict[str, list[tuple[Pattern, FloatArray]]] = {}


def regions(network: Network, domain: Domain) -> list[tuple[Pattern, FloatArray]]:
    """All patterns whose region has an interior in the domain, with a point of each.

    They are remembered, as they do not depend on norms.
    """
    rows, ball = domain.rows, domain.ball
    parts = [domain.lower, domain.upper, rows.A.toarray(), rows.b]
    if ball is not None:
        parts += [ball.point, np.array(ball.radius)]
    for layer in network.layers:
        parts += [layer.dense_weight, layer.bias, layer.left, layer.right]
    text = "".join(f"{part.shape}{part.tobytes().hex()}" for part in parts)
    key = f"{text}{None if ball is None else ball.norm}"
    if key not in _KNOWN:
        _KNOWN[key] = list(_regions(network, domain))
    return _KNOWN[key]


def exact_constant(problem: LipschitzProblem) -> float:
    """The Lipschitz constant, as the largest Jacobian norm over all regions."""
    moving = ~problem.domain.frozen
    best = 0.0
    for pattern, _ in regions(problem.network, problem.domain):
        jacobian = problem.network.jacobian(pattern)[:, moving]
        best = max(best, matrix_norm(jacobian, problem.norm, problem.output_norm))
    return best


def matrix_norm(jacobian: FloatArray, input_norm: str, output_norm: OutputNorm) -> float:
    """Operator norm of a small matrix by listing vertices of the input or the dual ball."""
    m, d = jacobian.shape
    if isinstance(output_norm, L2Output) and input_norm == "l2":
        return float(np.linalg.norm(jacobian, 2))
    if input_norm == "l2":
        gradients = _dual_points(output_norm, m) @ jacobian
        return float(np.sqrt((gradients**2).sum(axis=1)).max())
    if input_norm == "l1":
        directions = np.eye(d)
    else:
        directions = np.array(list(product((-1.0, 1.0), repeat=d)))
    outputs = directions @ jacobian.T
    if isinstance(output_norm, L2Output):
        return float(np.sqrt((outputs**2).sum(axis=1)).max())
    return float(np.abs(outputs @ _dual_points(output_norm, m).T).max())


def _dual_points(norm: OutputNorm, m: int) -> FloatArray:
    """Points whose largest |y . z| is the norm of z."""
    eye = np.eye(m)
    if isinstance(norm, L1Output):
        return np.array(list(product((-1.0, 1.0), repeat=m)))
    if isinstance(norm, LinfOutput):
        return eye
    if isinstance(norm, CrossOutput):
        pairs = [eye[i] - eye[j] for i in range(m) for j in range(m) if i != j]
        if norm.label is not None:
            i = norm.label
            return np.array([eye[i], *(eye[i] - eye[j] for j in range(m) if j != i)])
        return np.array([*eye, *pairs])
    points = norm.vertices(m)
    assert points is not None
    return points
