"""Certification: interior margins, witnesses, and their replay in exact arithmetic."""

from lipyomo.certify.margin import InteriorPoint, interior_margin, interior_point
from lipyomo.certify.rational import ExactReplay, replay
from lipyomo.certify.witness import deepen, make_witness, witness_of_pattern

__all__ = [
    "ExactReplay",
    "InteriorPoint",
    "deepen",
    "interior_margin",
    "interior_point",
    "make_witness",
    "replay",
    "witness_of_pattern",
]
