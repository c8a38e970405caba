"""Parts of nodes on their way through the steps, and what the steps look at meanwhile."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.problems.affine.system import NodeForm
from lipyomo.relaxations.semidefinite.bounder import Minimum
from lipyomo.search.engine.protocol import Pulse
from lipyomo.search.spaces.phases.node import Node


class OutOfTimeError(Exception):
    """The bounds of some parts came too late."""


@dataclass(frozen=True)
class Watch:
    """The time, and a sign of life.

    Attributes
    ----------
    clock : Clock
    pulse : callable
    """

    clock: Clock
    pulse: Pulse

    def check(self) -> None:
        """Give a sign of life; leave parts as they are when time is over.

        Those of large nodes take seconds.

        Raises
        ------
        OutOfTimeError
        """
        self.pulse()
        if self.clock.expired:
            raise OutOfTimeError


@dataclass(frozen=True, eq=False)
class Worst:
    """The target that holds a node's bound up, with its unit look-ahead.

    Attributes
    ----------
    found : Minimum
    off, on : ndarray, shape (F,)
        Relative drop of the bound if a unit is decided and the multipliers stay.
    """

    found: Minimum
    off: FloatArray
    on: FloatArray

    @classmethod
    def of(cls, found: Minimum) -> Worst:
        """With the look-ahead of a minimum."""
        return cls(found, *found.kernel.lookahead(found.state))


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a node: steps claim things of it, in a new part each.

    Attributes
    ----------
    parent, node : Node
        The same for the root.
    form : NodeForm, optional
        Its form, once its phases are settled.
    worst : Worst, optional
        What holds its bound up.
    fathomed : tuple of (Node, float)
        Pieces of it with proved bounds that do not matter any more; minus infinity for empty ones.
    is_open : bool
        Whether the rest, `node`, may still hold something better.
    """

    parent: Node
    node: Node
    form: NodeForm | None = None
    worst: Worst | None = None
    fathomed: tuple[tuple[Node, float], ...] = ()
    is_open: bool = True

    @property
    def keeps_box(self) -> bool:
        """Whether its box is its parent's."""
        return self.node.low is self.parent.low and self.node.high is self.parent.high

    @property
    def known_form(self) -> NodeForm:
        """The form of a part whose phases are settled."""
        assert self.form is not None
        return self.form

    @property
    def closed(self) -> float:
        """Largest bound among what is fathomed and targets that are dropped."""
        known = [bound for _, bound in self.fathomed]
        return max([*known, self.node.dropped or -math.inf])

    def fathom(self, bound: float, piece: Node | None = None) -> Part:
        """Without a piece of it, which by default is all that is left."""
        if not math.isinf(bound):
            bound = max(bound, self.node.dropped)
        fathomed = (*self.fathomed, (self.node if piece is None else piece, bound))
        return replace(self, fathomed=fathomed, is_open=piece is not None)

    def without_targets(self, cutoff: float) -> Part:
        """Without the targets that cannot beat the incumbent; if none is left, fathomed."""
        node = self.node
        keep = node.target_bounds > cutoff
        if not keep.any():
            return self.fathom(node.bound)
        if keep.all():
            return self
        dropped = max(node.dropped, float(node.target_bounds[~keep].max()))
        node = node.but(
            dropped=dropped,
            targets=node.targets[keep],
            target_bounds=node.target_bounds[keep],
            proved=node.proved[keep],
        )
        return replace(self, node=node)

    def without_unproved(self, cutoff: float) -> Part:
        """Without inherited floating-point bounds that an incumbent found since has overtaken."""
        node = self.node
        stale = (node.target_bounds <= cutoff) & (node.proved > cutoff)
        if not stale.any():
            return self
        bounds = np.where(stale, node.proved, node.target_bounds)
        return replace(self, node=node.but(target_bounds=bounds))
