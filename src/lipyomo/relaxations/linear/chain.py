"""Chains of affine maps with units in between, bounded by back-substitution.

One kernel serves pre-activations (forwards from the inputs), tangents (forwards from directions)
and adjoints (backwards from functionals).  All of them are maps

    t_1 = M_1 a,    t_{i+1} = M_{i+1} s_i + b_{i+1},    s_i = slope t_i where a unit is decided,

and s_i between two lines in t_i where it is open.  Stable units are multiplied through.  What is
left is a strictly triangular system in the open units ("members"), whose size does not depend on
the widths of the layers.  Sparse matrices stay sparse while that pays.  Replacing members by their
lines from the last to the first is CROWN (Zhang et al., 2018).

Rounding: every value computed here is a sum of products along paths.  Its error is at most
``gamma(terms)`` times the sum of the absolute products, which `reach` bounds for every row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeGuard

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import (
    FloatArray,
    IntArray,
    Matrix,
    compact,
    dense,
    scaled_columns,
    sparse_product,
)
from lipyomo.base.numerics.rounding import gamma
from lipyomo.base.numerics.split import SplitMatrix, apply_rows, pull_back
from lipyomo.base.system.memory import CACHED
from lipyomo.relaxations.linear.balls import Ball
from lipyomo.relaxations.linear.relax import Lines


class Block(NamedTuple):
    """The members of one layer, as functions of the argument and of earlier members.

    Attributes
    ----------
    start : ndarray, sparse array or None, shape (F, p)
        None for zero, as in `links`.
    links : list of ndarray, sparse array or None, shapes (F, F_j)
        One for each earlier block; None for zero.
    slopes : ndarray, shape (2, B, F)
        Slopes of the lines above and below the outputs of the members.
    sums : ndarray, shape (2, B, F, 2)
        Constants of these lines as functions of the argument and earlier members, and the sums of
        the absolute terms of the lines, with the sign of the coefficients that they multiply.
    """

    start: Matrix | None
    links: list[Matrix | None]
    slopes: FloatArray
    sums: FloatArray

    @property
    def members(self) -> int:
        """Number of members F."""
        return int(self.slopes.shape[2])

    @property
    def batch(self) -> int:
        """Batch size B."""
        return int(self.slopes.shape[1])


class Functionals(NamedTuple):
    """Functionals of a chain: rows on the argument and on each block, and constants.

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


def _columns(matrix: Matrix, pick: IntArray) -> Matrix:
    if isinstance(matrix, np.ndarray):
        return matrix[:, pick]
    return sp.csr_array(matrix.tocsc()[:, pick])


def _is_wide(matrix: Matrix | None) -> TypeGuard[FloatArray]:
    return isinstance(matrix, np.ndarray) and matrix.shape[0] < matrix.shape[1]


