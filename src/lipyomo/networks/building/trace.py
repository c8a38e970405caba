"""The units of a graph, recorded while it is imported."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.networks import activations
from lipyomo.networks.activations import Activation
from lipyomo.networks.building.affine import Tensor, are_shares, assembled, bend, widen
from lipyomo.networks.building.budget import ENTRY, budget

Array: TypeAlias = npt.NDArray[Any]

FARTHEST = 8.0
"""Largest exponent of the power of two that balances the factors of a product."""

CANCELLED = 4.0
"""Largest exponent of the ratio of the sizes of balanced factors."""

STEP = 0.1
"""Distance of paired sample points, between which the variation of signals is estimated."""

UNIT_BYTES = 1500
"""Memory of a unit until it is a row of a layer, and of an output until it is compared."""

SAMPLES = 64
"""Number of such pairs."""

FAR = 2.0**16
"""Largest kink that is subtracted from a signal and added again, which rounds by 1e-11 at most."""


class Trace:
    """The inputs and units so far; `unit` and `smooth` create new units.

    Parameters
    ----------
    inputs : int
        Number d of network inputs.
    separate : bool, optional
        Whether nodes must not be merged.

    Attributes
    ----------
    groups : list of Tensor
        Pre-activations of the units, one flat tensor for each call of `unit` or `smooth`.
    left, right : list of ndarray
        Their slopes.
    kinds : list of Activation or None
        Activation of each group of smooth units; None for two-slope units.
    further : set of int
        Indices of groups that are not units but inputs added later.
    simplices : set of tuple of int
        Sorted variables whose sum is known to be one.
    """

    def __init__(self, inputs: int, separate: bool = False) -> None:
        self.inputs = inputs
        self.separate = separate
        self.variables = inputs
        self.groups: list[Tensor] = []
        self.left: list[FloatArray] = []
        self.right: list[FloatArray] = []
        self.kinds: list[Activation | None] = []
        self.further: set[int] = set()
        self.simplices: set[tuple[int, ...]] = set()
        self._values: list[FloatArray] = []
        self._products: dict[int, tuple[Tensor, Tensor]] = {}

    def input(self, shape: tuple[int, ...]) -> Tensor:
        """Return the network's input as a tensor of the given shape."""
        budget().charge(ENTRY * self.inputs, f"an input of {self.inputs:,} entries")
        eye = sp.csr_array(sp.eye_array(self.inputs, format="csr"))
        return Tensor(eye, np.zeros(self.inputs), shape, self.carried)

    def further_inputs(self, shape: tuple[int, ...]) -> Tensor:
        """Add inputs to the network, after the others, and return their tensor."""
        size = math.prod(shape)
        if size:
            self.further.add(len(self.groups))
        zeros = Tensor.constant(np.zeros(size))
        made = self._made(zeros, np.arange(size), np.ones(size), np.ones(size))
        return Tensor(made, np.zeros(size), shape, self.carried)

    def carried(self, x: Tensor) -> Tensor:
        """Return an equal tensor with identity units for all entries that are not variables yet."""
        first = np.zeros(x.size, dtype=bool)
        plain = np.flatnonzero(x.plain)
        first[plain[np.unique(x.matrix.indices[x.matrix.indptr[plain]], return_index=True)[1]]] = 1
        others = np.flatnonzero(~first)
        made = self._made(x, others, np.ones(others.size), np.ones(others.size))
        kept = sp.diags_array(first.astype(np.float64)) @ widen(x.matrix, made.shape[1])
        return Tensor(sp.csr_array(kept + made), np.zeros(x.size), x.shape, self.carried)

    def _made(
        self,
        z: Tensor,
        entries: IntArray,
        left: FloatArray,
        right: FloatArray,
        kind: Activation | None = None,
    ) -> sp.csr_array:
        """Create units for some entries of `z`; return them as a matrix with a row per entry."""
        budget().charge(
            UNIT_BYTES * (self.variables - self.inputs + entries.size), "the units so far"
        )
        if entries.size:
            whole = entries.size == z.size
            rows = (z.matrix, z.offset) if whole else (z.matrix[entries], z.offset[entries])
            self.groups.append(Tensor(*rows, (entries.size,), self.carried))
            self.left.append(left)
            self.right.append(right)
            self.kinds.append(kind)
        columns = self.variables + np.arange(entries.size)
        self.variables += entries.size
        ones = np.ones(entries.size)
        return sp.csr_array((ones, (entries, columns)), shape=(z.size, self.variables))

    def unit(self, z: Tensor, left: npt.ArrayLike, right: npt.ArrayLike = 1.0) -> Tensor:
        """Pass `z` through units with slopes `left` below zero and `right` above (broadcast to z).

        Constant entries stay constants and entries with equal slopes stay affine: neither becomes
        a unit.
        """
        slopes = np.broadcast_arrays(
            np.asarray(left, dtype=np.float64),
            np.asarray(right, dtype=np.float64),
            np.empty(z.shape),
        )
        low, high = (np.array(slope).reshape(-1) for slope in slopes[:2])
        constant = np.diff(z.matrix.indptr) == 0
        kinked = np.flatnonzero((low != high) & ~constant)
        keep = np.where(constant & (z.offset >= 0), high, low)
        keep[kinked] = 0.0
        matrix = self._made(z, kinked, low[kinked], high[kinked])
        bent = Tensor(matrix, np.zeros(z.size), z.shape, z.carrier)
        # add the affine and constant entries
        return bent + z.scale(keep.reshape(z.shape)) if keep.any() else bent

    def smooth(self, z: Tensor, kind: Activation) -> Tensor:
        """Pass `z` through units with a smooth activation, including constant entries.

        The values of constants are not evaluated, as they are not exact in float64.
        """
        slopes = [np.full(z.size, limit) for limit in kind.limits]
        matrix = self._made(z, np.arange(z.size), slopes[0], slopes[1], kind)
        return Tensor(matrix, np.zeros(z.size), z.shape, self.carried)

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        """Return ``a b`` of flat tensors as ``((t a + b / t) / 2)**2 - ((t a - b / t) / 2)**2``.

        t is a power of two.  The bands of both squares are narrow if t a and b / t vary by similar
        amounts, but there is cancellation if their sizes differ.
        """
        (near_a, far_a), (near_b, far_b) = self.sizes(a), self.sizes(b)
        with np.errstate(all="ignore"):
            wanted = np.nan_to_num(np.round(0.5 * np.log2(near_b / near_a)))
            level = np.round(0.5 * np.log2(far_b / far_a))
        wanted = np.clip(wanted, -FARTHEST, FARTHEST)
        level = np.where(np.isfinite(level), np.clip(level, -FARTHEST, FARTHEST), wanted)
        t = np.exp2(np.clip(wanted, level - CANCELLED, level + CANCELLED))
        self._products[self.variables] = a, b
        first, second = a.scale(0.5 * t), b.scale(0.5 / t)
        sums, differences = (
            self.smooth(x, half)
            for x, half in zip((first + second, first - second), activations.HALVES, strict=True)
        )
        return sums - differences

    def times(self, a: Tensor | Array, b: Tensor | Array) -> Tensor:
        """Return ``a * b``, entry by entry, with broadcasting; arrays are constants.

        Entries with a constant factor stay affine, equal factors become one square.
        """
        a, b = (x if isinstance(x, Tensor) else Tensor.constant(x) for x in (a, b))
        shape = np.broadcast_shapes(a.shape, b.shape)
        a, b = (x.broadcast(shape).reshaped((int(np.prod(shape)),)) for x in (a, b))
        fixed = [np.diff(x.matrix.indptr) == 0 for x in (a, b)]
        columns = max(a.matrix.shape[1], b.matrix.shape[1])
        off = abs(sp.csr_array(widen(a.matrix, columns) - widen(b.matrix, columns))).sum(axis=1)
        same = (np.asarray(off).reshape(-1) == 0.0) & (a.offset == b.offset)
        kinds = np.select([fixed[0], fixed[1], same], [0, 1, 2], 3)
        places = [np.flatnonzero(kinds == kind) for kind in range(4)]
        (_, first), (second, _), (equal, _), (left, right) = (
            (a.take(place), b.take(place)) for place in places
        )
        parts = [first.scale(a.offset[places[0]]), second.scale(b.offset[places[1]]), equal, left]
        if equal.size:
            parts[2] = self.smooth(equal, activations.Power(2.0))
        if left.size:
            parts[3] = self.product(left, right)
        return assembled(parts, places, shape)

    def gated(self, x: Tensor, y: Tensor) -> Tensor | None:
        """Rewrite ``x + y = (1 - g) a + g b`` as ``a + g (b - a)``, with one product; else None."""
        one, other = self._factors(x), self._factors(y)
        if one is None or other is None or x.shape != y.shape:
            return None
        for own, a in (one, one[::-1]):
            for g, b in (other, other[::-1]):
                if are_shares(own, g):
                    if own.plain.all():
                        g, a, b = own, b, a
                    return (a + self.product(g, b - a)).reshaped(x.shape)
        return None

    def _factors(self, x: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return the flat factors of `x` if it is the result of one call of `product`."""
        matrix = x.matrix
        if not x.size or x.offset.any() or (np.diff(matrix.indptr) != 2).any():
            return None
        columns, data = matrix.indices.reshape(-1, 2), matrix.data.reshape(-1, 2)
        first = np.where(columns[:, 0] < columns[:, 1], 0, 1)
        rows = np.arange(x.size)
        low, high = columns[rows, first], columns[rows, 1 - first]
        start = max((k for k in self._products if k <= low.min()), default=None)
        if start is None or (data[rows, first] != 1.0).any() or (data.sum(axis=1) != 0.0).any():
            return None
        a, b = self._products[start]
        place = low - start
        if place.max() >= a.size or (high != low + a.size).any():
            return None
        return a.take(place), b.take(place)

    def sizes(self, x: Tensor) -> tuple[FloatArray, FloatArray]:
        """Estimate the variation of entries of `x` between near points, and their sizes, (size,).

        Uses a few pairs of points around zero, for heuristic choices only.
        """
        if not self._values:
            rng = np.random.default_rng(0)
            points = rng.uniform(-1.0, 1.0, (self.inputs, SAMPLES))
            near = points + STEP * rng.uniform(-1.0, 1.0, points.shape)
            self._values.append(np.concatenate([points, near], axis=1))
        with np.errstate(all="ignore"):
            known = np.concatenate(self._values)
            for k in range(len(self._values) - 1, len(self.groups)):
                z = self.groups[k].matrix @ known[: self.groups[k].matrix.shape[1]]
                z = z + self.groups[k].offset[:, None]
                kind = self.kinds[k]
                left, right = self.left[k][:, None], self.right[k][:, None]
                found = np.where(z < 0, left, right) * z if kind is None else kind.value(z)
                self._values.append(found)
                known = np.concatenate([known, found])
            found = x.matrix @ known[: x.matrix.shape[1]]
            changes = np.abs(found[:, SAMPLES:] - found[:, :SAMPLES]).mean(axis=1)
            return changes, np.abs(found + x.offset[:, None]).mean(axis=1)

    def _made_by(self, x: Tensor) -> tuple[int, IntArray] | None:
        """Return the group of units that `x` consists of, and their positions; None if not one."""
        columns = x.matrix.indices
        if not x.size or not x.plain.all() or columns.min() < self.inputs:
            return None
        starts = np.cumsum([self.inputs, *(group.size for group in self.groups)])
        (which, *others) = np.unique(np.searchsorted(starts, columns, side="right") - 1).tolist()
        return None if others else (which, columns - starts[which])

    def before_smooth(self, x: Tensor) -> tuple[Tensor, Activation] | None:
        """Return the pre-activations and the activation of `x`, if it consists of smooth units."""
        made = self._made_by(x)
        kind = None if made is None else self.kinds[made[0]]
        if made is None or kind is None:
            return None
        return self.groups[made[0]].take(made[1].reshape(x.shape)), kind

    def before_unit(self, x: Tensor) -> tuple[Tensor, float, float] | None:
        """Undo the last step, if `x` consists of nondecreasing units of equal slopes.

        Such a unit commutes with maxima: ``max(relu(a), relu(b)) = relu(max(a, b))``, which needs
        fewer units.

        Returns
        -------
        (Tensor, float, float) or None
            The pre-activations in the shape of `x`, and the slopes.
        """
        made = self._made_by(x)
        if made is None or self.kinds[made[0]] is not None:
            return None
        which, place = made
        left, right = (np.unique(slopes[which][place]) for slopes in (self.left, self.right))
        if left.size > 1 or right.size > 1 or min(left[0], right[0]) < 0.0 or left[0] == right[0]:
            return None
        z = self.groups[which].take(place.reshape(x.shape))
        return z, float(left[0]), float(right[0])

    def relu(self, z: Tensor) -> Tensor:
        """``max(z, 0)``."""
        return self.unit(z, 0.0, 1.0)

    def maximum(self, a: Tensor, b: Tensor) -> Tensor:
        """Return ``max(a, b)``, entry by entry, with broadcasting.

        In general it is ``b + relu(a - b)``.  If the variable parts are proportional,
        ``b = s a + c`` (``max(x, 0.1 x)``, ``max(x, -x)``, a constant b), one unit with slopes s
        and 1 suffices, except where its kink is so far away that adding it would round.
        """
        shape = np.broadcast_shapes(a.shape, b.shape)
        a, b = (x.broadcast(shape) for x in (a, b))
        a, b = (x.reshaped((x.size,)) for x in (a, b))
        (slope, kink), (inverse, back) = bend(a, b), bend(b, a)
        with np.errstate(invalid="ignore"):
            single = np.isfinite(slope) & (np.abs(kink) <= FAR)
            swapped = np.isfinite(inverse) & (np.abs(back) <= FAR) & ~single
        on_a = ~(single | swapped) & (np.abs(b.offset) > FAR)
        masks = single, swapped, on_a, ~(single | swapped | on_a)
        parts = [np.flatnonzero(mask) for mask in masks]
        one = self._bent(a.take(parts[0]), slope[parts[0]], kink[parts[0]])
        other = self._bent(b.take(parts[1]), inverse[parts[1]], back[parts[1]])
        two = [
            right + self.relu(left - right)
            for left, right in (
                (b.take(parts[2]), a.take(parts[2])),
                (a.take(parts[3]), b.take(parts[3])),
            )
        ]
        return assembled([one, other, *two], parts, shape)

    def _bent(self, steep: Tensor, slope: FloatArray, kink: FloatArray) -> Tensor:
        """``kink + max(t, slope t)`` for ``t = steep - kink``."""
        left, right = np.minimum(slope, 1.0), np.maximum(slope, 1.0)
        return self.unit(steep.shift(-kink), left, right).shift(kink)

    def minimum(self, a: Tensor, b: Tensor) -> Tensor:
        """``min(a, b) = -max(-a, -b)``."""
        return -self.maximum(-a, -b)
