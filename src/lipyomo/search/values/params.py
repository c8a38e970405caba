"""The numbers of this room, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Params:
    """What each number trades, and within which range it does not matter.

    Attributes
    ----------
    together : int
        Nodes that are split together: a batch costs less a node, but what its first nodes find
        comes too late for the others (8 to 32 alike).
    samples : int
        Points of the first look.
    starts, steps : int
        Of the best of them so many ascend, for so many steps.
    first : float
        Of the largest distance that matters: where the first program of a distance is.
    beyond : float
        How much farther than the distance, relatively, a point is taken, so that the value there is
        positive; below what counts as close.
    back : float
        By how much the next one is nearer, if that proved nothing.
    newton : int
        Programs that the distance of one node may take.
    closer : float
        Relative step of a distance at which these end: far below the tolerance of `exact`.
    price : float
        What violating a row by its range costs where that is allowed, times the sum of all costs.
    tolerance : float
        Of the solver, in programs whose numbers are of size one.
    box_inputs, box_units : int
        Most inputs for which the box is split, and open units up to which units are split even
        then: few, and exhaustive splits are cheap.
    least_width : float
        Boxes narrower than this share of the domain are not split: kinks that meet in a point stay
        open however often that is done.
    cancelled : float
        Share of the terms that cancel in a value of which a tolerance is a millionth: less is not
        told apart from rounding by linear programs, and takes for ever.
    """

    together: int = 16
    samples: int = 256
    starts: int = 16
    steps: int = 30
    first: float = 0.9
    beyond: float = 3e-7
    back: float = 0.2
    newton: int = 20
    closer: float = 1e-8
    price: float = 1e4
    tolerance: float = 1e-9
    box_inputs: int = 3
    box_units: int = 6
    least_width: float = 2.0**-8
    cancelled: float = 1e-5


PARAMS = Params()
