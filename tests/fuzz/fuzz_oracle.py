"""The Lipschitz constant of a small network in exact arithmetic, by walking all its regions.

Nothing here is shared with the package: a region is the cone over ``{(x, 1)}`` held by its
generators, in rational numbers; a kink cuts it in two by combining generators on either side; a
side has interior exactly if one generator lies strictly on it.  That also serves unbounded
domains, and needs no linear program.  Euclidean balls are decided by the distance of their centre
from the region, over all its faces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, product

import numpy as np
from flint import arb, ctx, fmpq, fmpq_mat

Vector = list[fmpq]

BITS = 300
_MOST_GENERATORS = 24
_TOO_MANY_GENERATORS = 20_000


def exact(value: float) -> fmpq:
    """A float as the rational number that it is."""
    return fmpq(*float(value).as_integer_ratio())


@dataclass(frozen=True)
class PlainLayer:
    """Weights (n, k), biases (n,) and slopes (n,) of a layer, as floats."""

    weight: np.ndarray
    bias: np.ndarray
    left: np.ndarray
    right: np.ndarray


@dataclass(frozen=True)
class PlainDomain:
    """``lower <= x <= upper``, ``A x <= b``, and a ball, any of which may be absent.

    Sides are +-inf where there is none; `ball` is (norm, centre, radius) with norm l1 or l2.
    """

    lower: np.ndarray
    upper: np.ndarray
    A: np.ndarray
    b: np.ndarray
    ball: tuple[str, np.ndarray, float] | None = None


@dataclass
class _Region:
    """A cone over a region: generators (x, s), and the constraints ``a . x + c s >= 0``."""

    generators: list[Vector]
    constraints: list[Vector]

    def values(self, row: Vector) -> list[fmpq]:
        return [
            sum((a * g for a, g in zip(row, gen, strict=True)), fmpq(0)) for gen in self.generators
        ]

    def cut(self, row: Vector) -> _Region:
        """The part where ``row . (x, s) >= 0``."""
        values = self.values(row)
        found = {
            tuple(map(str, g)): g for g, v in zip(self.generators, values, strict=True) if v >= 0
        }
        above = [(g, v) for g, v in zip(self.generators, values, strict=True) if v > 0]
        below = [(g, v) for g, v in zip(self.generators, values, strict=True) if v < 0]
        for (g, v), (h, w) in product(above, below):
            mixed = [v * b - w * a for a, b in zip(g, h, strict=True)]
            size = sum((abs(x) for x in mixed), fmpq(0))
            if size != 0:
                mixed = [x / size for x in mixed]
                found.setdefault(tuple(map(str, mixed)), mixed)
        region = _Region(list(found.values()), [*self.constraints, row])
        if len(region.generators) > _MOST_GENERATORS:
            region._prune()
        if len(region.generators) > _TOO_MANY_GENERATORS:
            raise OverflowError("a cone that is not pointed has too many generators")
        return region

    def _prune(self) -> None:
        """Keep extreme rays, if the cone is pointed."""
        n = len(self.generators[0])
        if fmpq_mat(self.constraints).rank() < n:
            return
        kept = []
        for g in self.generators:
            tight = [c for c in self.constraints if _dot(c, g) == 0]
            if len(tight) >= n - 1 and fmpq_mat(tight).rank() == n - 1:
                kept.append(g)
        self.generators = kept


def _dot(a: Vector, b: Vector) -> fmpq:
    return sum((x * y for x, y in zip(a, b, strict=True)), fmpq(0))


class FlatDomain(ValueError):
    """A domain that should have been refused."""


@dataclass
class Oracle:
    """The exact constant of a network on a domain.

    Parameters
    ----------
    layers : list of PlainLayer
        The last one affine.
    domain : PlainDomain
    input_norm : {'l1', 'l2', 'linf'}
    functionals : list of float vectors or None
        Vertices of the output norm's dual ball; None for the Euclidean norm.
    most : int
        Regions after which it gives up.
    directions : float matrix (d, k) or None
        Whose columns directions are combinations of; those that move a frozen input do not count.
    """

    layers: list[PlainLayer]
    domain: PlainDomain
    input_norm: str
    functionals: list[np.ndarray] | None
    most: int = 4000
    directions: np.ndarray | None = None
    regions: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        lower, upper = self.domain.lower, self.domain.upper
        self.moving = [j for j in range(len(lower)) if lower[j] != upper[j]]
        self.frozen = {j: exact(lower[j]) for j in range(len(lower)) if lower[j] == upper[j]}
        self.d = len(self.moving)
        columns = np.eye(len(lower))[:, self.moving]
        if self.directions is not None:
            columns = self.directions[:, ~self.directions[list(self.frozen)].any(axis=0)]
        self.columns = [[exact(x) for x in column] for column in columns.T.tolist()]

    def constant(self) -> arb:
        """An enclosure of the constant.

        Raises
        ------
        OverflowError
            If there are more regions than `most`.
        FlatDomain
            If the domain has no interior in the inputs that can move.
        """
        ctx.prec = BITS
        whole = self._start()
        if fmpq_mat(whole.generators).rank() <= self.d or not self._inside_ball(whole):
            raise FlatDomain("the domain has no interior")
        best = arb(0)
        for jacobian in self.jacobians():
            value = self.norm(jacobian)
            best = best.max(value)
        return best

    # -- regions -------------------------------------------------------------------------------

    def _row(self, coefficients: list[fmpq], constant: fmpq) -> Vector:
        """``a . x + c >= 0`` in the moving inputs and s."""
        constant = constant + sum((coefficients[j] * v for j, v in self.frozen.items()), fmpq(0))
        return [*(coefficients[j] for j in self.moving), constant]

    def _start(self) -> _Region:
        d, domain = self.d, self.domain
        eye = [[fmpq(int(i == j)) for j in range(d + 1)] for i in range(d + 1)]
        generators = [eye[d]]
        for j in range(d):
            generators += [eye[j], [-x for x in eye[j]]]
        region = _Region(generators, [eye[d]])
        n = len(domain.lower)
        unit = [[fmpq(int(i == j)) for j in range(n)] for i in range(n)]
        for j in self.moving:
            if np.isfinite(domain.lower[j]):
                region = region.cut(self._row(unit[j], -exact(domain.lower[j])))
            if np.isfinite(domain.upper[j]):
                region = region.cut(self._row([-x for x in unit[j]], exact(domain.upper[j])))
        for row, right in zip(domain.A, domain.b, strict=True):
            region = region.cut(self._row([-exact(a) for a in row], exact(right)))
        if domain.ball is not None and domain.ball[0] == "l1":
            _, center, radius = domain.ball
            for signs in product((-1, 1), repeat=self.d):
                full = [fmpq(0)] * n
                for j, sign in zip(self.moving, signs, strict=True):
                    full[j] = fmpq(-sign)
                offset = exact(radius) - sum(
                    (f * exact(c) for f, c in zip(full, center, strict=True)), fmpq(0)
                )
                region = region.cut([*(full[j] for j in self.moving), offset])
        return region

    def _inside_ball(self, region: _Region) -> bool:
        """Whether the region meets the interior of the Euclidean ball, if there is one."""
        if self.domain.ball is None or self.domain.ball[0] != "l2":
            return True
        _, center, radius = self.domain.ball
        c = [exact(center[j]) for j in self.moving]
        limit = exact(radius) ** 2
        limit -= sum(((exact(center[j]) - v) ** 2 for j, v in self.frozen.items()), fmpq(0))
        rows = [r for r in region.constraints if any(x != 0 for x in r[:-1])]
        for size in range(self.d + 1):
            for chosen in combinations(rows, size):
                point = _project(c, list(chosen))
                if point is None:
                    continue
                if all(_dot(r[:-1], point) + r[-1] >= 0 for r in rows):
                    away = sum(((x - y) ** 2 for x, y in zip(point, c, strict=True)), fmpq(0))
                    if away < limit:
                        return True
        return False

    def jacobians(self) -> Iterator[list[Vector]]:
        """Jacobians (rows a output, in the directions) of all regions with interior."""
        for rows, _ in self.pieces():
            yield [[_dot(row[:-1], column) for column in self.columns] for row in rows]

    def least(self, functional: Vector) -> fmpq:
        """The least value of ``c . f`` on a bounded polyhedron: it is attained at a vertex."""
        values = []
        for rows, region in self.pieces():
            mixed = [_dot(functional, list(column)) for column in zip(*rows, strict=True)]
            row = self._row(mixed[:-1], mixed[-1])
            values += [_dot(row, g) / g[-1] for g in region.generators if g[-1] > 0]
        return min(values)

    def pieces(self) -> Iterator[tuple[list[Vector], _Region]]:
        """Outputs as affine functions of all inputs (constants last), region by region."""
        n = len(self.domain.lower)
        signal = [[fmpq(int(i == j)) for j in range(n)] + [fmpq(0)] for i in range(n)]
        start = self._start()
        if self._inside_ball(start):
            yield from self._walk(0, signal, start)

    def _walk(
        self, depth: int, signal: list[Vector], region: _Region
    ) -> Iterator[tuple[list[Vector], _Region]]:
        layer = self.layers[depth]
        z = []
        for weights, bias in zip(layer.weight, layer.bias, strict=True):
            row = [fmpq(0)] * len(signal[0])
            for w, s in zip(weights, signal, strict=True):
                if w != 0:
                    value = exact(w)
                    row = [r + value * x for r, x in zip(row, s, strict=True)]
            row[-1] += exact(bias)
            z.append(row)
        if depth == len(self.layers) - 1:
            self.regions += 1
            if self.regions > self.most:
                raise OverflowError("too many regions")
            yield z, region
            return
        yield from self._units(depth, 0, z, [], region)

    def _units(
        self, depth: int, k: int, z: list[Vector], out: list[Vector], region: _Region
    ) -> Iterator[tuple[list[Vector], _Region]]:
        layer = self.layers[depth]
        if k == len(z):
            yield from self._walk(depth + 1, out, region)
            return
        left, right = exact(layer.left[k]), exact(layer.right[k])
        if left == right:
            yield from self._units(depth, k + 1, z, [*out, [left * x for x in z[k]]], region)
            return
        row = self._row(z[k][:-1], z[k][-1])
        if all(x == 0 for x in row[:-1]):  # constant here: no kink, and zero passes on zero
            slope = right if row[-1] >= 0 else left
            yield from self._units(depth, k + 1, z, [*out, [slope * x for x in z[k]]], region)
            return
        values = region.values(row)
        for side, slope in ((1, right), (-1, left)):
            if not any(side * v > 0 for v in values):
                continue
            part = region
            if any(side * v < 0 for v in values):
                part = region.cut([side * x for x in row])
                if not self._inside_ball(part):
                    continue
            yield from self._units(depth, k + 1, z, [*out, [slope * x for x in z[k]]], part)

    # -- points --------------------------------------------------------------------------------

    def at(self, point: Vector) -> arb | None:
        """The norm at a point of all inputs; None on a kink, or where it is not inside."""
        if not self._holds_inside(point):
            return None
        none = [fmpq(0)] * len(point)
        signal = [[*none[:i], fmpq(1), *none[i + 1 :]] for i in range(len(point))]
        h = point
        for depth, layer in enumerate(self.layers):
            weight = [[exact(w) for w in row] for row in layer.weight.tolist()]
            columns = [list(column) for column in zip(*signal, strict=True)]
            z = [_dot(row, h) + exact(b) for row, b in zip(weight, layer.bias, strict=True)]
            rows = [[_dot(row, column) for column in columns] for row in weight]
            if depth == len(self.layers) - 1:
                return self.norm([[_dot(row, column) for column in self.columns] for row in rows])
            slopes = []
            ends = zip(layer.left.tolist(), layer.right.tolist(), strict=True)
            for value, row, (left, right) in zip(z, rows, ends, strict=True):
                if value == 0 and left != right and any(row[j] != 0 for j in self.moving):
                    return None
                slopes.append(exact(right if value > 0 else left))
            h = [s * value for s, value in zip(slopes, z, strict=True)]
            signal = [[s * x for x in row] for s, row in zip(slopes, rows, strict=True)]
        raise AssertionError("a network has layers")

    def _holds_inside(self, point: Vector) -> bool:
        """Whether a point is inside the domain, in the inputs that can move."""
        domain = self.domain
        for j, value in enumerate(point):
            if j in self.frozen:
                if value != self.frozen[j]:
                    return False
                continue
            low, high = domain.lower[j], domain.upper[j]
            above = not np.isfinite(low) or value > exact(low)
            below = not np.isfinite(high) or value < exact(high)
            if not (above and below):
                return False
        for row, b in zip(domain.A.tolist(), domain.b.tolist(), strict=True):
            moves = any(row[j] for j in self.moving)
            if moves and not _dot([exact(a) for a in row], point) < exact(b):
                return False
        if domain.ball is None:
            return True
        norm, centre, radius = domain.ball
        gaps = [abs(x - exact(c)) for x, c in zip(point, centre.tolist(), strict=True)]
        if norm == "l2":
            return bool(_dot(gaps, gaps) < exact(radius) ** 2)
        return bool(sum(gaps, fmpq(0)) < exact(radius))

    # -- norms ---------------------------------------------------------------------------------

    def norm(self, jacobian: list[Vector]) -> arb:
        """Operator norm of a rational matrix."""
        count = len(self.columns)
        if count == 0:
            return arb(0)
        if self.functionals is not None:
            rows = [
                [_dot([exact(y) for y in c], [r[j] for r in jacobian]) for j in range(count)]
                for c in self.functionals
            ]
            if self.input_norm == "l2":
                return arb(max(_dot(g, g) for g in rows)).sqrt()
            if self.input_norm == "linf":
                return arb(max(sum((abs(x) for x in g), fmpq(0)) for g in rows))
            return arb(max(abs(x) for g in rows for x in g))
        if self.input_norm == "l1":
            columns = list(zip(*jacobian, strict=True))
            return arb(max(_dot(list(c), list(c)) for c in columns)).sqrt()
        if self.input_norm == "linf":
            best = fmpq(0)
            for signs in product((-1, 1), repeat=count):
                out = [_dot(r, [fmpq(s) for s in signs]) for r in jacobian]
                best = max(best, _dot(out, out))
            return arb(best).sqrt()
        gram = fmpq_mat(jacobian) * fmpq_mat(jacobian).transpose()
        roots = gram.charpoly().complex_roots()
        best = arb(0)
        for root, _ in roots:
            best = best.max(root.real)
        return best.sqrt()


def _project(point: Vector, rows: list[Vector]) -> Vector | None:
    """The nearest point to `point` where all rows vanish; None if they are dependent."""
    if not rows:
        return point
    normals = fmpq_mat([row[:-1] for row in rows])
    gram = normals * normals.transpose()
    if gram.det() == 0:
        return None
    gaps = fmpq_mat([[-_dot(row[:-1], point) - row[-1]] for row in rows])
    step = normals.transpose() * gram.solve(gaps)
    return [x + step[i, 0] for i, x in enumerate(point)]
