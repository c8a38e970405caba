"""The bound ladder: interval, linear and LP bounds of pre-activations, adjoints and tangents."""

from lipyomo.bounds.derivative import DerivativeBounds, adjoint_bounds, tangent_bounds
from lipyomo.bounds.joint import tighten_adjoints, tighten_tangents
from lipyomo.bounds.preactivation import (
    LayerBounds,
    batched_preactivation_bounds,
    preactivation_bounds,
)
from lipyomo.bounds.probing import (
    GivenSwitch,
    Probes,
    adjoints_given_switch,
    probe,
    tangents_given_switch,
)

__all__ = [
    "DerivativeBounds",
    "GivenSwitch",
    "LayerBounds",
    "Probes",
    "adjoint_bounds",
    "adjoints_given_switch",
    "batched_preactivation_bounds",
    "preactivation_bounds",
    "probe",
    "tangent_bounds",
    "tangents_given_switch",
    "tighten_adjoints",
    "tighten_tangents",
]
