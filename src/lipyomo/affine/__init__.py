"""A network under partial phases as affine maps: in float64, in magnitudes, without rounding."""

from lipyomo.affine.exact import ExactSignal
from lipyomo.affine.signal import (
    FloatSignal,
    Passing,
    RangedSignal,
    SizeSignal,
    TrackedSignal,
    affine_pieces,
    carry,
    passings,
)
from lipyomo.affine.system import FlatPhases, NodeForm, UnitSystem

__all__ = [
    "ExactSignal",
    "FlatPhases",
    "FloatSignal",
    "NodeForm",
    "Passing",
    "RangedSignal",
    "SizeSignal",
    "TrackedSignal",
    "UnitSystem",
    "affine_pieces",
    "carry",
    "passings",
]
