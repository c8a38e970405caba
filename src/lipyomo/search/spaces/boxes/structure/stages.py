"""Conversion of a network's layers to stages: squares with opposite columns become products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.networks.activations import TwoSlope
from lipyomo.networks.gates import AffineRows
from lipyomo.networks.layer import square_pairs
from lipyomo.networks.multiples import canonical, is_power_of_two
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.normalised import Passing, Quotients, Roots, quotients_of, roots_of
from lipyomo.search.spaces.boxes.structure.closed_forms import Passed, passed_outputs
from lipyomo.search.spaces.boxes.structure.stage import Copies, Products, Stage, kinds_of


class _Chosen(NamedTuple):
    """Columns of the next weight to keep, and powers of two to multiply them by."""

    columns: IntArray
    scales: FloatArray

    def of(self, weight: FloatArray) -> FloatArray:
        """Return the weight on the stage's outputs."""
        return np.ascontiguousarray(weight[:, self.columns] * self.scales)

    def exact_for(self, weight: FloatArray) -> bool:
        """Return whether nothing overflows or underflows."""
        found = self.of(weight)
        return bool((found / self.scales == weight[:, self.columns]).all())


class _Rows(NamedTuple):
    """Rows of a layer: weights for values and for tangents, and biases."""

    weight: FloatArray
    along: FloatArray
    bias: FloatArray

    def take(self, rows: IntArray) -> _Rows:
        """Select rows."""
        return _Rows(self.weight[rows], self.along[rows], self.bias[rows])


class _Made(NamedTuple):
    """The parts of a layer with products."""

    products: Products
    outputs: _Chosen
    rows: _Rows


def stages_of(
    network: Network, tangents: Network, native: bool
) -> tuple[tuple[Stage, ...], FloatArray]:
    """Convert the hidden layers; also return the last layer's weights on the last stage's outputs.

    Parameters
    ----------
    network : Network
    tangents : Network
        The same network with the first weight of tangents.
    native : bool
        Whether differences of squares become products.  Rounding errors of the sums of rows are
        relative to each entry, like those of one more operation.
    """
    pairs_of = [
        square_pairs(layer, after.dense_weight) if native else ()
        for layer, after in zip(network.hidden, network.layers[1:], strict=True)
    ]
    stages: list[Stage] = []
    chosen: _Chosen | None = None
    place = 0
    for layer, ahead, after, pairs in zip(
        network.hidden, tangents.hidden, network.layers[1:], pairs_of, strict=True
    ):
        weight = along = np.ascontiguousarray(layer.dense_weight)
        if ahead is not layer:
            along = np.ascontiguousarray(ahead.dense_weight)
        if chosen is not None:
            weight = along = chosen.of(weight)
        found = _Rows(weight, along, layer.bias)
        products, chosen, units = None, None, layer
        if pairs:
            made = _with_products(found, layer, pairs)
            if made.outputs.exact_for(after.dense_weight):
                products, chosen, found = made
                units = layer.selected(chosen.columns[: products.units])
        kinds = kinds_of(units) if units.units else ()
        if any(pairs_of):  # these have many identity units, whose bounds are known in closed form
            same, passed = TwoSlope(1.0, 1.0), Passed(1.0, 1.0)
            kinds = tuple((passed if kind == same else kind, which) for kind, which in kinds)
        has = np.zeros(units.units, dtype=bool)
        for activation, which in kinds:
            has[which] = bool(activation.breaks) and activation.limits[0] < activation.limits[1]
        broken = np.flatnonzero(has)
        phases = slice(place, place + broken.size)
        both = found.weight, abs(found.weight), found.along, abs(found.along)
        none = np.zeros(found.bias.size)
        copies = _copies(found, stages[-1]) if stages and any(pairs_of) else None
        stage = Stage(*both, found.bias, none, kinds, broken, phases, products, copies)
        if any(pairs_of):
            stage = _with_normalised(stage, stages)
        stages.append(stage)
        place += broken.size
    head = network.head.dense_weight
    return tuple(stages), head if chosen is None else chosen.of(head)


