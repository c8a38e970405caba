"""The bound ladder: interval, linear and LP bounds of pre-activations, adjoints and tangents."""

from lipyomo.bounds.derivative import DerivativeBounds, adjoint_bounds, tangent_bounds
from lipyomo.bounds.preactivation import (
    LayerBounds,
    batched_preactivation_bounds,
    preactivation_bounds,
)

__all__ = [
    "DerivativeBounds",
    "LayerBounds",
    "adjoint_bounds",
    "batched_preactivation_bounds",
    "preactivation_bounds",
    "tangent_bounds",
]
