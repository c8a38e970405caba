"""The numbers of proofs: what they trade."""

from __future__ import annotations

from dataclasses import dataclass

from lipyomo.base.numerics.rounding import EQUAL


@dataclass(frozen=True)
class Params:
    """What recording trades; none of it can make a proof wrong, only longer or impossible.

    Attributes
    ----------
    room : float
        Relative room between the upper ends of a result and of its proof: certificates are strict.
    aim : float
        Relative distance below the upper end that floating-point bounds aim at: where they are
        proved with their rounding errors, the checker finds the same.  It is also the room of
        networks with smooth units, whose checker computes in float64.
    multiplier_bits : int
        Of the largest multiplier of a target, the others being whole multiples of the same unit:
        longer files against looser bounds.  Where nothing else is lost (full patterns, what
        refutes a case) they have twice as many.
    bound_bits : int
        Of stated bounds, and of their largest weights; their room is a unit of the last bit, of the
        pre-activation's range.
    gain : float
        Bounds are written if they cut off this share of a pre-activation's range.
    negligible : float
        Weights below this share of the largest refute nothing.
    points : int
        Sampled points that tell which cases are not empty.
    looks : float
        Nodes that the averages of the search count as.
    least_cut : float
        Boxes are cut where that takes this share of a width: a longer file against fewer boxes.
    least_width : float
        Boxes narrower than this share of the domain are not halved: where kinks meet in a point,
        some box is open however small it is.
    small : float
        Boxes of two-slope networks that are narrower than this share of the domain are split at
        kinks: where kinks meet, halving does not part them.
    """

    room: float = 2.0**-40
    aim: float = EQUAL
    multiplier_bits: int = 30
    bound_bits: int = 14
    gain: float = 0.2
    negligible: float = EQUAL
    points: int = 64
    looks: float = 100.0
    least_cut: float = 0.05
    least_width: float = 2.0**-50
    small: float = 2.0**-7


PARAMS = Params()
"""Those of the proofs that are written."""
