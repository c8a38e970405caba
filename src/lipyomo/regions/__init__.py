"""Activation regions: whether a pattern has interior in the domain, and points that show it."""

from lipyomo.regions.margin import InteriorPoint, interior_margin, interior_point
from lipyomo.regions.witness import deepen, make_witness, witness_of_pattern

__all__ = [
    "InteriorPoint",
    "deepen",
    "interior_margin",
    "interior_point",
    "make_witness",
    "witness_of_pattern",
]
