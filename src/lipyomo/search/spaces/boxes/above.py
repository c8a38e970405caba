"""Affine functions that are not below the objective on boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.search.spaces.boxes.inputs import Inputs
from lipyomo.search.spaces.boxes.on_cubes import QuadraticOnCube


@dataclass(frozen=True, eq=False)
class Above:
    """``x . X + v . V + constant``, not below the objective on each of N boxes.

    Attributes
    ----------
    x, v : ndarray, shape (N, d)
    constant : ndarray, shape (N,)
    fuzz : ndarray, shape (N,)
        What of the constant pays for rounding.
    gaps : sequence of (ndarray, ndarray)
        What each unit of each layer adds for want of knowledge: in all, and of its tangent alone;
        shapes (N, n); none where that is not told.
    form : QuadraticOnCube, optional
        Not below the objective on the boxes, either, with the first layer's units as parabolas.
    """

    x: FloatArray
    v: FloatArray
    constant: FloatArray
    fuzz: FloatArray
    gaps: Sequence[tuple[FloatArray, FloatArray]] = ()
    form: QuadraticOnCube | None = None

    @property
    def total(self) -> FloatArray:
        """What all units add, shape (N,); rows of products count for both factors."""
        return np.asarray(sum(gap.sum(axis=1) for gap, _ in self.gaps))

    def raised(self, constant: FloatArray, fuzz: FloatArray) -> Above:
        """The functions, and numbers (N,), of which some pay for rounding."""
        return replace(self, constant=self.constant + constant, fuzz=self.fuzz + fuzz)

    def plus(self, shift: FloatArray | float, unit: float) -> Above:
        """Not below the objective and a number (N,) each."""
        fuzz = unit * (np.abs(self.constant) + np.abs(shift))
        constant, form = self.constant + shift + fuzz, self.form
        if form is not None:
            form = form.raised(shift + 4.0 * unit * (np.abs(form.constant) + np.abs(shift)))
        return replace(self, constant=constant, fuzz=self.fuzz + fuzz, form=form)

    def least(self, other: Above, inputs: Inputs) -> Above:
        """Of each box the function whose maximum is less."""
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
