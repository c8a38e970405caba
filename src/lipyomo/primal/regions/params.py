"""The tuning parameters of regions."""

from __future__ import annotations

from typing import NamedTuple

from lipyomo.base.numerics.params import PARAMS as NUMERICS
from lipyomo.base.numerics.rounding import EQUAL


class Params(NamedTuple):
    """All tuning parameters of regions, in one place.

    Attributes
    ----------
    rounding : float
        Relative differences up to this may be rounding and are decided exactly; larger values take
        longer (1e-12 to 1e-7 decide the same).
    elastic : float
        The price of violating a chord, in margins (10 to 100 decide the same).  With less, a
        program may find a margin for a node that has none.
    cuts : int
        The largest number of tangents of a ball in one program, after which it stays undecided.
    wide : int
        With more inputs, the faces of the box are moved instead of written as rows.  With 784
        inputs this takes a fifth of the time, for margins a few percent smaller.
    secants : int
        The number of programs with moved faces: more find larger margins.
    tries : int
        The number of points that are tried around one on a kink, each eight times nearer than the
        one before, and of margins inside a Euclidean ball, each 0.4 times the one before.
    choices : int
        The largest number of sets of faces among which the nearest point to a ball's centre is
        searched in rational numbers.  With fewer, more thin regions stay undecided.
    weights : int
        In networks with more weights, exact values are only computed if gradients cancel.
    entries : int
        With more units times inputs, regions are not written as rows, and gradients are not exact.
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
