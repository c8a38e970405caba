"""Terms of third order against points: lines near them, and products."""

import numpy as np
import pytest

from lipyomo.search.spaces.boxes.quadratics.product_sums import lines_near, products_in_all
from lipyomo.search.spaces.boxes.quadratics.stacked import Quadratics

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
def test_terms_of_third_order_are_near_lines(entries: int) -> None:
    rng = np.random.default_rng(entries)
    p, q = functions(rng, entries), functions(rng, entries)
    weights = rng.random((COUNT, 1))
    linear, error = lines_near([(p.linear, q.bends), (q.linear, p.bends)])
    own, less = lines_near([(p.linear, q.bends), (q.linear, p.bends)], weights)
    for e in points(rng, entries, 200):
        of_p, of_q = ((part.linear * e).sum(axis=0) for part in (p, q))
        truth = of_p * (q.at(e) - q.constant - of_q) + of_q * (p.at(e) - p.constant - of_p)
        assert (np.abs(truth - (linear * e).sum(axis=0)) <= error + 1e-11).all()
    assert own == pytest.approx(linear @ weights)
    assert (less <= error @ weights + 1e-11).all()


def test_points_are_within_sums_of_products() -> None:
    rng = np.random.default_rng(0)
    p, q, r = (functions(rng, 3) for _ in range(3))
    found = products_in_all([(p, q), (r, q)], UNIT)
    assert (found.error < 1e3).all()
    for e in points(rng, 3, 100):
        truth = (p.at(e) + r.at(e)) * q.at(e)
        assert (np.abs(truth - found.at(e)) <= found.error + 1e-11 * found.size).all()
