"""Activation regions: whether a pattern has interior in the domain, and points that show it."""

from lipyomo.networks.combined import side_by_side
from lipyomo.primal.regions.answer import Interior
from lipyomo.primal.regions.full import examine
from lipyomo.primal.regions.joint import joint_interior_point, joint_pattern
from lipyomo.primal.regions.margin import InteriorPoint, interior_point
from lipyomo.primal.regions.witness import make_witness, witness_of_pattern

__all__ = [
    "Interior",
    "InteriorPoint",
    "examine",
    "interior_point",
    "joint_interior_point",
    "joint_pattern",
    "make_witness",
    "side_by_side",
    "witness_of_pattern",
]
