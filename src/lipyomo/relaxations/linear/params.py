"""Parameters of the linear relaxations."""

from __future__ import annotations

from typing import NamedTuple


class Params(NamedTuple):
    """Parameters and their trade-offs.

    Attributes
    ----------
    rate : float
        First step length of dual ascent, relative to a multiplier's natural size.
    momentum : float
        Weight of the earlier directions in the next step; without it trained networks take 1.2
        times the nodes.
    steps : int
        Dual ascent steps for bounds that are computed once, for models: tightness against time.
    lp_units : int
        Number of unstable units up to which ``auto`` solves linear programs: tightness against
        time.
    seconds : float
        Time for what was not explicitly requested: linear programs, a (predicted) round of dual
        ascent for a model, and a constant over all valid inputs that serves every row.
    """

    rate: float = 0.12
    momentum: float = 0.7
    steps: int = 20
    lp_units: int = 150
    seconds: float = 2.0


PARAMS = Params()
