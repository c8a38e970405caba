"""Affine upper bounds of the objective on boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.search.spaces.boxes.quadratics.on_cubes import QuadraticOnCube
from lipyomo.search.spaces.boxes.relaxing.inputs import Inputs


@dataclass(frozen=True, eq=False)
class Above:
    """Affine functions ``x . X + v . V + constant`` that bound the objective from above on N boxes.

    Attributes
    ----------
    x, v : ndarray, shape (N, d)
    constant : ndarray, shape (N,)
    fuzz : ndarray, shape (N,)
        The part of the constant that covers rounding errors.
    gaps : sequence of (ndarray, ndarray)
        Relaxation gap that each unit of each layer adds, in all and by its tangent alone, shapes
        (N, n); empty where these are not computed.
    form : QuadraticOnCube, optional
        Quadratic upper bound of the objective, with the first layer's units as parabolas.
    """

    x: FloatArray
    v: FloatArray
    constant: FloatArray
    fuzz: FloatArray
    gaps: Sequence[tuple[FloatArray, FloatArray]] = ()
    form: QuadraticOnCube | None = None

    @property
    def total(self) -> FloatArray:
        """Sum of the gaps of all units, shape (N,); rows of products count for both factors."""
        return np.asarray(sum(gap.sum(axis=1) for gap, _ in self.gaps))

    def raised(self, constant: FloatArray, fuzz: FloatArray) -> Above:
        """Add numbers (N,) to the constants and to the part of them that covers rounding."""
        return replace(self, constant=self.constant + constant, fuzz=self.fuzz + fuzz)

    def plus(self, shift: FloatArray | float, unit: float) -> Above:
        """Return upper bounds of the objective plus `shift`, a number for each box."""
        fuzz = unit * (np.abs(self.constant) + np.abs(shift))
        constant, form = self.constant + shift + fuzz, self.form
        if form is not None:
            form = form.raised(shift + 4.0 * unit * (np.abs(form.constant) + np.abs(shift)))
        return replace(self, constant=constant, fuzz=self.fuzz + fuzz, form=form)

    def least(self, other: Above, inputs: Inputs) -> Above:
        """Return, for each box, the function with the smaller maximum."""
        x, v, _ = inputs
        tops = [
            one.constant
            + (one.x * x.middle + np.abs(one.x) * x.radius).sum(axis=1)
            + (one.v * v.middle + np.abs(one.v) * v.radius).sum(axis=1)
            for one in (self, other)
        ]
        less = ~(tops[0] <= tops[1])
        alone = less[:, None]
        return Above(
            np.where(alone, other.x, self.x),
            np.where(alone, other.v, self.v),
            np.where(less, other.constant, self.constant),
            np.where(less, other.fuzz, self.fuzz),
            [
                (np.where(alone, theirs[0], ours[0]), np.where(alone, theirs[1], ours[1]))
                for ours, theirs in zip(self.gaps, other.gaps, strict=True)
            ],
        )
