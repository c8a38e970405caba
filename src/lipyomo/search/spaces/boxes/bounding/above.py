"""Affine upper bounds of the objective on boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.search.spaces.boxes.quadratics.on_cubes import QuadraticOnCube


class Above(NamedTuple):
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
        return self._replace(constant=self.constant + constant, fuzz=self.fuzz + fuzz)

    def plus(self, shift: FloatArray | float, unit: float) -> Above:
        """Return upper bounds of the objective plus `shift`, a number for each box."""
        fuzz = unit * (np.abs(self.constant) + np.abs(shift))
        constant, form = self.constant + shift + fuzz, self.form
        if form is not None:
            form = form.raised(shift + 4.0 * unit * (np.abs(form.constant) + np.abs(shift)))
        return self._replace(constant=constant, fuzz=self.fuzz + fuzz, form=form)
