"""Bounds by back-substitution of linear lines (CROWN, Zhang et al., 2018): the second rung.

One kernel serves pre-activations, adjoints and tangents: all are chains of affine maps with a
line above and below each unit in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lipyomo.bounds.parts import SplitMatrix, pull_back
from lipyomo.bounds.relax import Lines
from lipyomo.network import FloatArray
from lipyomo.numerics.rounding import gamma


@dataclass(frozen=True)
class Link:
    """One step of a chain: an affine map, then lines around its units.

    Attributes
    ----------
    matrix : SplitMatrix
    bias : ndarray, shape (n,), or None for zero
    lines : Lines
    reach : ndarray, shape (B, n)
        Sum of the absolute terms of the affine map, for rounding errors.
    """

    matrix: SplitMatrix
    bias: FloatArray | None
    lines: Lines
    reach: FloatArray


def _weighted(rows: FloatArray, weights: FloatArray) -> FloatArray:
    """``rows @ weights`` over the last axis, batch by batch: (B, k, n) and (B, n) to (B, k)."""
    return np.asarray((rows @ weights[:, :, None])[:, :, 0])


def back_substitute(rows: FloatArray, links: Sequence[Link]) -> tuple[FloatArray, FloatArray]:
    """Affine upper bounds, in the first argument, of functionals on the outputs of a chain.

    Parameters
    ----------
    rows : ndarray, shape (B, k, n)
        Functionals on the units' outputs of the last link.
    links : sequence of Link
        In the order of the chain.

    Returns
    -------
    rows : ndarray, shape (B, k, n_0)
        Functionals on the first argument, as floating-point numbers.
    offset : ndarray, shape (B, k)
        With ``rows . x + offset >= functional`` for all x, whatever was rounded.
    """
    batch, count = rows.shape[:2]
    constant = np.zeros((batch, count))
    error = np.zeros((batch, count))
    for link in reversed(links):
        lines = link.lines
        up, down = np.maximum(rows, 0.0), np.minimum(rows, 0.0)
        lifted = _weighted(up, lines.upper_offset)
        dropped = _weighted(down, lines.lower_offset)
        rows = up * lines.upper_slope[:, None, :] + down * lines.lower_slope[:, None, :]
        constant += lifted + dropped
        if link.bias is not None:
            constant += rows @ link.bias
        spread = np.abs(lifted) + np.abs(dropped) + _weighted(np.abs(rows), link.reach)
        error += gamma(rows.shape[-1] + link.matrix.terms + len(links)) * spread
        rows = pull_back(rows, link.matrix.full)
    return rows, constant + error
