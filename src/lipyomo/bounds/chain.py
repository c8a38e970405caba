"""Chains of affine maps with units in between, bounded by back-substitution: the second rung.

One kernel serves pre-activations (forwards from the inputs), tangents (forwards from directions)
and adjoints (backwards from functionals).  All of them are maps

    t_1 = M_1 a,    t_{i+1} = M_{i+1} s_i + b_{i+1},    s_i = slope t_i where a unit is decided,

with s_i between two lines of t_i where it is not.  Decided units are multiplied through, so that
what is left is a strictly triangular system in the open ones ("members"), whose size does not
depend on the widths of the layers; matrices that are sparse stay so while that pays.  Replacing
members by their lines from the last to the first is CROWN (Zhang et al., 2018).

Rounding: a value that is computed here is a sum of products along paths.  It is off by at most
``gamma(terms)`` times the sum of the absolute products, which `reach` bounds for every row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeGuard

import numpy as np
import scipy.sparse as sp

from lipyomo.arrays import dense, product, scaled_columns, settled
from lipyomo.bounds.balls import Ball
from lipyomo.bounds.parts import SplitMatrix, apply_rows, pull_back
from lipyomo.bounds.relax import Lines
from lipyomo.bounds.stack import Index
from lipyomo.network import FloatArray, Matrix
from lipyomo.numerics.rounding import gamma

CHUNK = 1 << 18
"""Most entries of an array of functionals that are substituted at once: what fits into a cache
(with eight times as many, bounds take two to ten times as long)."""


class Block(NamedTuple):
    """The members of one layer, as functions of the argument and of earlier members.

    Attributes
    ----------
    start : ndarray, sparse array or None, shape (F, p)
        None for zero, as in `links`.
    links : list of ndarray, sparse array or None, shapes (F, F_j)
        One an earlier block; None for zero.
    slopes : ndarray, shape (2, B, F)
        Of the lines above and below what the members pass on.
    sums : ndarray, shape (2, B, F, 2)
        Constants of these lines as functions of argument and earlier members, and the sums of the
        absolute terms of the lines, with the sign of what they are multiplied with.
    """

    start: Matrix | None
    links: list[Matrix | None]
    slopes: FloatArray
    sums: FloatArray

    @property
    def members(self) -> int:
        """F."""
        return int(self.slopes.shape[2])

    @property
    def batch(self) -> int:
        """B."""
        return int(self.slopes.shape[1])


class Functionals(NamedTuple):
    """Rows on the current signal of a chain: on the argument, on each block, and a constant.

    Attributes
    ----------
    start : ndarray, sparse array or None, shape (B, r, p), or (r, p) if all chains share it
    links : list of ndarray, sparse array or None, shapes (B, r, F_j) or (r, F_j)
    constant : ndarray, shape (B, r) or (r,)
    reach : ndarray, shape (B, r)
    """

    start: Matrix | None
    links: list[Matrix | None]
    constant: FloatArray
    reach: FloatArray


def _columns(matrix: Matrix, pick: Index) -> Matrix:
    if isinstance(matrix, np.ndarray):
        return matrix[:, pick]
    return sp.csr_array(matrix.tocsc()[:, pick])


def _is_wide(matrix: Matrix | None) -> TypeGuard[FloatArray]:
    return isinstance(matrix, np.ndarray) and matrix.shape[0] < matrix.shape[1]


class Chain:
    """A chain that grows by one affine map and one row of units at a time.

    Parameters
    ----------
    argument : Ball
        Where a lives; one set a chain of the batch, or one for all.
    stop : callable, optional
        Polled now and then; once True, ranges that are not known yet are infinite.
    """

    def __init__(self, argument: Ball, stop: Callable[[], bool] | None = None) -> None:
        self._argument = argument
        self._stop = stop
        self._blocks: list[Block] = []
        self._inputs = 0
        self._first: FloatArray | None = None
        self._start: Matrix | None = None
        self._links: list[Matrix | None] = []
        self._bias: FloatArray = np.zeros(0)
        self._terms = 64
        self._members: Index | None = None
        self._slope: FloatArray = np.zeros(0)
        self._size: FloatArray = np.zeros((1, 0))
        self.reach: FloatArray = np.zeros((1, 0))

    def affine(self, matrix: SplitMatrix, bias: FloatArray | None = None) -> None:
        """Multiply the signal with a matrix (n, n_before), and add a bias (n,)."""
        full = matrix.full
        given = np.zeros(full.shape[0]) if bias is None else bias
        self._terms += full.shape[1] + 4
        if not self._inputs:
            self._inputs = full.shape[1]
            self._start, self._bias = settled(full), given
            self.reach = self._argument.reach(self._start) + np.abs(given)
            return
        pieces: list[Matrix | None] = [None] * len(self._links)
        on = np.flatnonzero(self._slope)
        if on.size:
            through = scaled_columns(_columns(full, on), self._slope[on])
            pieces = [None if p is None else product(through, p[on]) for p in self._links]
            self._start = None if self._start is None else product(through, self._start[on])
            self._bias = np.asarray(through @ self._bias[on]) + given
        else:
            self._start, self._bias = None, given
        if self._members is None:
            pieces[-1] = settled(full)
        elif self._members.size:
            pieces[-1] = _columns(full, self._members)
        self._links = pieces
        self.reach = apply_rows(matrix.size, self._size) + np.abs(given)

    def activate(
        self, slope: FloatArray, members: Index | None, lines: Lines, size: FloatArray
    ) -> None:
        """Let the signal pass a row of units.

        Parameters
        ----------
        slope : ndarray, shape (n,)
            Of the decided units; what stands at members is ignored.
        members : ndarray of int, shape (F,), or None
            Units that get lines; None for all.
        lines : Lines, shapes (2, B, F)
        size : ndarray, shape (B, F)
            At least the absolute values that members pass on.
        """
        fresh = self._first is None and not self._blocks
        if members is not None and fresh and _is_wide(self._start):
            # what is substituted back is narrower in front of the first map than behind it
            self._first, self._start = self._start, np.eye(len(self._start))
            self._terms += len(self._start)
        pick: Index | slice = slice(None) if members is None else members
        self._members = members
        if members is None:
            self._slope, self._size = np.zeros(slope.size), size
        else:
            self._slope = slope.copy()
            self._slope[members] = 0.0
            self._size = np.empty((max(len(size), len(self.reach)), slope.size))
            self._size[:] = np.abs(self._slope) * self.reach
            self._size[:, members] = size
        if members is None or members.size:
            start = None if self._start is None else self._start[pick]
            picked = [None if piece is None else piece[pick] for piece in self._links]
            sums = np.empty((*lines.slopes.shape, 2))
            sums[..., 0] = lines.slopes * self._bias[pick] + lines.offsets
            sums[..., 1] = np.abs(lines.slopes) * self.reach[:, pick] + np.abs(lines.offsets)
            sums[1, ..., 1] *= -1.0
            self._blocks.append(Block(start, picked, lines.slopes, sums))
            self._links = [*self._links, None]

    def rows(self, pick: Index) -> Functionals:
        """The chosen entries of the signal as functionals."""
        return Functionals(
            None if self._start is None else self._start[pick],
            [None if piece is None else piece[pick] for piece in self._links],
            self._bias[pick],
            self.reach[:, pick],
        )

    def combined(self, weights: FloatArray) -> Functionals:
        """Sums of the entries of the signal with weights (B, n), one row a chain."""
        return Functionals(
            None if self._start is None else pull_back(weights, self._start)[:, None, :],
            [
                None if piece is None else pull_back(weights, piece)[:, None, :]
                for piece in self._links
            ],
            np.asarray(weights @ self._bias)[:, None],
            (np.abs(weights) * self.reach).sum(axis=1)[:, None] * (1.0 + gamma(weights.shape[1])),
        )

    def upper(self, rows: Functionals) -> FloatArray:
        """Safe upper bounds of functionals, shape (B, r)."""
        return self._bounded(rows)[0]

    def range(self, pick: Index) -> tuple[FloatArray, FloatArray]:
        """Safe lower and upper bounds of entries of the signal (r,), shapes (B, r)."""
        members = [block.members for block in self._blocks]
        batch = max([self._argument.batch, *(block.batch for block in self._blocks)])
        step = max(CHUNK // (2 * max(sum(members), self._inputs) * batch), 16)
        lows, highs = [], []
        for begin in range(0, pick.size, step):
            # without blocks there is nothing to substitute back, and nobody has other bounds
            if begin and self._blocks and self._stop is not None and self._stop():
                unknown = np.full((batch, pick.size - begin), np.inf)
                lows.append(-unknown)
                highs.append(unknown)
                break
            high, low = self._bounded(self.rows(pick[begin : begin + step]), both=True)
            lows.append(-low)
            highs.append(high)
        if not lows:
            return np.zeros((batch, 0)), np.zeros((batch, 0))
        if len(lows) == 1:
            return lows[0], highs[0]
        return np.concatenate(lows, axis=1), np.concatenate(highs, axis=1)

    def _bounded(self, rows: Functionals, both: bool = False) -> list[FloatArray]:
        """Upper bounds of the rows, and of their negatives if `both`."""

        def signed(matrix: Matrix) -> FloatArray:
            rows = dense(matrix)
            return np.concatenate([rows, -rows], axis=-2) if both else rows

        start = None if rows.start is None else signed(rows.start)
        links = [None if piece is None else signed(piece) for piece in rows.links]
        r = rows.reach.shape[-1]
        sums = np.empty((len(rows.reach), (1 + both) * r, 2))  # constants, and absolute terms
        sums[:, :r, 0], sums[:, :r, 1] = rows.constant, rows.reach
        if both:
            sums[:, r:, 0], sums[:, r:, 1] = -rows.constant, rows.reach
        terms = self._terms
        for j in range(len(self._blocks) - 1, -1, -1):
            here, block = links[j], self._blocks[j]
            if here is None:
                continue
            terms += block.members
            parts = np.empty((2, *(here.shape if here.ndim == 3 else (1, *here.shape))))
            np.maximum(here, 0.0, out=parts[0])
            np.minimum(here, 0.0, out=parts[1])
            found = parts @ block.sums
            sums = sums + found[0] + found[1]
            scaled = parts * block.slopes[:, :, None, :]
            passed = scaled[0] + scaled[1]
            for i, link in enumerate(block.links):
                if link is not None:
                    more, old = pull_back(passed, link), links[i]
                    links[i] = more if old is None else old + more
            if block.start is not None:
                more = pull_back(passed, block.start)
                start = more if start is None else start + more
        if start is None:
            width = self._inputs if self._first is None else len(self._first)
            start = np.zeros((sums.shape[1], width))
        if start.ndim == 2:
            start = start[None]
        if self._first is not None:
            start = pull_back(start, self._first)
        constant, reached = sums[..., 0], self._argument.support(start)
        bound = constant + reached
        bound += gamma(terms) * (sums[..., 1] + np.abs(constant) + np.abs(reached))
        return [bound[:, :r], bound[:, r:]]
