"""Bounds along one derivative pass, by the sides of units: what models of derivatives are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import ProblemError
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.norms import ONE_BY_ONE, InputNorm, OutputNorm
from lipyomo.relaxations.linear.balls import Ball
from lipyomo.relaxations.linear.derivative import (
    DerivativeBounds,
    DerivativeRelaxation,
    adjoint_bounds,
    tangent_bounds,
)
from lipyomo.relaxations.linear.layers import LayerBounds


@dataclass(frozen=True)
class ArrivingBounds:
    """Bounds of what arrives at one layer's units, shapes (n,).

    Attributes
    ----------
    on_lower, on_upper : ndarray
        Given that the unit is on its right-hand slope.
    off_lower, off_upper : ndarray
        Given that it is on its left-hand slope.
    """

    on_lower: FloatArray
    on_upper: FloatArray
    off_lower: FloatArray
    off_upper: FloatArray

    @property
    def lower(self) -> FloatArray:
        """Lower bounds, whatever the switch is."""
        return np.minimum(self.on_lower, self.off_lower)

    @property
    def upper(self) -> FloatArray:
        """Upper bounds, whatever the switch is."""
        return np.maximum(self.on_upper, self.off_upper)


@dataclass(frozen=True)
class ChainLimits:
    """Bounds along one derivative pass, as `adjoint_limits` and `tangent_limits` find them.

    Attributes
    ----------
    layers : list of ArrivingBounds
        One a hidden layer.
    end_lower, end_upper : ndarray
        Of the gradient (d,) or of the derivative of the outputs (m,).
    """

    layers: list[ArrivingBounds]
    end_lower: FloatArray
    end_upper: FloatArray

    @classmethod
    def of(cls, bounds: DerivativeBounds, factor: float = 1.0) -> ChainLimits:
        """From the relaxation, the same whether a unit is on or off.

        The pass starts from a set that is `factor` (>= 0) times as large as that of `bounds`.
        """
        ends = [
            (factor * low, factor * high)
            for low, high in zip(bounds.lower, bounds.upper, strict=True)
        ]
        layers = [ArrivingBounds(*pair, *pair) for pair in ends]
        return cls(layers, factor * bounds.end_lower, factor * bounds.end_upper)

    def check(self, layers: Sequence[Layer], end: int) -> None:
        """Raise `ProblemError` unless these are bounds for such layers and such an end."""
        sizes, units = (
            [arriving.lower.size for arriving in self.layers],
            [layer.units for layer in layers],
        )
        if sizes != units or self.end_lower.size != end:
            raise ProblemError(
                f"limits: they are for layers of {sizes} units and {self.end_lower.size} ends, the "
                f"network has {units} and {end}"
            )


def derivative_relaxation(relaxation: str) -> DerivativeRelaxation:
    """The relaxation of derivative bounds that belongs to a relaxation of pre-activation bounds."""
    return "interval" if relaxation == "interval" else "linear"


@with_one_blas_thread
def adjoint_limits(
    network: Network, known: LayerBounds, functionals: FloatArray | OutputNorm | Ball
) -> ChainLimits:
    """Bounds of adjoints, on the relaxation of the pre-activation bounds.

    Parameters
    ----------
    network : Network
    known : LayerBounds
        Of the pre-activations, such as ``m.net.layer_bounds`` of a `ReluNetworkBlock`.
    functionals : ndarray, shape (k, m) or (m,), or OutputNorm
        The functional is in the hull of these rows, or in the dual ball of that norm.
    """
    relaxation = derivative_relaxation(known.relaxation)
    return ChainLimits.of(adjoint_bounds(network, known, functionals, relaxation))


@with_one_blas_thread
def tangent_limits(
    network: Network, known: LayerBounds, norm: InputNorm, factor: float = 1.0
) -> ChainLimits:
    """Bounds of tangents of directions up to the length `factor` in a norm of the inputs.

    The other parameters are those of `adjoint_limits`.
    """
    relaxation = derivative_relaxation(known.relaxation)
    return ChainLimits.of(tangent_bounds(network, known, norm, relaxation), factor)


def hull_of_functionals(norm: OutputNorm, m: int) -> FloatArray | OutputNorm:
    """Functionals that decide a norm, one of each pair +-y: few vertices, or the dual ball."""
    vertices = norm.vertices(m)
    if vertices is None or len(vertices) > ONE_BY_ONE:
        return norm
    if norm.kind in ("l1", "linf") or len(vertices) == 1:
        return vertices
    return norm if norm.kind == "cross" else np.asarray(vertices)
