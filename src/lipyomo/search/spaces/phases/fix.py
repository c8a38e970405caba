"""The fourth step: units whose other side cannot beat the incumbent are fixed.

It claims, for pieces of a part with one unit decided, bounds that are proved from the multipliers
of the part.
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.frozen import but
from lipyomo.networks.phases import OPEN
from lipyomo.search.spaces.phases.context import Context
from lipyomo.search.spaces.phases.part import Part
from lipyomo.search.spaces.phases.points import Points
from lipyomo.search.spaces.phases.statistics import Statistics


def fixed(
    context: Context, part: Part, statistics: Statistics, points: Points
) -> tuple[Part, Statistics]:
    """The part with units decided whose other side cannot beat the incumbent."""
    node, form, worst = part.node, part.known_form, part.worst
    if worst is None or node.targets.size > 1:
        return part, statistics
    value = points.best.value
    cutoff, drops = context.cutoff(value), (worst.off, worst.on)
    remaining, count = node, 0
    for position, on, bound in context.bounder.excluded(
        form, worst.found, drops, context.aim(value)
    ):
        unit = int(form.units[position])
        if bound > cutoff or remaining.phases[unit] != OPEN:
            continue
        left, right = remaining.sides(unit)
        other, remaining = (right, left) if on else (left, right)
        part = part.fathom(bound, other)
        count += 1
    if count:
        statistics = statistics.counting(fixed=count)
        more = np.flatnonzero(remaining.phases != node.phases)
        inside = points.within(node.points, remaining.phases, more)
        part = but(part, node=remaining.but(points=inside))
    return part, statistics
