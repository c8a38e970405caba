"""Bounds of adjoints or tangents, for models of derivatives."""

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
class ChainLimits:
    """Bounds of all adjoints or tangents, as `adjoint_limits` and `tangent_limits` return them.

    Attributes
    ----------
    layers : list of (ndarray, ndarray)
        Lower and upper bounds (n,) of the derivatives that arrive at each hidden layer's units.
    end_lower, end_upper : ndarray
        Bounds of the gradient (d,) or of the derivative of the outputs (m,).
    """

    layers: list[tuple[FloatArray, FloatArray]]
    end_lower: FloatArray
    end_upper: FloatArray

    @classmethod
    def of(cls, bounds: DerivativeBounds, factor: float = 1.0) -> ChainLimits:
        """Scale derivative bounds by `factor` >= 0.

        The result holds for a starting set `factor` times as large as that of `bounds`.
        """
        layers = [
            (factor * low, factor * high)
            for low, high in zip(bounds.lower, bounds.upper, strict=True)
        ]
        return cls(layers, factor * bounds.end_lower, factor * bounds.end_upper)

    def check(self, layers: Sequence[Layer], end: int) -> None:
        """Raise `ProblemError` unless these are bounds for such layers and such an end."""
        sizes, units = (
            [low.size for low, _ in self.layers],
            [layer.units for layer in layers],
        )
        if sizes != units or self.end_lower.size != end:
            raise ProblemError(
                f"limits: they are for layers of {sizes} units and {self.end_lower.size} ends, the "
                f"network has {units} and {end}"
            )


def derivative_relaxation(relaxation: str) -> DerivativeRelaxation:
    """Return the relaxation of derivatives that goes with one of pre-activations."""
    return "interval" if relaxation == "interval" else "linear"


@with_one_blas_thread
def adjoint_limits(
    network: Network, known: LayerBounds, functionals: FloatArray | OutputNorm | Ball
) -> ChainLimits:
    """Bound the adjoints, by the relaxation that the pre-activation bounds were found with.

    Parameters
    ----------
    network : Network
    known : LayerBounds
        Bounds of the pre-activations, such as ``m.net.layer_bounds`` of a `ReluNetworkBlock`.
    functionals : ndarray, shape (k, m) or (m,), OutputNorm or Ball
        The functional lies in the hull of these rows, in the dual ball of that norm, or in that
        set.
    """
    relaxation = derivative_relaxation(known.relaxation)
    return ChainLimits.of(adjoint_bounds(network, known, functionals, relaxation))


@with_one_blas_thread
def tangent_limits(
    network: Network, known: LayerBounds, norm: InputNorm, factor: float = 1.0
) -> ChainLimits:
    """Bound the tangents for all directions of length at most `factor` in `norm`.

    The other parameters are those of `adjoint_limits`.
    """
    relaxation = derivative_relaxation(known.relaxation)
    return ChainLimits.of(tangent_bounds(network, known, norm, relaxation), factor)


def hull_of_functionals(norm: OutputNorm, m: int) -> FloatArray | OutputNorm:
    """Return functionals that determine a norm: few vertices, one of each pair +-y, or the norm."""
    vertices = norm.vertices(m)
    if vertices is None or len(vertices) > ONE_BY_ONE:
        return norm
    if norm.kind in ("l1", "linf") or len(vertices) == 1:
        return vertices
    return norm if norm.kind == "cross" else np.asarray(vertices)
