"""The numbers of this room, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from lipyomo.base.numerics.rounding import EQUAL


@dataclass(frozen=True)
class Params:
    """What each number trades.

    Attributes
    ----------
    starts, steps : int
        Points for each rival class, and gradient steps, in one search for an adversarial example:
        nearer examples against time.
    doublings : int
        How often the radius that was asked for is doubled, in a search for examples and for the
        certified radius.
    precision : float
        Relative width at which the bisection of a radius ends.
    radius_nodes : int
        Nodes that a search for the radius may split that is not asked to close it: a narrower
        bracket against time.
    slope : float
        Slopes above minus this share of the largest one count as not negative.
    stretch : float
        Relative amount by which a chart's unit ball is larger than the metric's: rounding of its
        inverse may take half of it.
    """

    starts: int = 4
    steps: int = 24
    doublings: int = 8
    precision: float = 1e-3
    radius_nodes: int = 32
    slope: float = 1e-5
    stretch: float = EQUAL


PARAMS = Params()
