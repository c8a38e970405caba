"""Partial derivatives of any order of a network's signals, by forward propagation.

With z_S the derivative of a pre-activation in the directions of a set S, that of ``sigma(z)`` is
the sum over all partitions of S into blocks of ``sigma^(k)(z) prod z_B``, k the number of blocks
(Faa di Bruno's formula).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.building.affine import Tensor
from lipyomo.networks.derivatives.replay import Replay, constant, is_constant, mapped

Several = tuple[int, ...]
"""Sorted numbers of directions, possibly with repetitions."""


class Jets:
    """Derivatives of a replayed network in some directions.

    Parameters
    ----------
    replay : Replay
    directions : ndarray, shape (k, d)
    """

    def __init__(self, replay: Replay, directions: FloatArray) -> None:
        self.replay, self.directions = replay, directions
        self._inputs: dict[tuple[int, Several], Tensor] = {}
        self._rises: dict[tuple[int, Several], Tensor] = {}
        self._products: dict[tuple[int, tuple[Several, ...]], Tensor] = {}

    def output(self, among: Several) -> Tensor:
        """Return a derivative of the outputs, shape (m,); without directions the value."""
        replay = self.replay
        if not among:
            return replay.output
        return mapped(replay.network.head, self._input(len(replay.layers), tuple(sorted(among))))

    def _input(self, depth: int, among: Several) -> Tensor:
        """Return a derivative of the inputs of the layer at a depth."""
        key = depth, among
        if key not in self._inputs:
            self._inputs[key] = self._units(depth - 1, among) if depth else self._start(among)
        return self._inputs[key]

    def _start(self, among: Several) -> Tensor:
        """Return a derivative of the inputs, which are linear along directions."""
        d = self.replay.network.input_dim
        found = self.directions[among[0]] if len(among) == 1 else np.zeros(d)
        return constant(self.replay.trace, found)

    def _rise(self, depth: int, among: Several) -> Tensor:
        """Return a derivative of pre-activations."""
        key = depth, among
        if key not in self._rises:
            layer = self.replay.layers[depth].layer
            self._rises[key] = mapped(layer, self._input(depth, among))
        return self._rises[key]

    def _units(self, depth: int, among: Several) -> Tensor:
        """Return a derivative of the units' outputs."""
        layer = self.replay.layers[depth]
        found: Tensor | None = None
        for blocks, count in _partitions(among):
            rises = [self._rise(depth, block) for block in blocks]
            if any(is_constant(rise) and not rise.offset.any() for rise in rises):
                continue
            term = layer.derivative(len(blocks))
            variable = tuple(
                block for block, rise in zip(blocks, rises, strict=True) if not is_constant(rise)
            )
            if variable:
                term = self.replay.trace.times(term, self._product(depth, variable))
            for rise in rises:  # one by one, as products of constants may round
                term = term.scale(rise.offset) if is_constant(rise) else term
            term = term if count == 1 else term.scale(float(count))
            found = term if found is None else found + term
        zeros = np.zeros(layer.layer.units)
        return constant(self.replay.trace, zeros) if found is None else found

    def _product(self, depth: int, blocks: tuple[Several, ...]) -> Tensor:
        """Return the product of derivatives of pre-activations."""
        if len(blocks) == 1:
            return self._rise(depth, blocks[0])
        key = depth, blocks
        if key not in self._products:
            first, last = self._product(depth, blocks[:-1]), self._rise(depth, blocks[-1])
            self._products[key] = self.replay.trace.times(first, last)
        return self._products[key]


def _partitions(among: Several) -> list[tuple[tuple[Several, ...], int]]:
    """Return the partitions of directions into blocks, each with its multiplicity."""
    every = _set_partitions(list(among))
    counts = Counter(tuple(sorted(tuple(sorted(part)) for part in parts)) for parts in every)
    return sorted(counts.items())


def _set_partitions(items: list[int]) -> Iterator[list[list[int]]]:
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for parts in _set_partitions(rest):
        for k in range(len(parts)):
            yield [*parts[:k], [first, *parts[k]], *parts[k + 1 :]]
        yield [[first], *parts]
