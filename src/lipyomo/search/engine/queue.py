"""The open nodes: which wait, in which order, and which are being processed.

A node is registered from when it is pushed until its outcome has been entered: it is listed as in
process before it leaves the heap, and removed only after its children have been pushed.  So an
interrupt at any moment loses no node.  A node may then be registered twice, or together with its
children, which does no harm.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Generic

from lipyomo.base.system.memory import machine_memory, memory_limit
from lipyomo.search.engine.params import Params
from lipyomo.search.engine.protocol import N


class Batch(list[N]):
    """Nodes that are processed together."""


class Queue(Generic[N]):
    """Priority queue of nodes, the largest bound first.

    When it is full, further nodes go onto a stack that is emptied first: the search goes depth
    first until there is room.  Half of the memory is for data that nodes must keep, half for data
    that can be recomputed.

    Parameters
    ----------
    params : Params
    """

    def __init__(self, params: Params) -> None:
        self._params = params
        self._heap: list[tuple[float, int, N]] = []
        self._stack: list[N] = []
        self._under_way: list[Batch[N]] = []
        self._serial = 0
        self._kept, self._warm = 0, 0
        self._room = self._warm_room = math.inf

    def __len__(self) -> int:
        """Number of waiting nodes."""
        return len(self._heap) + len(self._stack)

    @property
    def ordered(self) -> int:
        """Number of nodes in the heap, without those on the stack."""
        return len(self._heap)

    @property
    def dives(self) -> bool:
        """Whether the queue is full and the search goes depth first."""
        return bool(self._stack)

    @property
    def next(self) -> N | None:
        """The node to be taken next."""
        if self._stack:
            return self._stack[-1]
        return self._heap[0][2] if self._heap else None

    @property
    def nodes(self) -> list[N]:
        """All registered nodes, in an order in which they may be pushed again."""
        under_way = [node for batch in self._under_way for node in batch]
        return [node for _, _, node in sorted(self._heap)] + self._stack + under_way

    @property
    def bound(self) -> float:
        """Largest bound of all registered nodes; minus infinity if there are none."""
        top = -self._heap[0][0] if self._heap else -math.inf
        rest = [node.bound for batch in [self._stack, *self._under_way] for node in batch]
        return max([top, *rest])

    def first(self, count: int) -> list[N]:
        """Return the first `count` entries of the heap, which are among the best nodes."""
        return [node for _, _, node in self._heap[:count]]

    def push(self, nodes: Sequence[N]) -> None:
        """Add nodes."""
        least = self._params.least_queue
        for node in nodes:
            if self._room == math.inf and self._serial >= least:
                self._measure(node)
            kept = node.nbytes
            if len(self._heap) >= least and self._kept + kept > self._room:
                self._stack.append(node)
                continue
            self._serial += 1
            heapq.heappush(self._heap, (-node.bound, self._serial, node))
            self._kept += kept
            self._warm += node.warm_bytes  # counts nodes that have left, until `_cool_last`
            if self._warm > self._warm_room:
                self._cool_last()

    def take(self, most: int, cutoff: float) -> Batch[N]:
        """Take the next nodes to process: at most `most`, all but the first above the cutoff."""
        batch: Batch[N] = Batch()
        self._under_way.append(batch)
        dives = self.dives
        while (self._stack if dives else self._heap) and len(batch) < most:
            node = self._stack[-1] if dives else self._heap[0][2]
            if batch and node.bound <= cutoff:
                break
            batch.append(node)
            if dives:
                self._stack.pop()
            else:
                heapq.heappop(self._heap)
                self._kept -= node.nbytes
        return batch

    def take_last(self, most: int, cutoff: float) -> Batch[N]:
        """Take up to `most` nodes at or below the cutoff; none if the next node is above it."""
        batch: Batch[N] = Batch()
        self._under_way.append(batch)
        while (node := self.next) is not None and node.bound <= cutoff and len(batch) < most:
            if self._stack:
                batch.append(node)
                self._stack.pop()
            else:  # without its last entry a heap is still a heap
                batch.append(self._heap[-1][2])
                self._heap.pop()
                self._kept -= batch[-1].nbytes
        return batch

    def enter(self, batch: Batch[N], nodes: Sequence[N]) -> None:
        """Replace a batch that was being processed by `nodes`."""
        self.push(nodes)
        self._under_way = [other for other in self._under_way if other is not batch]

    def give_back(self) -> None:
        """Put all nodes that are being processed back into the queue."""
        for batch in list(self._under_way):
            self.enter(batch, batch)

    def _measure(self, node: N) -> None:
        """Set the memory limits; `least_queue` nodes like this one keep all data in any case."""
        params = self._params
        self._room = min(machine_memory(), memory_limit()) / params.queue_share / 2
        self._warm_room = max(self._room, float(params.least_queue * node.warm_bytes))

    def _cool_last(self) -> None:
        """Drop recomputable data of the nodes with the smallest bounds, which will wait longest."""
        self._heap.sort()
        self._warm = 0
        for place, (key, serial, node) in enumerate(self._heap):
            warm = node.warm_bytes
            if warm and self._warm + warm > self._warm_room / 2:
                self._heap[place] = key, serial, node.cooled()
            else:
                self._warm += warm
