"""Points at which a second network V has a value between two numbers: half-spaces of a box.

On a box V lies below an affine function p, and above another one.  Where V is at least `low`, p is
as well: that is a half-space, of which the bound of the objective may have any multiple.  A box on
which p stays below `low` has no point of the shell; the other end is alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from lipyomo_check.smooth.bound import Chain
from lipyomo_check.smooth.bounded import Bounded
from lipyomo_check.smooth.boxes import Boxes, middles
from lipyomo_check.smooth.halfspaces import HalfSpaces
from lipyomo_check.smooth.kind import Bools
from lipyomo_check.smooth.levels import in_arrays
from lipyomo_check.values import Shell


@dataclass(frozen=True, eq=False)
class Between:
    """A shell whose function, V, is ready to be bounded."""

    shell: Shell
    chain: Chain

    @classmethod
    def of(cls, shell: Shell, largest: float) -> Self:
        """Make it for points none of whose entries is larger than `largest`."""
        levels, head = in_arrays(shell.layers)
        return cls(shell, Chain(levels, head, largest, offset=np.array(shell.layers[-1].offset)))

    def without_phases(self, boxes: Boxes) -> Boxes:
        """Return boxes as V has them: neither directions nor sides of its breaks."""
        anywhere = np.full((len(boxes.low), len(self.chain.broken)), np.inf)
        still = np.zeros(boxes.low.shape)
        return boxes._replace(v_low=still, v_high=still, z_low=-anywhere, z_high=anywhere)

    @property
    def ends(self) -> tuple[tuple[float, float], ...]:
        """Signs s, and numbers that ``s V`` is at least."""
        return (1.0, self.shell.low), (-1.0, -self.shell.high)

    def bounds(self, boxes: Boxes, known: Sequence[Bounded | None] = (None, None)) -> list[Bounded]:
        """Bound V and -V on boxes, perhaps as in `known` bounds (`bound`)."""
        own, signs = self.without_phases(boxes), np.ones((len(boxes.low), 1))
        pairs = zip(self.ends, known, strict=True)
        return [self.chain.bound(sign * signs, own, known=one) for (sign, _), one in pairs]

    def spaces(self, boxes: Boxes, bounds: list[Bounded]) -> tuple[list[HalfSpaces], Bools]:
        """Return half-spaces of both ends, and which boxes surely have no point of the shell."""
        reach, outside = middles(boxes.low, boxes.high)[1], np.zeros(len(boxes.low), dtype=bool)
        found = []
        for (_, least), bounded in zip(self.ends, bounds, strict=True):
            span = (np.abs(bounded.x) * reach).sum(axis=1)
            level = bounded.upper - least - span
            outside |= bounded.upper < least
            size = np.abs(bounded.upper) + abs(least) + span
            which = np.flatnonzero(np.isfinite(size) & (level < span))
            found.append(HalfSpaces(which, bounded.x[which], level[which], size[which]))
        return found, outside
