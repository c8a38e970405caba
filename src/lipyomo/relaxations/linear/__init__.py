"""Bounds of pre-activations, adjoints and tangents: by intervals, by lines, by linear programs."""

from lipyomo.relaxations.linear.derivative import DerivativeBounds, adjoint_bounds, tangent_bounds
from lipyomo.relaxations.linear.layers import LayerBounds
from lipyomo.relaxations.linear.preactivation import preactivation_bounds

__all__ = [
    "DerivativeBounds",
    "LayerBounds",
    "adjoint_bounds",
    "preactivation_bounds",
    "tangent_bounds",
]
