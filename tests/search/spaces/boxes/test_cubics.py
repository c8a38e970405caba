"""Terms of third order against points: lines near them, parabolas above, and products."""

import numpy as np
import pytest

from lipyomo.search.spaces.boxes.cubics import Cubic, Polynomials
from lipyomo.search.spaces.boxes.product_sums import products_in_all
from lipyomo.search.spaces.boxes.stacked import Quadratics

BOXES, COUNT, UNIT = 6, 2, 1e-14


def functions(rng: np.random.Generator, entries: int) -> Quadratics:
    """Quadratic functions without errors."""
    count = entries * (entries + 1) // 2
    parts = [rng.normal(size=(k, BOXES, COUNT)) for k in (1, entries, count)]
    size = sum(np.abs(part).sum(axis=0) for part in parts)
    return Quadratics(parts[0][0], parts[1], parts[2], np.zeros((BOXES, COUNT)), size)


def points(rng: np.random.Generator, entries: int, number: int) -> list[np.ndarray]:
    """Points of cubes, half of them corners."""
    found = rng.uniform(-1.0, 1.0, (number, entries, BOXES, COUNT))
    found[::2] = np.sign(found[::2])
    return list(found)


@pytest.mark.parametrize("entries", [1, 2, 4])
def test_terms_of_third_order_are_near_lines_and_below_what_touches_them(entries: int) -> None:
    rng = np.random.default_rng(entries)
    p, q = functions(rng, entries), functions(rng, entries)
    cubic = Cubic.of([(p.linear, q.bends)])
    assert cubic is not None

    def value(e: np.ndarray) -> np.ndarray:
        quadratic = q.at(e) - q.constant - (q.linear * e).sum(axis=0)
        return np.asarray((p.linear * e).sum(axis=0) * quadratic)

    linear, error = cubic.lines()
    touches = points(rng, entries, 6)
    above = [cubic.touching(point) for point in touches]
    for e in points(rng, entries, 200):
        truth, room = value(e), 1e-12 * cubic.size
        assert (np.abs(truth - (linear * e).sum(axis=0)) <= error + room).all()
        for function in above:
            assert (truth <= function.at(e) + room).all()
    for point, function in zip(touches, above, strict=True):
        assert function.at(point) == pytest.approx(value(point), abs=1e-11)


def test_products_keep_terms_of_third_order_of_one_factor() -> None:
    rng = np.random.default_rng(0)
    p, q, r = (functions(rng, 3) for _ in range(3))
    cubic = Cubic.of([(q.linear, r.bends)])
    found = products_in_all([(p, Polynomials(q, cubic)), (r, Polynomials(q))], UNIT)
    other = products_in_all([(p, Polynomials(Polynomials(q, cubic).folded(UNIT)))], UNIT)
    assert (found.folded(UNIT).error < 1e3).all()
    assert other.cubic is not None
    for e in points(rng, 3, 100):
        more = (q.linear * e).sum(axis=0) * (r.at(e) - r.constant - (r.linear * e).sum(axis=0))
        truth = p.at(e) * (q.at(e) + more) + r.at(e) * q.at(e)
        for point in (e, 0.0 * e):
            above = found.touched(point)
            assert (truth <= above.at(e) + above.error + 1e-11 * above.size).all()
        middle = found.folded(UNIT)
        assert (np.abs(truth - middle.at(e)) <= middle.error + 1e-11 * middle.size).all()