@dataclass(frozen=True, eq=False)
class AffineChain:
    """A chain to which affine maps and rows of units are added, immutable: each step returns one.

    Attributes
    ----------
    argument : Ball
        The set of a; one for each chain of the batch, or one for all.
    stop : callable, optional
        Polled between parts of `range`; once True, ranges not computed yet are infinite.
    reach : ndarray, shape (B, n)
        Upper bounds of the sums of the absolute terms of the signal's entries.
    blocks : tuple of Block
        The members so far.
    inputs : int
        Number of inputs of the first map; 0 before it.
    first : ndarray, shape (n, p), optional
        The first map, if it is kept apart: `start` then acts on its outputs, which are narrower
        than its inputs.
    start, links, bias
        The signal as a function of the argument and of the members.
    terms : int
        Upper bound of the number of terms of any sum so far.
    members : ndarray of int
        The units of the last row that have lines.
    slope : ndarray, shape (n,)
        Slopes of its stable units, zero at members.
    size : ndarray, shape (B, n)
        Upper bounds of the absolute values of its outputs.
    """

    argument: Ball
    stop: Callable[[], bool] | None = None
    reach: FloatArray = field(default_factory=lambda: np.zeros((1, 0)))
    blocks: tuple[Block, ...] = ()
    inputs: int = 0
    first: FloatArray | None = None
    start: Matrix | None = None
    links: tuple[Matrix | None, ...] = ()
    bias: FloatArray = field(default_factory=lambda: np.zeros(0))
    terms: int = 64
    members: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    slope: FloatArray = field(default_factory=lambda: np.zeros(0))
    size: FloatArray = field(default_factory=lambda: np.zeros((1, 0)))

    def affine(self, matrix: SplitMatrix, bias: FloatArray | None = None) -> AffineChain:
        """Append an affine map: a matrix (n, n_before) and a bias (n,), zero by default."""
        full = matrix.full
        given = np.zeros(full.shape[0]) if bias is None else bias
        terms = self.terms + full.shape[1] + 4
        if not self.inputs:
            start = compact(full)
            reach = self.argument.reach(start) + np.abs(given)
            return replace(
                self, reach=reach, inputs=full.shape[1], start=start, bias=given, terms=terms
            )
        pieces: list[Matrix | None] = [None] * len(self.links)
        on, first = np.flatnonzero(self.slope), self.start
        if on.size:
            through = scaled_columns(_columns(full, on), self.slope[on])
            pieces = [None if p is None else sparse_product(through, p[on]) for p in self.links]
            first = None if first is None else sparse_product(through, first[on])
            shift = np.asarray(through @ self.bias[on]) + given
        else:
            first, shift = None, given
        if self.members.size:
            pieces[-1] = _columns(full, self.members)
        reach = apply_rows(matrix.size, self.size) + np.abs(given)
        return replace(self, reach=reach, start=first, links=tuple(pieces), bias=shift, terms=terms)

    def activate(
        self, slope: FloatArray, members: IntArray, lines: Lines, size: FloatArray
    ) -> AffineChain:
        """Append a row of units.

        Parameters
        ----------
        slope : ndarray, shape (n,)
            Slopes of the stable units; entries at members are ignored.
        members : ndarray of int, shape (F,)
            Units that are replaced by lines.
        lines : Lines, shapes (2, B, F)
        size : ndarray, shape (B, F)
            Upper bounds of the absolute outputs of the members.
        """
        first, start, terms = self.first, self.start, self.terms
        if first is None and not self.blocks and _is_wide(start):
            # substituted rows on the outputs of the first map are shorter than on its inputs
            first, start, terms = start, np.eye(len(start)), terms + len(start)
        still, blocks, links = slope.copy(), self.blocks, self.links
        still[members] = 0.0
        sizes = np.empty((max(len(size), len(self.reach)), slope.size))
        sizes[:] = np.abs(still) * self.reach
        sizes[:, members] = size
        if members.size:
            own = None if start is None else start[members]
            picked = [None if piece is None else piece[members] for piece in links]
            sums = np.empty((*lines.slopes.shape, 2))
            sums[..., 0] = lines.slopes * self.bias[members] + lines.offsets
            sums[..., 1] = np.abs(lines.slopes) * self.reach[:, members] + np.abs(lines.offsets)
            sums[1, ..., 1] *= -1.0
            blocks, links = (*blocks, Block(own, picked, lines.slopes, sums)), (*links, None)
        return replace(
            self,
            blocks=blocks,
            first=first,
            start=start,
            links=links,
            terms=terms,
            members=members,
            slope=still,
            size=sizes,
        )

    def rows(self, pick: IntArray) -> Functionals:
        """Return the chosen entries of the signal as functionals."""
        return Functionals(
            None if self.start is None else self.start[pick],
            [None if piece is None else piece[pick] for piece in self.links],
            self.bias[pick],
            self.reach[:, pick],
        )

    def combined(self, weights: FloatArray) -> Functionals:
        """Return weighted sums of the signal's entries, weights (B, n), one row for each chain."""
        return Functionals(
            None if self.start is None else pull_back(weights, self.start)[:, None, :],
            [
                None if piece is None else pull_back(weights, piece)[:, None, :]
                for piece in self.links
            ],
            np.asarray(weights @ self.bias)[:, None],
            (np.abs(weights) * self.reach).sum(axis=1)[:, None] * (1.0 + gamma(weights.shape[1])),
        )

    def upper(self, rows: Functionals) -> FloatArray:
        """Return safe upper bounds of functionals, shape (B, r)."""
        return self._bounded(rows)[0]

    def range(self, pick: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return safe lower and upper bounds of entries `pick` (r,) of the signal, (B, r) each."""
        members = [block.members for block in self.blocks]
        batch = max([self.argument.batch, *(block.batch for block in self.blocks)])
        step = max(CACHED // (8 * max(sum(members), self.inputs) * batch), 16)
        lows, highs = [], []
        for begin in range(0, pick.size, step):
            # without blocks there is no substitution to save, and callers have no other bounds
            if begin and self.blocks and self.stop is not None and self.stop():
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
        """Return upper bounds of the rows, and of their negatives if `both`."""

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
        terms = self.terms
        for j in range(len(self.blocks) - 1, -1, -1):
            here, block = links[j], self.blocks[j]
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
            width = self.inputs if self.first is None else len(self.first)
            start = np.zeros((sums.shape[1], width))
        if start.ndim == 2:
            start = start[None]
        if self.first is not None:
            start = pull_back(start, self.first)
        constant, reached = sums[..., 0], self.argument.support(start)
        bound = constant + reached
        bound += gamma(terms) * (sums[..., 1] + np.abs(constant) + np.abs(reached))
        return [bound[:, :r], bound[:, r:]]
