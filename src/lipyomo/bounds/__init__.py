"""Bounds of pre-activations, adjoints and tangents: by intervals, by lines, by linear programs."""

from lipyomo.bounds.derivative import DerivativeBounds, adjoint_bounds, tangent_bounds
from lipyomo.bounds.layers import LayerBounds
from lipyomo.bounds.preactivation import preactivation_bounds

__all__ = [
    "DerivativeBounds",
    "LayerBounds",
    "adjoint_bounds",
    "preactivation_bounds",
    "tangent_bounds",
]
