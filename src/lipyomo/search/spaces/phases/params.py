"""The numbers of this room, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from lipyomo.base.arrays import TOGETHER
from lipyomo.base.system.memory import KEPT


@dataclass(frozen=True)
class Params:
    """What each number trades, and within which range it does not matter.

    Attributes
    ----------
    slack : float
        Relative distance from the incumbent at which a bound counts as met: nodes against the last
        digits.  It has to exceed the rounding of proofs, and stay below the tolerance of `exact`.
    together : int
        Nodes of the common size that are split together: a batch costs less a node, but what its
        first nodes find comes too late for the others (8 to 32 alike).
    common : int
        Unstable units squared times inputs (or units, if they are fewer) of that size.
    long_root : float
        Predicted seconds of the root's bound from which it is lowered step by step, each one an
        answer, with products of pairs, and targets of nodes only until they are no longer the
        worst: small convolutions want both (with 0.3 these end with 1.1 times the open gap).
    switched : float
        Predicted seconds of the root's bound from which its switches and those of all nodes depend
        on the inputs, where there are such bounds.  784 inputs with 43, 60 and 84 unstable units
        (0.1 to 0.35) are exact sooner, or end alike, with nodes that know tangents alone.
    large_part, most_large : float
        About the root of a large network a look for points is so many times longer, times its size
        over the common one, which counts up to the second number: incumbents against bounds.  Half
        of it comes before the root's slow bounds, which profit.
    ascent_steps, ascent_cold : int
        Steps of dual ascent that all bounds of a node take, and how many times as many where there
        is no parent to go on from: time a node against nodes (with eight steps and two rounds of
        near bounds large trees have twice the nodes).
    near : tuple of float
        Bounds that leave a unit open by no more than this share of its range ascend once more, as
        many steps, under what others have decided in the meantime; a round each, of ever fewer.
    shallow : int
        Of up to so many layers ascents have rounds of twice as many steps, and only the second of
        these: what others decide matters less there (else Chen's have 1.1 times the nodes).
    ascent_work : int
        Most multiplications that the ascent of a batch may take.
    programs : int
        Linear programs are asked of all nodes without a known point as long as one in so many of
        them finds a node empty; otherwise of one in so many nodes, for its point (3 to 10 alike).
    box_inputs, box_units : int
        Most inputs for which the box is split, and unstable units up to which units are split even
        then: few, and exhaustive splits are cheap.
    least_width : float
        Boxes narrower than this share of the domain are split only where both halves decide units:
        kinks that meet in a point or a line stay open in one half however often it is split.
    few : int
        Units of a node among which the split is chosen when it comes to it; points that travel with
        it; points with a unit at zero that are looked at exactly, a call (4 to 16 alike).
    tried : int
        One unit in so many that are open is tried for the first split, `few` at most: some bounds
        against bad ones, below which trees of trained networks have twice the nodes.
    unit_trust : float
        Splits on a unit after which half of what they scored beyond their features is its own.
    pool_bytes : int
        Memory for points; when it is full, new ones are only tried as incumbents.
    """

    slack: float = 2e-7
    together: int = TOGETHER
    common: int = 40_000
    long_root: float = 0.1
    switched: float = 0.5
    large_part: float = 8.0
    most_large: float = 48.0
    ascent_steps: int = 12
    ascent_cold: int = 6
    near: tuple[float, ...] = (0.6, 0.3, 0.15)
    shallow: int = 2
    ascent_work: int = 5_000_000_000
    programs: int = 8
    box_inputs: int = 3
    box_units: int = 6
    least_width: float = 2.0**-8
    few: int = 16
    tried: int = 4
    unit_trust: float = 3.0
    pool_bytes: int = KEPT
