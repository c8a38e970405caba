"""All tuning parameters of the search over boxes, in one place."""

from __future__ import annotations

from typing import NamedTuple

from lipyomo.base.arrays import TOGETHER
from lipyomo.base.numerics.rounding import CLOSED
from lipyomo.base.system.memory import BATCH, CACHED
from lipyomo.search.engine.params import BUNDLE, HALVED


class Params(NamedTuple):
    """Parameters of the search: what each trades off, and the range in which it does not matter.

    Attributes
    ----------
    slack : float
        Relative distance from the incumbent at which a bound counts as met: boxes against the last
        digits.  It is below the tolerance of `exact`.
    bundle : int
        Most boxes of a node.
    bundle_bytes : int
        Limits the boxes of a node for wide networks: memory for the rows of their largest layer.
    chunk_bytes : int
        The same limit for the boxes that are bounded at a time; if the rows had to fit into the
        cache, the overhead of calls would cost more than cache misses.
    chunk_bytes_of_products : int
        The same for networks with products, which have many small arrays for each box, so that the
        overhead of calls is larger.
    samples : int
        Points that the first heuristics sample, in networks of common size.
    starts : int
        Number of the best samples from which ascents start.
    again : int
        Number of the best boxes from whose middles later ascents start.
    steps : int
        Most steps of an ascent.
    tries : int
        Final points of ascents that are evaluated exactly: the best may lie on a kink.
    rounded : float
        In networks with products, `floor` is only computed for boxes whose widths are at most this
        share of the domain's, as it takes as long as a bundle.
    wide : int
        Number of inputs from which on the gradient's entries are bounded one by one at the root:
        with that many, bisecting inputs does not get far.
    vast : int
        Number of inputs from which on programs in slopes and inputs together lower the root's
        bounds, before any boxes: a program of a hundred units takes a second.
    sign_weight : float
        Weight in the scores of an open sign, or of a jump of a slope, relative to an input: one
        split decides the former, but only halves the latter.
    sign_weight_of_products : float
        The same for networks with products (6 to 20 perform alike): adjoints of their factors grow
        with the range of v, so scores underestimate how much of the gaps is due to open signs.
    tangents : int
        Number of a ball's tangents whose multipliers are chosen, one after another: time per box
        against boxes.
    second : float
        In networks with products, second-order bounds are tried if the first bound exceeds the
        cutoff by at most this relative distance; on wider boxes they are rarely lower.
    far : float
        In networks with products, a box gets four children at once if its bound exceeds the cutoff
        by more than this relative distance: of two children, fewer than half would be closed.
    few : int
        Boxes are split until this many can be bounded together, since calls on many small arrays
        take as long for one box.
    curved : (int, int), optional
        Fewest and most inputs with which the first layer's units are relaxed to parabolas.  With
        fewer, bisecting is cheaper; with more, a box has too many corners to evaluate.
    facets : int
        Most pairs of facets that a domain of features may have, for a first layer whose rank is
        below the number of inputs: each box is compared with all of them.
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
