"""Points at which a second network V has a value between two numbers: half-spaces of a box.

On a box V lies below an affine function p, and above another one.  Where V is at least `low`, p is
as well: that is a half-space, of which the bound of the objective may have any multiple.  A box on
which p stays below `low` has no point of the shell; the other end is alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lipyomo_check.parts import Domain
from lipyomo_check.smooth.bound import Chain
from lipyomo_check.smooth.boxes import Boxes, middles
from lipyomo_check.smooth.halfspaces import HalfSpaces
from lipyomo_check.smooth.kind import Bools
from lipyomo_check.smooth.levels import in_arrays
from lipyomo_check.values import Shell


@dataclass(frozen=True, eq=False)
class Between:
    """A shell whose function is ready to be bounded."""

    shell: Shell
    domain: Domain
    largest: float

    @cached_property
    def chain(self) -> Chain:
        """V."""
        levels, head = in_arrays(self.shell.layers)
        offset = np.array(self.shell.layers[-1].offset)
        return Chain(levels, head, self.largest, offset=offset)

    def without_phases(self, boxes: Boxes) -> Boxes:
        """Return boxes as V has them: neither directions nor sides of its breaks."""
        anywhere = np.full((len(boxes.low), len(self.chain.broken)), np.inf)
        still = np.zeros(boxes.low.shape)
        return boxes._replace(v_low=still, v_high=still, z_low=-anywhere, z_high=anywhere)

    @property
    def ends(self) -> tuple[tuple[float, float], ...]:
        """Signs s, and numbers that ``s V`` is at least."""
        return (1.0, self.shell.low), (-1.0, -self.shell.high)

    def spaces(self, boxes: Boxes) -> tuple[list[HalfSpaces], Bools]:
        """Return half-spaces of both ends, and which boxes surely have no point of the shell."""
        own, count = self.without_phases(boxes), len(boxes.low)
        reach, outside = middles(boxes.low, boxes.high)[1], np.zeros(count, dtype=bool)
        found = []
        for sign, least in self.ends:
            bounded = self.chain.bound(np.full((count, 1), sign), own)
            span = (np.abs(bounded.x) * reach).sum(axis=1)
            level = bounded.upper - least - span
            outside |= bounded.upper < least
            size = np.abs(bounded.upper) + abs(least) + span
            which = np.flatnonzero(np.isfinite(size) & (level < span))
            found.append(HalfSpaces(which, bounded.x[which], level[which], size[which]))
        return found, outside
