"""Norms, their dual balls, and the operator norm of a Jacobian.

The Lipschitz constant from ``|.|_alpha`` to ``|.|_beta`` is the largest operator norm of a
Jacobian J,

    ||J||_{alpha -> beta} = max_{|v|_alpha <= 1} |J v|_beta = max_{y in B} |J^T y|_{alpha*}

with B the dual ball of beta.  A norm whose dual ball is a polytope is called linear; its maximum
sits at a vertex of B.  The cross norm and its one-sided form cross(i) (robustness of a class)
are linear norms with O(m^2) and O(m) vertices.  Source: seed paper LipMIP, section 5 and E.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from lipyomo.base.arguments import brief, one_of, real_numbers
from lipyomo.base.arrays import FloatArray, lengths, read_only
from lipyomo.base.errors import NormError, ProblemError
from lipyomo.base.numerics.exact import approximate, exact, exact_vertices
from lipyomo.base.numerics.rounding import gamma
from lipyomo.base.quantities import norm_name
from lipyomo.base.system.memory import BATCH

InputNorm = Literal["l1", "l2", "linf"]
NormKind = Literal["l1", "l2", "linf", "cross", "cross(i)", "linear"]
DUAL: dict[str, InputNorm] = {"l1": "linf", "l2": "l2", "linf": "l1"}

ONE_BY_ONE = 512
"""Largest number of vertices of a dual ball, or of bounds of entries, that are treated one by one;
more are treated as a whole, or in groups.  The dual ball of l1 with ten outputs has this number of
vertices, up to sign."""


def check_input_norm(name: Any) -> InputNorm:
    """Convert a name, or 1, 2 or infinity, to an input norm; `NormError` if it is none."""
    name = norm_name(name)
    one_of(name, get_args(InputNorm), "input norm", NormError)
    return cast(InputNorm, name)


def vector_norm(values: FloatArray, norm: InputNorm) -> FloatArray:
    """Return the norms of the vectors along the last axis of `values`."""
    if norm == "l1":
        return np.asarray(np.abs(values).sum(axis=-1))
    if norm == "linf":
        return np.asarray(np.abs(values).max(axis=-1, initial=0.0))
    return lengths(values)


def maximiser(gradient: FloatArray, norm: InputNorm, axis: int = -1) -> FloatArray:
    """Return directions v with ``|v|_norm <= 1`` along an axis that maximise ``gradient . v``."""
    if norm == "linf":
        return np.where(gradient >= 0, 1.0, -1.0).astype(gradient.dtype, copy=False)
    v = np.zeros_like(gradient)
    if norm == "l1":
        if gradient.size:
            k = np.abs(gradient).argmax(axis=axis, keepdims=True)
            sign = np.where(np.take_along_axis(gradient, k, axis=axis) >= 0, 1.0, -1.0)
            np.put_along_axis(v, k, sign, axis=axis)
        return v
    size = np.expand_dims(lengths(gradient, axis=axis), axis)
    return np.divide(gradient, size, out=v, where=size > 0)


class OutputNorm(ABC):
    """A norm on the outputs, defined by its dual ball.

    Attributes
    ----------
    label : int or None
        The output that cross(i) compares with the others; None for other norms.
    excess : float
        Relative distance by which vertices may lie outside the dual ball; their hull contains it.
    proved : bool
        Whether that is proved.
    """

    label: int | None = None
    excess: float = 0.0
    proved: bool = True

    @property
    @abstractmethod
    def name(self) -> str:
        """Name as shown to users and read by `parse_output_norm`."""

    @abstractmethod
    def vertices(self, m: int) -> FloatArray | None:
        """Return vertices of the dual ball, one of each pair +-y, (k, m); None if too many."""

    def inequalities(self, m: int) -> tuple[FloatArray, FloatArray] | None:
        """Return (A, b) of the dual ball ``{y : A y <= b}``; None if not linear or not known."""
        return None

    def value(self, outputs: FloatArray) -> FloatArray:
        """Return the norms of output vectors along the last axis."""
        vertices = self.vertices(outputs.shape[-1])
        assert vertices is not None  # norms without vertices override this
        return np.asarray(np.abs(outputs @ vertices.T).max(axis=-1))

    def largest(self, sizes: FloatArray) -> FloatArray:
        """Return the largest norms of outputs with absolute values at most `sizes` (last axis).

        If functionals have entries of both signs, this is more than the norm of `sizes`.
        """
        if self.dual_ball != "hull":
            return self.value(sizes)
        vertices = self.vertices(sizes.shape[-1])
        assert vertices is not None  # a hull has them
        return np.asarray((sizes @ np.abs(vertices).T).max(axis=-1))

    @property
    @abstractmethod
    def kind(self) -> NormKind:
        """Kind of norm by which methods are chosen: the name without label, or ``linear``."""

    @property
    def dual_ball(self) -> Literal["cube", "round", "hull"]:
        """Shape of the dual ball: the cube of signs, the Euclidean ball, or a hull of vertices."""
        return "hull"

    @property
    def is_linear(self) -> bool:
        """Whether the dual ball is a polytope."""
        return True

    def attaining(self, outputs: FloatArray) -> FloatArray:
        """Return functionals y of the dual ball with ``y . outputs = |outputs|``, both (..., m)."""
        vertices = self.vertices(outputs.shape[-1])
        assert vertices is not None  # norms without vertices override this
        products = (outputs @ vertices.T).reshape(-1, len(vertices))
        best = np.abs(products).argmax(axis=1)
        sign = np.where(products[np.arange(len(best)), best] >= 0, 1.0, -1.0)
        return np.asarray((vertices[best] * sign[:, None]).reshape(outputs.shape))

    def check(self, m: int) -> None:
        """Raise `NormError` if the norm does not fit `m` outputs."""
        if m < 1:
            raise NormError("a network without outputs has no output norm")

    def __repr__(self) -> str:
        return f"OutputNorm({self.name})"


def signs_fit(count: int) -> bool:
    """Return whether the sign vectors of length `count` are few enough to be enumerated."""
    return 8 * count << max(count - 1, 0) <= BATCH


def _signs(count: int) -> FloatArray:
    """Return all sign vectors of length `count`, one of each pair, shape (2^(count-1), count)."""
    index = np.arange(1 << max(count - 1, 0))[:, None]
    bits = (index >> np.arange(count)) & 1
    return 1.0 - 2.0 * bits.astype(np.float64)


@dataclass(frozen=True, repr=False)
class L1Output(OutputNorm):
    """The l1 norm: its dual ball is the cube [-1, 1]^m."""

    name = kind = "l1"
    dual_ball = "cube"

    def attaining(self, outputs: FloatArray) -> FloatArray:
        """Return the signs of the outputs."""
        return np.where(outputs >= 0, 1.0, -1.0)

    def vertices(self, m: int) -> FloatArray | None:
        """Return the sign vectors, or None if there are too many."""
        return _signs(m) if signs_fit(m) else None

    def inequalities(self, m: int) -> tuple[FloatArray, FloatArray]:
        """``-1 <= y <= 1``."""
        return np.vstack([np.eye(m), -np.eye(m)]), np.ones(2 * m)

    def value(self, outputs: FloatArray) -> FloatArray:
        """Return the sum of absolute values."""
        return vector_norm(outputs, "l1")


@dataclass(frozen=True, repr=False)
class LinfOutput(OutputNorm):
    """The linf norm: its dual ball is conv{+-e_i}."""

    name = kind = "linf"

    def vertices(self, m: int) -> FloatArray:
        """Return the unit vectors."""
        return np.eye(m)

    def inequalities(self, m: int) -> tuple[FloatArray, FloatArray] | None:
        """Return the 2^m facets of the cross-polytope; None if there are too many."""
        if not signs_fit(m):
            return None
        half = _signs(m)
        return np.vstack([half, -half]), np.ones(2 * len(half))

    def value(self, outputs: FloatArray) -> FloatArray:
        """Return the largest absolute value."""
        return vector_norm(outputs, "linf")

    def largest(self, sizes: FloatArray) -> FloatArray:
        """Return the largest size."""
        return vector_norm(sizes, "linf")


@dataclass(frozen=True, repr=False)
class L2Output(OutputNorm):
    """The Euclidean norm; not linear."""

    name = kind = "l2"
    dual_ball = "round"
    is_linear = False

    def vertices(self, m: int) -> FloatArray | None:
        """The Euclidean ball is no polytope, except for one output."""
        return np.ones((1, 1)) if m == 1 else None

    def inequalities(self, m: int) -> tuple[FloatArray, FloatArray] | None:
        """The Euclidean ball is no polytope, except for one output."""
        return (np.array([[1.0], [-1.0]]), np.ones(2)) if m == 1 else None

    def attaining(self, outputs: FloatArray) -> FloatArray:
        """Return the outputs, scaled to length one."""
        size = lengths(outputs)[..., None]
        return np.asarray(outputs / np.where(size > 0, size, 1.0))

    def value(self, outputs: FloatArray) -> FloatArray:
        """Euclidean length."""
        return vector_norm(outputs, "l2")


@dataclass(frozen=True, repr=False)
class CrossOutput(OutputNorm):
    """The cross norm, dual ball conv{+-e_i, e_i - e_j} (LipMIP, Definition 22).

    With `label` i it is cross(i), with the vertices e_i - e_j and e_i only: it measures how fast
    the margin of class i over any other class can change.
    """

    label: int | None = None

    @property
    def name(self) -> str:
        """``cross`` or ``cross(i)``."""
        return "cross" if self.label is None else f"cross({self.label})"

    @property
    def kind(self) -> NormKind:
        """``cross`` or ``cross(i)``."""
        return "cross" if self.label is None else "cross(i)"

    def check(self, m: int) -> None:
        """Raise `NormError` if the label is not an output."""
        if self.label is not None and not 0 <= self.label < m:
            raise NormError(
                f"label {self.label} is out of range.  Remedy: the network has outputs 0 to {m - 1}"
            )

    def vertices(self, m: int) -> FloatArray:
        """Unit vectors and their differences."""
        eye = np.eye(m)
        if self.label is not None:
            rows = eye[self.label] - eye
            rows[self.label] = eye[self.label]
            return np.asarray(rows)
        i, j = np.triu_indices(m, 1)
        return np.vstack([eye, eye[i] - eye[j]])


class LinearOutput(OutputNorm):
    """A linear norm given by the user: the vertices or the inequalities of its dual ball.

    A single vertex c is the scalar functional ``|c . f|`` (a seminorm).

    Parameters
    ----------
    vertices : array_like, shape (k, m), optional
        Points y whose hull with their negatives is the dual ball.
    A, b : array_like, shapes (r, m) and (r,), optional
        The dual ball as ``{y : A y <= b}``; it must be bounded and contain 0 in its interior.
    name : str, optional

    Raises
    ------
    NormError
        If neither or both forms are given, or they do not define a dual ball.
    """

    def __init__(
        self,
        vertices: npt.ArrayLike | None = None,
        A: npt.ArrayLike | None = None,
        b: npt.ArrayLike | None = None,
        name: str = "linear",
    ) -> None:
        self._name = name
        self._rows: tuple[FloatArray, FloatArray] | None = None
        rows = A is not None and b is not None
        if (vertices is None) != rows or (vertices is not None and (A, b) != (None, None)):
            raise NormError("a linear norm takes either the vertices or A and b of its dual ball")
        if vertices is not None:
            points = np.atleast_2d(real_numbers(vertices, "the vertices", NormError))
        else:
            self._rows = (
                np.atleast_2d(real_numbers(A, "the dual ball's A", NormError)),
                real_numbers(b, "the dual ball's b", NormError),
            )
            points, self.excess, self.proved = _around(*self._rows)
        if points.ndim != 2 or not points.size or not np.isfinite(points).all():
            raise NormError("the vertices of a dual ball must be a non-empty finite (k, m) array")
        self._vertices = read_only(points)

    kind = "linear"

    @property
    def name(self) -> str:
        """The name given by the user."""
        return self._name

    def check(self, m: int) -> None:
        """Raise `NormError` if the dimension of the dual ball is not `m`."""
        if self._vertices.shape[1] != m:
            raise NormError(
                f"{self._name}: it has {self._vertices.shape[1]} entries, "
                f"the network has {m} outputs"
            )

    def vertices(self, m: int) -> FloatArray:
        """Return the vertices, as given, or computed and rounded outwards."""
        return self._vertices

    def inequalities(self, m: int) -> tuple[FloatArray, FloatArray] | None:
        """Return the inequalities, if the user gave them."""
        return self._rows


def _around(rows: FloatArray, right: FloatArray) -> tuple[FloatArray, float, bool]:
    """Return points whose hull contains ``rows y <= right``, their `excess`, and whether proved.

    If the true vertices differ from the rounded ones by at most a share e of the ball, the ball
    lies in the hull of the rounded ones divided by 1 - e.
    """
    points = _vertices_of(rows, right)
    found = exact_vertices(rows, right)
    if found is not None:
        points = np.array([[approximate(value) for value in y] for y in found])
        if all(
            exact(float(value)) == true
            for row, y in zip(points, found, strict=True)
            for value, true in zip(row, y, strict=True)
        ):
            return points, 0.0, True
    sizes = (np.abs(points) @ np.abs(rows).T) / right
    share = gamma(rows.shape[1] + 8) * float(sizes.max())
    points = points * (1.0 + 2.0 * share)
    outside = float(((points @ rows.T) / right).max()) - 1.0
    return points, max(outside, 0.0) + 2.0 * share, found is not None


def _vertices_of(rows: FloatArray, right: FloatArray) -> FloatArray:
    """Return the vertices of the bounded polytope ``rows y <= right``, which has 0 inside."""
    from scipy.spatial import HalfspaceIntersection, QhullError

    if rows.ndim != 2 or right.shape != (len(rows),):
        raise NormError(f"A has shape {rows.shape} and b {right.shape}: expected (r, m) and (r,)")
    if not (np.isfinite(rows).all() and np.isfinite(right).all() and (right > 0).all()):
        raise NormError("the dual ball must hold 0 in its interior: finite A and b > 0")
    m = rows.shape[1]
    if m == 1:
        with np.errstate(divide="ignore"):
            ends = right / rows[:, 0]
        up, down = ends[ends > 0].min(initial=np.inf), ends[ends < 0].max(initial=-np.inf)
        points = np.array([[up], [down]])
    else:
        try:
            points = HalfspaceIntersection(np.hstack([rows, -right[:, None]]), np.zeros(m))
        except QhullError:
            raise NormError(
                "the dual ball is no bounded polytope.  Remedy: add rows until A y <= b is bounded"
            ) from None
        points = np.unique(points.intersections, axis=0)
    if not np.isfinite(points).all():
        raise NormError("the dual ball is unbounded.  Remedy: add rows until A y <= b is bounded")
    return np.asarray(points)


def functional(c: npt.ArrayLike) -> LinearOutput:
    """Return the norm of the scalar functional ``|c . f|``; `c` has shape (m,)."""
    vector = real_numbers(c, "the functional", NormError)
    if vector.ndim != 1:
        raise NormError(f"the functional has shape {vector.shape}, expected one number an output")
    return LinearOutput(vertices=vector[None, :], name="functional")


def read_functional(c: npt.ArrayLike, outputs: int) -> FloatArray:
    """Check a given functional for a network with `outputs` outputs; read-only.

    Raises
    ------
    ProblemError
        If it does not fit, or is not finite.
    """
    row = real_numbers(c, "the functional", ProblemError).reshape(-1)
    if row.size != outputs:
        raise ProblemError(
            f"the functional has {row.size} entries, the network has {outputs} outputs"
        )
    if not np.isfinite(row).all():
        raise ProblemError("the functional holds NaN or infinite entries")
    return read_only(row)


def output_norm_of(norm: str | OutputNorm) -> OutputNorm:
    """Return a given norm, or the norm of a name (see `parse_output_norm`)."""
    return norm if isinstance(norm, OutputNorm) else parse_output_norm(norm)


def parse_output_norm(text: str) -> OutputNorm:
    """Read the name of an output norm.

    Parameters
    ----------
    text : str
        ``l1``, ``l2``, ``linf``, ``cross`` or ``cross(i)`` with the number i of an output.

    Returns
    -------
    OutputNorm

    Raises
    ------
    NormError
        If the name is none of these.
    """
    text = norm_name(text)
    if not isinstance(text, str):
        raise NormError(
            f"the output norm is {brief(text)}.  Remedy: use l1, l2, linf, cross, cross(LABEL) or "
            "an OutputNorm"
        )
    name = text.strip().lower()
    simple: dict[str, OutputNorm] = {
        "l1": L1Output(),
        "l2": L2Output(),
        "linf": LinfOutput(),
        "cross": CrossOutput(),
    }
    if name in simple:
        return simple[name]
    if name.startswith("cross(") and name.endswith(")") and name[6:-1].strip().isdecimal():
        return CrossOutput(int(name[6:-1]))
    raise NormError(
        f"unknown output norm '{text}'.  Remedy: use l1, l2, linf, cross or cross(LABEL)"
    )
