"""Semidefinite bounds with switches that depend on the inputs: a low-rank ascent for multipliers.

Every unstable unit k has a tangent ``u_k``, a pre-activation ``z_k``, and a switch y_k of 0 or 1
that multiplies both: ``s_k = y_k u_k`` and ``h_k = y_k z_k``, with ``h_k >= 0`` and
``h_k - z_k >= 0``.  Tangents are linear in the directions v and in the s of earlier layers,
pre-activations affine in the inputs ``m + r xi`` and in the h of earlier layers.  Bounds of
tangents alone maximise over all patterns, feasible at some input or not.  Here the Lagrangian

    c . (v, s) + sum_k p_k h_k + q_k (h_k - z_k),      p, q >= 0,

is relaxed as a whole (Shor): numbers become vectors, where v_i, xi_i and the constant one have
length one, and a switch becomes an orthogonal projection, the same for u_k and z_k
(`switches_proof` has the dual matrix).  The Lagrangian is linear in all v and xi together, and in
the projections of each layer, so each part can be maximised in closed form with the others fixed.
Vectors of a dozen components are enough (Burer and Monteiro), and a step costs a few products with
the weights; meanwhile p and q take subgradient steps.

The results are multipliers in single precision; `switches_proof` proves a bound by them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray

Single = npt.NDArray[np.floating[Any]]
"""Vectors as rows, in single precision."""

RANK = 16
"""Components of the vectors: with 10, 24 and 32 bounds are the same to a few thousandths."""

LENGTH, SHORTER, SHORTEST = 0.04, 0.25, 1e-3
"""First step length of the weights (0.02 to 0.08 end alike on most networks), its reduction factor
while steps make the Lagrangian rise, as with few inputs, and its smallest value."""

RISE = 2e-3
"""Relative increase of the Lagrangian that is tolerated, as the vectors are not optimal yet."""

DEPENDENT = 1e-9
"""Added to the diagonal of Gram matrices of unit vectors, which may be dependent."""

_TINY = 1e-12
"""Length below which a vector counts as zero."""


@dataclass(frozen=True, eq=False)
class SwitchedForm:
    """Tangents and pre-activations of the unstable units under some phases, and one functional.

    Attributes
    ----------
    tangents : ndarray, shape (F, d)
        Coefficients of v in the tangents.
    values : ndarray, shape (F + H, e)
        Coefficients of xi, in [-1, 1], in the pre-activations and in H more forms that are known to
        be nonnegative, those of units decided by splits.
    before : ndarray, shape (F + H, F)
        Coefficients of s in tangents and of h in values; the first F rows are strictly triangular.
    offsets : ndarray, shape (F + H,)
    inputs, units : ndarray, shapes (d,) and (F,)
        The functional: coefficients of v and of s.
    room : ndarray, shape (F + H,)
        Estimated mean squares of the pre-activations, as sums of independent terms.
    layers : tuple of slice
        The unstable units of each layer that has some.
    """

    tangents: FloatArray
    values: FloatArray
    before: FloatArray
    offsets: FloatArray
    inputs: FloatArray
    units: FloatArray
    room: FloatArray
    layers: tuple[slice, ...]

    @property
    def count(self) -> int:
        """Number of unstable units F."""
        return len(self.tangents)

    @property
    def inner(self) -> int:
        """Number I of unstable units before the last layer."""
        return int(self.layers[-1].start)

    @cached_property
    def single(self) -> SwitchedForm:
        """The form in single precision."""
        return self._with(lambda part: part.astype(np.float32))

    @cached_property
    def magnitudes(self) -> SwitchedForm:
        """The form with absolute values."""
        return self._with(np.abs)

    def _with(self, change: Callable[[FloatArray], FloatArray]) -> SwitchedForm:
        return replace(
            self,
            tangents=change(self.tangents),
            values=change(self.values),
            before=change(self.before),
            offsets=change(self.offsets),
            inputs=change(self.inputs),
            units=change(self.units),
        )


@dataclass(frozen=True, eq=False)
class Vectors:
    """The vectors that replace numbers; the constant one is the first unit vector.

    Attributes
    ----------
    directions : ndarray, shape (d, RANK)
        v.
    inputs : ndarray, shape (e, RANK)
        xi.
    bases : ndarray, shape (I, 4, RANK)
        Bases of the projections of inner units: orthonormal rows, or zeros.
    sides : ndarray, shape (F - I, RANK)
        ``2 y - 1`` of the last layer's units, applied to the constant one only.
    """

    directions: Single
    inputs: Single
    bases: Single
    sides: Single

    @classmethod
    def random(cls, form: SwitchedForm) -> Vectors:
        """Draw random vectors to start with."""
        rng, inner = np.random.default_rng(0), form.inner

        def drawn(count: int) -> Single:
            return normed(rng.standard_normal((count, RANK), dtype=np.float32))

        d, bases = form.tangents.shape[1], np.zeros((inner, 4, RANK), np.float32)
        bases[:, 0], other = drawn(inner), drawn(inner)
        bases[:, 1] = normed(other - _along(bases[:, 0], other)[:, None] * bases[:, 0])
        variables = form.values.shape[1]
        return cls(drawn(d), drawn(variables), bases, drawn(form.count - inner))


@dataclass(frozen=True, eq=False)
class Weights:
    """Multipliers of the inequalities ``h >= 0``, ``h - z >= 0`` (F,), and of known phases (H,)."""

    on: FloatArray
    off: FloatArray
    known: FloatArray

    @classmethod
    def none(cls, form: SwitchedForm) -> Weights:
        """Return zero multipliers."""
        nothing = np.zeros(form.count)
        return cls(nothing, nothing, np.zeros(len(form.values) - form.count))


@dataclass(frozen=True, eq=False)
class Flow:
    """Vectors of tangents u and pre-activations z, and of the switched s and h.

    Attributes
    ----------
    u, s, h : ndarray, shape (F, RANK)
        s and h are zero in the last layer, where no later unit uses them.
    z : ndarray, shape (F + H, RANK)
    """

    u: Single
    z: Single
    s: Single
    h: Single

    @classmethod
    def of(cls, form: SwitchedForm, vectors: Vectors) -> Flow:
        """Propagate forwards through all layers."""
        u, z = form.tangents @ vectors.directions, form.values @ vectors.inputs
        z[:, 0] += form.offsets
        return cls(u, z, np.zeros_like(u), np.zeros_like(u)).switched(form, vectors.bases)

    def switched(self, form: SwitchedForm, bases: Single) -> Flow:
        """Apply the projections of all layers to sums that do not include s and h yet."""
        u, z, s, h = self.u.copy(), self.z.copy(), self.s.copy(), self.h.copy()
        for layer in form.layers[:-1]:
            rows = slice(layer.stop, None)
            s[layer], h[layer] = _passed(bases[layer], u[layer]), _passed(bases[layer], z[layer])
            before = form.before[rows, layer]
            u[rows] += before[: form.count - layer.stop] @ s[layer]
            z[rows] += before @ h[layer]
        return Flow(u, z, s, h)


@dataclass(frozen=True, eq=False)
class Adjoints:
    """Derivatives of the Lagrangian by all tangents, pre-activations, s and h.

    Attributes
    ----------
    u : ndarray, shape (F, RANK)
    z : ndarray, shape (F + H, RANK)
    s, h : ndarray, shape (I, RANK)
    bases : ndarray, shape (I, 4, RANK)
        The projections that they were computed with.
    """

    u: Single
    z: Single
    s: Single
    h: Single
    bases: Single

    @classmethod
    def of(
        cls, form: SwitchedForm, vectors: Vectors, weights: Weights, flow: Flow | None = None
    ) -> Adjoints:
        """Propagate backwards through all layers, with the best projections for `flow` if given."""
        count, inner, bases = form.count, form.inner, vectors.bases.copy()
        on, off = weights.on.astype(np.float32), weights.off.astype(np.float32)
        u = np.zeros((count, RANK), np.float32)
        z = np.zeros((len(form.values), RANK), np.float32)
        s, h = np.zeros((2, inner, RANK), np.float32)
        y = 0.5 * vectors.sides
        y[:, 0] += 0.5
        u[inner:], z[inner:count] = form.units[inner:, None] * y, (on + off)[inner:, None] * y
        z[inner:count, 0] -= off[inner:]
        z[count:, 0] = weights.known
        for layer in reversed(form.layers[:-1]):
            before = form.before[layer.stop :, layer].T
            s[layer] = before[:, : count - layer.stop] @ u[layer.stop :]
            h[layer] = before @ z[layer.stop :]
            s[layer, 0] += form.units[layer]
            h[layer, 0] += (on + off)[layer]
            if flow is not None:
                bases[layer] = _best_bases(flow.u[layer], flow.z[layer], s[layer], h[layer])
            u[layer], z[layer] = _passed(bases[layer], s[layer]), _passed(bases[layer], h[layer])
            z[layer, 0] -= off[layer]
        return cls(u, z, s, h, bases)


@dataclass(frozen=True, eq=False)
class Standpoint:
    """State of an ascent.

    Attributes
    ----------
    vectors : Vectors
    weights : Weights
    value : float
        Value of the Lagrangian.
    length : float
        Step length of the weights, relative to one that would offset a unit's whole moment.
    """

    vectors: Vectors
    weights: Weights
    value: float = np.inf
    length: float = LENGTH

    @classmethod
    def begun(cls, form: SwitchedForm) -> Standpoint:
        """Start with random vectors and zero weights."""
        return cls(Vectors.random(form), Weights.none(form))

    def lowered(self, form: SwitchedForm, steps: int) -> Standpoint:
        """Take steps with varying weights, with shorter ones if the Lagrangian rises."""
        standing = self
        while True:
            found = standing.after(form, steps, moving=True)
            if not found.value > self.value * (1.0 + RISE) or standing.length < SHORTEST:
                return found
            standing = replace(standing, length=SHORTER * standing.length)

    def after(self, form: SwitchedForm, steps: int, moving: bool) -> Standpoint:
        """Take steps, with weights that vary if `moving`, else are fixed."""
        form, vectors, weights, value = form.single, self.vectors, self.weights, self.value
        flow = Flow.of(form, vectors)
        for _ in range(steps):
            found = Adjoints.of(form, vectors, weights, flow)
            directions = form.tangents.T @ found.u
            directions[:, 0] += form.inputs
            inputs = form.values.T @ found.z
            along, apart = _lengths(directions), _lengths(inputs)
            value = float(along.sum() + apart.sum())
            value += float(found.z[:, 0] @ form.offsets)
            sides = vectors.sides
            vectors = Vectors(normed(directions, along), normed(inputs, apart), found.bases, sides)
            flow = Flow.of(form, vectors)
            vectors = replace(vectors, sides=_sides(form, weights, flow))
            if moving:
                weights = _moved(form, vectors, weights, flow, found, self.length)
        return Standpoint(vectors, weights, value, self.length)


def look_ahead(form: SwitchedForm, standing: Standpoint) -> tuple[FloatArray, FloatArray]:
    """Return the decrease (F,) of the Lagrangian if a unit is off, and if on, all else fixed."""
    form, vectors, inner = form.single, standing.vectors, form.inner
    flow = Flow.of(form, vectors)
    found = Adjoints.of(form, vectors, standing.weights)
    pulls = _pulls(form, standing.weights, flow)
    off, whole = np.zeros((2, form.count))
    whole[inner:] = pulls[:, 0]
    off[inner:] = 0.5 * (pulls[:, 0] + _along(vectors.sides, pulls))
    off[:inner] = _along(found.s, flow.s[:inner]) + _along(found.h, flow.h[:inner])
    whole[:inner] = _along(found.s, flow.u[:inner]) + _along(found.h, flow.z[:inner])
    return np.maximum(off, 0.0), np.maximum(off - whole, 0.0)


def _pulls(form: SwitchedForm, weights: Weights, flow: Flow) -> Single:
    """Return the coefficients of the last layer's switches, (F - I, RANK)."""
    inner, both = form.inner, (weights.on + weights.off).astype(np.float32)
    last = slice(inner, form.count)
    found = form.units[last, None] * flow.u[last] + both[last, None] * flow.z[last]
    return np.asarray(found, np.float32)


