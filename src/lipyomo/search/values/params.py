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
        Of the best of them so many ascend, for so many steps; derivatives are looked at so many
        points before they are bounded.
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
    cancelled : float
        Share of the terms that cancel in a value of which a tolerance is a millionth: less is not
        told apart from rounding by linear programs, and takes for ever.
    cell_inputs, cells : int
        Most inputs with which entries are bounded in batches of boxes, and boxes to begin with:
        with six inputs batches end nowhere.
    share : float
        Of an entry's tolerance, what a search may leave open: rounding and its offset take some.
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
    cancelled: float = 1e-5
    cell_inputs: int = 4
    cells: int = 64
    share: float = 0.4


PARAMS = Params()
