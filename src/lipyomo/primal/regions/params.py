"""The numbers of this room."""

from __future__ import annotations

from dataclasses import dataclass

from lipyomo.base.numerics.params import PARAMS as NUMERICS
from lipyomo.base.numerics.rounding import EQUAL


@dataclass(frozen=True)
class Params:
    """What each number trades.

    Attributes
    ----------
    rounding : float
        Relative differences that may be rounding: more of them are looked at exactly, which takes
        longer (1e-12 to 1e-7 decide the same).
    elastic : float
        Price of leaving a chord, in margins (10 to 100 decide the same): less, and a program may
        find a margin where a node has none.
    cuts : int
        Tangents of a ball that one program may take before it stays undecided: time.
    wide : int
        Inputs from which on the faces of the box are moved instead of written as rows: with 784
        inputs a fifth of the time for margins a few percent smaller.
    secants : int
        Programs with moved faces: time against the size of the margin that is found.
    tries : int
        Points that are tried around one on a kink, each eight times nearer than the one before, and
        margins inside a Euclidean ball, each 0.4 times the one before.
    choices : int
        Sets of faces among which the nearest point to a ball's centre is looked for in rational
        numbers: time against thin regions that stay undecided.
    weights : int
        In networks with more weights, exact values are computed only where gradients cancel.
    entries : int
        Units times inputs from which regions are not written out as rows, nor gradients exactly.
    """

    rounding: float = EQUAL
    elastic: float = 10.0
    cuts: int = 60
    wide: int = 40
    secants: int = 4
    tries: int = 16
    choices: int = NUMERICS.sets
    weights: int = 1 << 19
    entries: int = 2_000_000


PARAMS = Params()
