"""The bound ladder: interval, linear and LP bounds of pre-activations, adjoints and tangents."""

from lipyomo.bounds.derivative import DerivativeBounds, adjoint_bounds, tangent_bounds
from lipyomo.bounds.joint import GivenSwitch, tighten_adjoints, tighten_tangents
from lipyomo.bounds.layers import LayerBounds
from lipyomo.bounds.preactivation import preactivation_bounds

__all__ = [
    "DerivativeBounds",
    "GivenSwitch",
    "LayerBounds",
    "adjoint_bounds",
    "preactivation_bounds",
    "tangent_bounds",
    "tighten_adjoints",
    "tighten_tangents",
]