def _sides(form: SwitchedForm, weights: Weights, flow: Flow) -> Single:
    return normed(_pulls(form, weights, flow))


def _moved(
    form: SwitchedForm,
    vectors: Vectors,
    weights: Weights,
    flow: Flow,
    adjoints: Adjoints,
    length: float,
) -> Weights:
    """Take a step of the weights against the moments of their inequalities."""
    inner, count = form.inner, form.count
    h = flow.h[:, 0].astype(float)
    z, last = flow.z[:, 0].astype(float), slice(inner, count)
    h[last] = 0.5 * (z[last] + _along(vectors.sides, flow.z[last]))
    worth = np.abs(form.units) * _lengths(flow.u)
    worth[:inner] = _lengths(adjoints.s) * _lengths(flow.u[:inner])
    step = length * worth / form.room[:count]
    known = length * float(worth.mean()) / form.room[count:]
    return Weights(
        np.maximum(weights.on - step * h, 0.0),
        np.maximum(weights.off - step * (h - z[:count]), 0.0),
        np.maximum(weights.known - known * z[count:], 0.0),
    )


def _best_bases(u: Single, z: Single, s: Single, h: Single) -> Single:
    """Return bases (n, 4, RANK) of the projections P that maximise ``s . P u + h . P z``.

    P projects onto the eigenvectors of positive eigenvalues of ``sym(u s^T + z h^T)``, which lie in
    the span of the four vectors.
    """
    four = np.stack([u, z, s, h], axis=1).astype(np.float64)
    sizes = np.maximum(np.linalg.norm(four, axis=2), _TINY)
    four /= sizes[:, :, None]
    gram = four @ four.transpose(0, 2, 1)
    gram[:, range(4), range(4)] += DEPENDENT
    lower = np.linalg.cholesky(gram)
    half = lower[:, :2] * (sizes[:, :2] * sizes[:, 2:])[:, :, None]
    matrix = half.transpose(0, 2, 1) @ lower[:, 2:]
    values, vectors = np.linalg.eigh(matrix + matrix.transpose(0, 2, 1))
    vectors *= (values > 0.0)[:, None, :]
    return (vectors.transpose(0, 2, 1) @ np.linalg.solve(lower, four)).astype(np.float32)


def _passed(bases: Single, rows: Single) -> Single:
    """Project rows (n, RANK) onto the spans of bases (n, 4, RANK)."""
    parts = (bases @ rows[:, :, None])[:, :, 0]
    return np.asarray((parts[:, None, :] @ bases)[:, 0])


def _along(left: Single, right: Single) -> Single:
    """Return the inner products of rows."""
    return np.asarray(np.einsum("nr,nr->n", left, right))


def _lengths(rows: Single) -> Single:
    return np.sqrt(_along(rows, rows))


def normed(rows: Single, lengths: Single | None = None) -> Single:
    """Scale rows to length one; `lengths` are computed by default."""
    lengths = _lengths(rows) if lengths is None else lengths
    return np.asarray(rows / np.maximum(lengths, _TINY)[:, None], np.float32)
