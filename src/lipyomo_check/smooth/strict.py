"""The bound of a box once more, in Arb: nothing rests on float64 arithmetic or its error bounds.

The code is that of `bound`, which computes with balls instead (`balls`), on definitions instead of
the functions of `kinds`, of which the breaks and the bounds of derivatives stay in use.  Where a
choice is free, such as the slope of a line, it is a float.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lipyomo_check.parts import Layer
from lipyomo_check.smooth.balls import NOTHING, Balls, in_balls, plain
from lipyomo_check.smooth.bound import Chain
from lipyomo_check.smooth.boxes import Boxes
from lipyomo_check.smooth.definitions import Unit
from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.kind import Bools, Four
from lipyomo_check.smooth.levels import Group, Level, units_alone
from lipyomo_check.smooth.objective import Objective


class ChainInBalls(Chain):
    """A network whose boxes are bounded in Arb.

    Parameters
    ----------
    chain : Chain
        The same in float64.
    hidden : sequence of Layer
        Its hidden layers.
    """

    def __init__(self, chain: Chain, hidden: Sequence[Layer]) -> None:
        vars(self).update(vars(chain))
        pairs = zip(map(level_in_balls, chain.levels), map(units_alone, hidden), strict=True)
        self.levels = tuple(
            replace(level, groups=tuple(defined(group, units) for group in level.groups))
            for level, units in pairs
        )
        self.head, self.gamma = in_balls(chain.head), NOTHING
        self.offset = None if chain.offset is None else in_balls(chain.offset)
        self.objective = Objective(self.levels, self.head, self.offset, self.gamma)


def boxes_in_balls(boxes: Boxes) -> Boxes:
    """Return boxes without any errors of their ends."""
    return Boxes(*map(in_balls, boxes))


def level_in_balls(level: Level) -> Level:
    """Return a layer without any rounding of its numbers."""
    weight, bias, tangents = map(in_balls, (level.weight, level.bias, level.tangents))
    if level.rest is not None:
        rest = level.rest
        weight, bias, tangents = weight + rest.weight, bias + rest.bias, tangents + rest.tangents
    return replace(
        level,
        weight=weight,
        sizes=np.abs(weight),
        bias=bias,
        tangents=tangents,
        tangent_sizes=np.abs(tangents),
    )


def defined(group: Group, units: list[Unit]) -> Group:
    """Return a group of some units whose functions are those of their definition."""
    kind, unit = group.kind, units[group.units[0]]

    def derivatives(z: Array, right: tuple[Bools, ...]) -> Four:
        places = plain(z)
        found = np.empty((4, *places.shape), dtype=object)
        for at in np.ndindex(places.shape):
            sides = tuple(bool(side[at]) for side in right)
            found[(slice(None), *at)] = unit.at(float(places[at]), sides, 4)
        value, one, two, three = map(in_balls, map(Balls, found))
        return value, one, two, three

    def inside(low: Array, high: Array) -> Bools:
        assert kind.inside is not None
        return kind.inside(plain(low), plain(high))

    smooth = None if kind.inside is None else inside
    defined = replace(kind, derivatives=derivatives, inside=smooth, error=NOTHING)
    return group._replace(kind=defined)
