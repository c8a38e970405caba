"""All parameters of recording proofs, in one place."""

from __future__ import annotations

from typing import NamedTuple

from lipyomo.base.numerics.rounding import EQUAL


class Params(NamedTuple):
    """Parameters of recording; they cannot make a proof wrong, only longer or impossible.

    Attributes
    ----------
    room : float
        Relative margin between the upper bounds of a result and of its proof, since certificates
        are strict.
    aim : float
        Relative distance below the upper bound at which floating-point bounds aim, so that the
        checker also proves them.  It is also the margin for networks with smooth units, whose
        checker computes in float64.
    multiplier_bits : int
        Bits of a target's largest multiplier, the others being integer multiples of the same unit:
        longer files against looser bounds.  Twice as many are used for full patterns and for
        refutations, which have no other slack.
    bound_bits : int
        Bits of written bounds, and of their largest weights; the margin of bounds is one unit of
        the last bit, relative to the pre-activation's range.
    gain : float
        Bounds are written if they cut off this share of a pre-activation's range.
    negligible : float
        Weights below this share of the largest are dropped from refutations.
    points : int
        Number of sampled points, which show that cases are not empty.
    looks : float
        Number of nodes that the averages taken over from the search count as.
    least_cut : float
        Boxes are cut if this removes such a share of a width: a longer file against fewer boxes.
    least_width : float
        Boxes narrower than this share of the domain are not bisected: where kinks meet in a point,
        some box stays open however small it is.
    small : float
        Boxes of two-slope networks narrower than this share of the domain are split at kinks, since
        bisection does not separate kinks that meet.
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
"""The default parameters."""
