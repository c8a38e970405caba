"""The numbers of this room, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from lipyomo.base.arrays import TOGETHER
from lipyomo.base.numerics.rounding import CLOSED
from lipyomo.base.system.memory import BATCH, CACHED
from lipyomo.search.engine.params import BUNDLE, HALVED


@dataclass(frozen=True)
class Params:
    """What each number trades, and within which range it does not matter.

    Attributes
    ----------
    slack : float
        Relative distance from the incumbent at which a bound counts as met: boxes against the last
        digits; below the tolerance of `exact`.
    bundle : int
        Most boxes of a node.
    bundle_bytes : int
        Boxes of wide networks are fewer a node: the rows of their largest layer fill so much.
    chunk_bytes : int
        Boxes are bounded so many at a time that these rows fill as much: with what a cache holds,
        calls take longer than what leaves it.
    chunk_bytes_of_products : int
        The same in networks with products, which have many small arrays a box: calls cost more than
        what leaves the cache.
    samples : int
        Points that the first look for a good one evaluates, in networks of common size.
    starts : int
        The best of them from which ascents begin.
    again : int
        Middles of the best boxes from which they begin later on.
    steps : int
        Most steps of an ascent.
    tries : int
        Ends of ascents that are evaluated exactly: the best may lie on a kink.
    rounded : float
        Boxes of networks with products are looked at for what rounding alone leaves of their bounds
        where their widths are at most this share of the domain's: a look takes as long as a bundle.
    pause : float
        Ascents from the best boxes come again after so many times the work that was done before.
    wide : int
        Inputs from which on the gradient's entries are bounded one by one at the root: with so
        many, halving them does not lead far.
    vast : int
        Inputs from which on a root's bounds are lowered by programs for slopes and inputs together,
        and boxes come after them: a program of a hundred units takes a second.
    sign_weight : float
        How often the gap that goes back to an open sign, or to a jump of a slope, counts against
        that of an input: the former are decided by one split, the latter is halved.
    sign_weight_of_products : float
        The same in networks with products (6 to 20 alike): adjoints of their factors grow with the
        range of v, so that more of all gaps goes back to open signs than is told of them.
    tangents : int
        Tangents of a ball whose multipliers are chosen, one after another: time a box against
        boxes.
    second : float
        Boxes of networks with products are bounded to second order as well where the first bound is
        above the cutoff by at most so much, relative to it: on wider ones that is seldom less.
    far : float
        Boxes of networks with products have four children at a time where their bound is above the
        cutoff by more than that, relative to it: of two, less than half would be closed.
    few : int
        Boxes are split until so many are bounded at a time: calls of many small arrays take as
        long as with one.
    curved : (int, int), optional
        Fewest and most inputs with which the first layer's units are parabolas.  With fewer, halves
        take less time than they save; with more, a box has too many corners to be compared at.
    facets : int
        A first layer of lower rank than it has inputs is split by what it sees, where a box then
        has at most so many pairs of facets: rows that each box is compared with.
    """

    slack: float = CLOSED
    bundle: int = BUNDLE
    bundle_bytes: int = BATCH
    chunk_bytes: int = 4 * CACHED
    chunk_bytes_of_products: int = 8 * CACHED
    samples: int = 2000
    starts: int = 64
    again: int = TOGETHER
    steps: int = 150
    tries: int = 4
    rounded: float = 2.0**-10
    pause: float = 2.0
    wide: int = HALVED
    vast: int = 64
    sign_weight: float = 3.0
    sign_weight_of_products: float = 10.0
    tangents: int = 4
    second: float = 0.03
    far: float = 0.7
    few: int = 64
    curved: tuple[int, int] | None = 5, 6
    facets: int = 1000
