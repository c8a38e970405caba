"""The numbers of this room, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from lipyomo.base.arrays import TOGETHER
from lipyomo.base.numerics.params import PARAMS as NUMERICS


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
    newton : int
        Programs that the distance of one node may take.
    cell_inputs : int
        Most inputs with which entries are bounded in batches of boxes: with six they end nowhere.
    price : float
        What violating a row by its range costs where that is allowed, times the sum of all costs.
    cancelled : float
        Share of the terms that cancel in a value of which a tolerance is a millionth: less is not
        told apart from rounding by linear programs, and takes for ever.
    twins : float
        Share of their ranges by which two units' pre-activations may differ to be twins: more rows
        against tighter ones.  Weights of eight bits differ by 0.03, strangers by 0.07 at least.
    """

    together: int = TOGETHER
    samples: int = 256
    starts: int = TOGETHER
    steps: int = 30
    newton: int = NUMERICS.interior_steps
    cell_inputs: int = 4
    price: float = 1e4
    cancelled: float = 1e-5
    twins: float = 0.05


PARAMS = Params()
