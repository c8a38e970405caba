"""Activation regions: whether a pattern has interior in the domain, and points that show it.

`partial.py` answers this for nodes, `full.py` for full patterns.  Points become witnesses in
`witness.py` and `smooth_witness.py`, with numbers that are exact (`replay.py`) or enclosed
(`ball_arithmetic.py`, `value.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lipyomo.base.modules import imported_when_used
from lipyomo.primal.regions.margin import Interior, InteriorPoint, interior_point
from lipyomo.primal.regions.witness import make_witness, witness_of_pattern

if TYPE_CHECKING:
    from lipyomo.networks.combined import side_by_side
    from lipyomo.primal.regions.full import examine
    from lipyomo.primal.regions.joint import joint_interior_point, joint_pattern

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

__getattr__, __dir__ = imported_when_used(
    __name__,
    {
        "lipyomo.networks.combined": ("side_by_side",),
        ".full": ("examine",),
        ".joint": (
            "joint_interior_point",
            "joint_pattern",
        ),
    },
)
