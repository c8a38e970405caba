"""The numbers of this room."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Params:
    """What each number trades.

    Attributes
    ----------
    rate : float
        First step of dual ascent, as a share of a multiplier's natural size.
    momentum : float
        Share of the earlier directions in the next step; without it trained networks take 1.2
        times the nodes.
    steps : int
        Steps of bounds that are found once, for pairs of units and for models: tighter against
        time.
    pair_work : float
        Multiplications that may be spent on looking for pairs; the likeliest come first.
    lp_units : int
        Most unstable units whose pre-activations get linear programs if nobody asks: time.
    seconds : float
        Of what nobody asked for: linear programs, a round of dual ascent for a model (predicted
        ones), and a constant over all valid inputs that serves every row.
    """

    rate: float = 0.12
    momentum: float = 0.7
    steps: int = 20
    pair_work: float = 2e8
    lp_units: int = 150
    seconds: float = 2.0


PARAMS = Params()
