"""Terms of third order on cubes, and lines near them.

On [-1, 1]

    e_a**3 = 3/4 e_a +- 1/4,    e_a e_b**2 = 1/2 e_a +- 1/2,    e_a e_b e_c = +- 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.search.spaces.boxes.quadratics.stacked import places_of

Third = tuple[FloatArray, FloatArray]
"""Linear and quadratic parts, whose products are terms of third order."""


def lines_near(
    thirds: Sequence[Third], turned: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Approximate sums of products by linear functions, and bound their errors.

    Parameters
    ----------
    thirds : sequence of (ndarray, ndarray), shapes (D, N, n) and (D (D + 1) / 2, N, n)
        At least one.
    turned : ndarray, shape (n, g), optional
        Weights of the n functions in g sums; by default the functions themselves are returned.

    Returns
    -------
    ndarray, shape (D, N, n)
    ndarray, shape (N, n)
    """
    shape = np.broadcast_shapes(*(part.shape[1:] for third in thirds for part in third))
    count = len(thirds[0][0])
    place = places_of(count)
    all_three = list(combinations(range(count), 3))
    cubes, squares = np.zeros((count, *shape)), np.zeros((count, count - 1, *shape))
    triples = np.zeros((len(all_three), *shape))
    for linear, bends in thirds:
        cubes += linear * bends[:count]
        for a, terms in enumerate(squares):
            others = [b for b in range(count) if b != a]
            for term, b in zip(terms, others, strict=True):
                term += linear[a] * bends[b]
                term += linear[b] * bends[place[min(a, b), max(a, b)]]
        for term, (a, b, c) in zip(triples, all_three, strict=True):
            term += linear[a] * bends[place[b, c]]
            term += linear[b] * bends[place[a, c]]
            term += linear[c] * bends[place[a, b]]
    if turned is not None:
        cubes, squares, triples = cubes @ turned, squares @ turned, triples @ turned
    error = 0.25 * np.abs(cubes).sum(axis=0) + 0.5 * np.abs(squares).sum(axis=(0, 1))
    return 0.75 * cubes + 0.5 * squares.sum(axis=1), error + np.abs(triples).sum(axis=0)
