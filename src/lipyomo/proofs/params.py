"""The numbers of proofs: what they trade."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Params:
    """What recording trades; none of it can make a proof wrong, only longer or impossible.

    Attributes
    ----------
    room : float
        Relative room between the upper ends of a result and of its proof: certificates are strict.
    smooth_room : float
        The same for networks with smooth units, whose checker computes in float64.
    aim : float
        Relative distance below the upper end that floating-point bounds aim at: where they are
        proved with their rounding errors, the checker finds the same.
    multiplier_bits : int
        Of the largest multiplier of a target, the others being whole multiples of the same unit:
        longer files against looser bounds.
    exact_bits : int
        The same where nothing else is lost: of full patterns, and of what refutes a case.
    weight_bits : int
        Of the largest weight of a pre-activation's bound.
    bound_bits : int
        Of stated bounds.
    slack : float
        Bounds are stated with so much room, as a share of the pre-activation's range.
    rough : float
        And with so much of the sizes of terms, weighted ones among them: the checker's chords have
        24 bits, its lines are those of float64 numbers and ours of float32.
    gain : float
        Bounds are written if they cut off this share of a pre-activation's range.
    near : float
        Slopes of lower lines as near as this to those that the checker takes are not written.
    negligible : float
        Weights below this share of the largest refute nothing.
    points : int
        Sampled points that tell which cases are not empty.
    looks : float
        Nodes that the averages of the search count as.
    sparse : float
        A layer's weights with at most this share of non-zero entries are written as pairs.
    least_cut : float
        Boxes are cut where that takes this share of a width: a longer file against fewer boxes.
    sign_weight : float
        Times that a direction's share of a gap counts when boxes are split.
    """

    room: float = 2.0**-40
    smooth_room: float = 1e-9
    aim: float = 1e-9
    multiplier_bits: int = 30
    exact_bits: int = 60
    weight_bits: int = 12
    bound_bits: int = 16
    slack: float = 1e-5
    rough: float = 2.0**-21
    gain: float = 0.2
    near: float = 0.1
    negligible: float = 1e-12
    points: int = 64
    looks: float = 100.0
    sparse: float = 0.25
    least_cut: float = 0.05
    sign_weight: float = 3.0


PARAMS = Params()
"""Those of the proofs that are written."""