def _with_products(rows: _Rows, layer: Layer, pairs: Sequence[tuple[int, int]]) -> _Made:
    """Collect the rows of units, then those of factors that are not multiples of earlier rows."""
    sums, differences = np.array(pairs, dtype=np.intp).T
    singles = np.setdiff1d(np.arange(layer.units), np.concatenate([sums, differences]))
    parts = list(rows.take(singles))
    known: dict[bytes, int] = {}
    scales: list[float] = []
    for row in zip(*parts, strict=True):
        key, scale = canonical(*row)
        known.setdefault(key, len(scales))
        scales.append(scale)
    one, other = rows.take(sums), rows.take(differences)
    factors: list[list[int]] = [[], []]
    shares = np.ones(len(pairs))
    more: list[list[FloatArray]] = [[], [], []]
    for side, sign in enumerate((1.0, -1.0)):
        both = zip(*(p + sign * q for p, q in zip(one, other, strict=True)), strict=True)
        for k, row in enumerate(both):
            key, scale = canonical(*row)
            if key not in known:
                known[key] = len(scales)
                for part, array in zip(more, row, strict=True):
                    part.append(array / scale)
                scales.append(1.0)
            factors[side].append(known[key])
            shares[k] *= scale / scales[known[key]]
    whole = [
        np.concatenate([part, np.array(new).reshape(-1, *part.shape[1:])])
        for part, new in zip(parts, more, strict=True)
    ]
    left, right = (np.array(side, dtype=np.intp) for side in factors)
    products = Products(singles.size, left, right, len(scales))
    chosen = _Chosen(
        np.concatenate([singles, sums]), np.concatenate([np.ones(singles.size), shares])
    )
    found = (np.ascontiguousarray(part) for part in whole)
    return _Made(products, chosen, _Rows(*found))


def _with_normalised(stage: Stage, before: Sequence[Stage]) -> Stage:
    """Find a layer's inverse roots of sums of squares, and its quotients by such roots."""
    roots: Roots | None = None
    quotients: Quotients | None = None
    if before and before[-1].squares.size:
        roots = roots_of(
            AffineRows(stage.weight, stage.bias), stage.powers_of(-0.5), before[-1].squares
        )
    if stage.products is not None and len(before) > 1 and before[-1].roots is not None:
        rows, factors = (
            AffineRows(stage.weight, stage.bias),
            (stage.products.left, stage.products.right),
        )
        one, other = (
            Passing(AffineRows(own.weight, own.bias), passed_outputs(own)) for own in before[:-3:-1]
        )
        quotients = quotients_of(before[-1].roots, rows, factors, one, other)
    return replace(stage, roots=roots, quotients=quotients)


def _copies(rows: _Rows, before: Stage) -> Copies | None:
    """Find rows that pass on a row of the previous layer, or are multiples of earlier ones."""
    passed = passed_outputs(before)
    count = len(rows.bias)
    source, scale = np.zeros(count, dtype=np.intp), np.ones(count)
    fresh: list[int] = []
    again: list[tuple[int, int]] = []
    known: dict[bytes, tuple[int, float]] = {}
    for k, (weight, bias) in enumerate(zip(rows.weight, rows.bias, strict=True)):
        filled = np.flatnonzero(weight)
        if filled.size == 1 and passed[filled[0]] and bias == 0.0:
            share = float(weight[filled[0]])
            if is_power_of_two(share):
                again.append((k, int(filled[0])))
                scale[k] = share
                continue
        key, size = canonical(weight, bias)
        if key not in known:
            known[key] = len(fresh), size
            fresh.append(k)
        source[k], own = known[key]
        scale[k] = size / own
    if len(fresh) == count:
        return None
    for k, row in again:
        source[k] = len(fresh) + row
    return Copies(np.array(fresh, dtype=np.intp), source, scale)
