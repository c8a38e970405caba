"""Tilted networks, with which one search for a largest derivative bounds all entries of a Jacobian.

The network ``h(x) = +-f(x) + M S x`` has the derivatives ``+-J_ij + M_ij``.  With M_ij equal to C
minus the largest known value of ``+-J_ij``, all of them are at most C unless an entry exceeds its
known value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from lipyomo.analyses.questions.entry_ends import EntryEnds
from lipyomo.base.arrays import FloatArray, Matrix
from lipyomo.base.errors import ProblemError
from lipyomo.base.kept import Arrays
from lipyomo.base.numerics.rounding import CLOSED, EQUAL
from lipyomo.networks.combined import affine_after, parallel
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.problem import LipschitzProblem


def tilted(network: Network, rows: FloatArray, skip: FloatArray, scale: FloatArray) -> Network:
    """Return the network ``rows . f(x) + scale . skip . x``, exactly: x bypasses the units.

    Parameters
    ----------
    network : Network
    rows : ndarray, shape (p, m)
    skip : ndarray, shape (k, d)
        At most one entry per row, of size one.
    scale : ndarray, shape (p, k)
    """
    beside = Network([Layer(skip, np.zeros(len(skip)))])
    return affine_after(parallel(network, beside), np.hstack([rows, scale]))


def _single_inputs(steps: Matrix) -> tuple[FloatArray, FloatArray]:
    """Return the input that each direction moves, as rows (k, d) of entry +-1, and how far (k,).

    For a single direction that moves several inputs, it is the one that it moves farthest.

    Raises
    ------
    ProblemError
        If one of several directions moves more than one input, or two move the same.
    """
    T = sp.csc_array(steps)
    d, k = T.shape
    skip, reach, places = np.zeros((k, d)), np.zeros(k), set()
    for j in range(k):
        own = slice(T.indptr[j], T.indptr[j + 1])
        largest = np.abs(T.data[own]).argmax()
        place, entry = int(T.indices[own][largest]), float(T.data[own][largest])
        skip[j, place], reach[j] = np.sign(entry), abs(entry)
        places.add(place)
    if k > 1 and not ((np.diff(T.indptr) == 1).all() and len(places) == k):
        raise ProblemError(
            "entries of a Jacobian are told apart along single inputs.  Remedy: ask for one "
            "direction at a time, with derivative_range"
        )
    return skip, reach


@dataclass(frozen=True, eq=False)
class Tilt:
    """The question of a search of a tilted network.

    Attributes
    ----------
    offsets : ndarray, shape (2, p, k)
        M, for the negatives of the entries and for the entries.
    cutoff : float
        C.
    slack : float
        Relative distance at which a bound counts as met.
    """

    offsets: FloatArray
    cutoff: float
    slack: float

    def encode(self) -> Arrays:
        """Encode as plain arrays."""
        return {"offsets": self.offsets, "numbers": np.array([self.cutoff, self.slack])}

    @classmethod
    def decode(cls, arrays: Arrays) -> Tilt:
        """Restore what `encode` returned."""
        return cls(arrays["offsets"], *arrays["numbers"].tolist())


@dataclass(frozen=True, eq=False)
class TiltedEntries:
    """The entries of some rows along single inputs, for searches of tilted networks.

    Attributes
    ----------
    problem : LipschitzProblem
    rows : ndarray, shape (p, m)
        Functionals.
    skip : ndarray, shape (k, d)
        The input that each direction moves, with its sign.
    reach : ndarray, shape (k,)
        How far each direction moves its input.
    """

    problem: LipschitzProblem
    rows: FloatArray
    skip: FloatArray
    reach: FloatArray

    @classmethod
    def along(cls, problem: LipschitzProblem, steps: Matrix, rows: FloatArray) -> TiltedEntries:
        """Make the entries along the columns of `steps` (d, k).

        Raises
        ------
        ProblemError
            If one of several directions moves more than one input, or two move the same.
        """
        return cls(problem, rows, *_single_inputs(steps))

    def tilt(self, ends: EntryEnds) -> Tilt:
        """Choose C and M, with ``attained + M reach = C`` up to rounding.

        Finished entries get offsets with which they stay below C.
        """
        attained, active = ends.attained, ends.is_open
        tolerance = float(ends.tolerance[active.any(axis=0)].min())
        known = np.where(np.isfinite(attained), attained, -ends.proved[::-1])
        widest = float((known.sum(axis=0) / 2.0).max())
        size = float(np.abs(known).max())
        C = max(1.01 * widest, 0.01 * size, 1e-200)
        middle = np.broadcast_to(known.sum(axis=0) / 2.0, known.shape)
        offsets = (np.where(active, C, middle) - known) / self.reach
        return Tilt(offsets, C, float(np.clip(0.5 * tolerance / C, EQUAL, CLOSED)))

    def joint(self, tilt: Tilt) -> LipschitzProblem:
        """Return the problem of the tilted network's largest derivative."""
        rows = np.concatenate([-self.rows, self.rows])
        network = tilted(self.problem.network, rows, self.skip, np.concatenate(list(tilt.offsets)))
        domain, at_fixed = self.problem.domain, self.problem.at_fixed
        if at_fixed.any():
            places, weights = np.abs(self.skip).argmax(axis=1), np.ones(network.input_dim)
            weights[places] = self.reach
            return LipschitzProblem(network, domain, "l1", "linf", wrt=places, weights=weights)
        directions = self.problem.directions
        return LipschitzProblem(network, domain, "l1", "linf", directions=directions)
