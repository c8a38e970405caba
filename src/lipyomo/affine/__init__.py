"""A network under partial phases as affine maps: in float64, in magnitudes, without rounding."""

from lipyomo.affine.exact import ExactSignal
from lipyomo.affine.signal import (
    FloatSignal,
    RangedSignal,
    SizeSignal,
    TrackedSignal,
    UnitMap,
    affine_pieces,
    carry,
    unit_maps_of,
)
from lipyomo.affine.system import FlatPhases, NodeForm, UnitSystem

__all__ = [
    "ExactSignal",
    "FlatPhases",
    "FloatSignal",
    "NodeForm",
    "RangedSignal",
    "SizeSignal",
    "TrackedSignal",
    "UnitMap",
    "UnitSystem",
    "affine_pieces",
    "carry",
    "unit_maps_of",
]
