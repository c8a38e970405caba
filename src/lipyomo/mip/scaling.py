"""Scaling of a problem such that a solver's absolute tolerances become relative.

Solvers accept rows violated by some 1e-9 to 1e-6, regardless of the rows' magnitude.  Two-slope
units are positively homogeneous, so that each can be scaled by s > 0: its weights and bias are
multiplied by s, its outgoing weights divided by s.  Here s is a power of two that brings the range
of the pre-activation near 1, and the outputs are scaled such that the constant is near 1.  Since
all factors are powers of two, the scaled network is equivalent without rounding.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import diags_array

from lipyomo.base.arrays import FloatArray, Matrix, scaled_rows
from lipyomo.mip.cells import Cell
from lipyomo.mip.params import LARGEST, ORDINARY, SMALLEST
from lipyomo.networks.network import Network
from lipyomo.networks.phases import OPEN
from lipyomo.problems.domains import Box, Domain
from lipyomo.problems.norms import LinearOutput, OutputNorm
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.relaxations.linear import LayerBounds


@dataclass(frozen=True)
class ScaledProblem:
    """A scaled reduced problem.

    Attributes
    ----------
    problem : LipschitzProblem
        With the inputs and patterns of the unscaled problem.
    unit : float
        Factor from scaled to original values; a power of two.
    """

    problem: LipschitzProblem
    unit: float

    def inward(self, value: float) -> float:
        """Convert a value to scaled units."""
        return value / self.unit

    def outward(self, value: float) -> float:
        """Convert a value to original units."""
        return value * self.unit


def scaled(problem: LipschitzProblem, root: Cell, size: float) -> tuple[ScaledProblem, Cell]:
    """Scale units and outputs such that ranges are near 1.

    Parameters
    ----------
    problem : LipschitzProblem
        The reduced problem.
    root : Cell
        The whole problem as a cell.
    size : float
        Estimate of the constant; zero or infinite if unknown.

    Returns
    -------
    scaled : ScaledProblem
    root : Cell
        In scaled units.
    """
    bounds = root.bounds
    factors = [_power(sizes) for sizes in _ranges(problem, bounds)]
    norm, norm_unit = _scaled_norm(problem)
    whole = float(_power(np.array([size / norm_unit]))[0])
    network = _with_units(problem.network, factors, whole)
    if network is None:
        return ScaledProblem(problem, 1.0), root
    norms = problem.norm, norm
    small = LipschitzProblem(network, problem.domain, *norms, directions=problem.directions)
    unit = norm_unit / whole
    moved = LayerBounds(
        [low * s for low, s in zip(bounds.lower, factors, strict=True)],
        [high * s for high, s in zip(bounds.upper, factors, strict=True)],
        bounds.relaxation,
        bounds.phases,
        bounds.empty,
    )
    cell = replace(root, bounds=moved, upper=root.upper / unit)
    if norm is not problem.output_norm:
        cell = replace(cell, norm=norm, vertices=small.dual_vertices)
    return ScaledProblem(small, unit), cell


def with_input_unit(network: Network, domain: Domain) -> tuple[Network, Domain, float]:
    """Scale the inputs to a box with bounds near 1, with the same pre-activations and gradients.

    The inputs are divided by a power of two: the first layer's weights are multiplied by it and
    the head's divided, which does not change the norm of the gradient.  Boxes of ordinary size, and
    other domains, are not scaled.

    Returns
    -------
    network, domain
    unit : float
        Factor from scaled to original inputs.
    """
    reach = float(np.maximum(np.abs(domain.lower), np.abs(domain.upper)).max(initial=0.0))
    if not domain.is_box or not network.hidden or 1.0 / ORDINARY <= reach <= ORDINARY:
        return network, domain, 1.0
    unit = 1.0 / float(_power(np.array([reach]))[0])
    low, high = domain.lower / unit, domain.upper / unit
    ones = [np.ones(layer.units) for layer in network.hidden]
    measured = _with_units(network, ones, 1.0 / unit, 1.0 / unit)
    kept = np.array_equal(low * unit, domain.lower) and np.array_equal(high * unit, domain.upper)
    if measured is None or not kept:
        return network, domain, 1.0
    return measured, Box(low, high), unit


def largest_number(problem: LipschitzProblem, cell: Cell, lower: float) -> float:
    """Return the largest number in a cell's model, relative to ranges near 1.

    Parameters
    ----------
    problem : LipschitzProblem
        The scaled problem.
    cell : Cell
    lower : float
        An attained value, in the same units: its ratio to the cell's bound measures cancellation.
    """
    numbers = [1.0]
    network, _, _ = with_input_unit(problem.network, cell.domain)
    for layer in network.layers:
        numbers += [float(layer.sizes.max()), float(np.abs(layer.bias).max())]
    for low, high in zip(cell.bounds.lower, cell.bounds.upper, strict=True):
        numbers += [float(np.abs(low).max(initial=0.0)), float(np.abs(high).max(initial=0.0))]
    if lower > 0 and math.isfinite(cell.upper):
        numbers.append(cell.upper / lower)
    return max(numbers)


def smallest_width(problem: LipschitzProblem, cell: Cell) -> float:
    """Return the smallest range that a solver must resolve in a cell's model.

    That is a width of the domain, or the range of an unstable unit on either side of its kink.

    Parameters
    ----------
    problem : LipschitzProblem
        The scaled problem.
    cell : Cell
    """
    _, domain, unit = with_input_unit(problem.network, cell.domain)
    widths = [float((domain.upper - domain.lower).min(initial=1.0))]
    if domain.rows.count:
        widths.append(2.0 * cell.domain.margin(cell.domain.center) / unit)
    for low, high, phases in zip(
        cell.bounds.lower, cell.bounds.upper, cell.bounds.phases, strict=True
    ):
        sides = np.minimum(-low, high)[phases == OPEN]
        widths.append(float(sides.min(initial=1.0)))
    return min(widths)


def too_fine(problem: LipschitzProblem, cell: Cell, lower: float = 0.0) -> str:
    """Return why a solver's tolerances matter in a cell's model; empty if they do not.

    Parameters
    ----------
    problem : LipschitzProblem
        The scaled problem.
    cell : Cell
    lower : float, optional
        An attained value, in the same units.
    """
    largest = largest_number(problem, cell, lower)
    if largest > LARGEST:
        return f"the model holds numbers from 1 to {largest:.0e} even after scaling"
    least = smallest_width(problem, cell)
    return f"the model has ranges of {least:.0e} near 1" if least < SMALLEST else ""


def _ranges(problem: LipschitzProblem, bounds: LayerBounds) -> list[FloatArray]:
    """Return magnitudes of the pre-activations, at least `SMALLEST` times those of their terms.

    So rounding errors after cancellation are not scaled up to 1.
    """
    domain = problem.domain
    reach = np.maximum(np.abs(domain.lower), np.abs(domain.upper))
    found = []
    for layer, low, high in zip(problem.network.hidden, bounds.lower, bounds.upper, strict=True):
        sizes = np.maximum(np.abs(low), np.abs(high))
        terms = np.asarray(layer.sizes @ reach) + np.abs(layer.bias)
        found.append(np.maximum(sizes, SMALLEST * terms))
        reach = sizes * layer.steepest
    return found


def _power(sizes: FloatArray) -> FloatArray:
    """Return powers of two that bring sizes near 1; 1 for zero or infinite sizes.

    Products of three of them are far from overflow and underflow.
    """
    usable = np.isfinite(sizes) & (sizes > 0)
    bits = np.round(np.log2(np.where(usable, sizes, 1.0)))
    most = sys.float_info.max_exp // 5
    return np.asarray(np.exp2(-np.clip(bits, -most, most)))


def _with_units(
    network: Network, factors: list[FloatArray], outputs: float, inputs: float = 1.0
) -> Network | None:
    """Return the network with scaled inputs, units and outputs; None if that is not exact."""
    before = np.full(network.input_dim, inputs)
    layers = []
    for layer, own in zip(
        network.layers, [*factors, np.full(network.output_dim, outputs)], strict=True
    ):
        weight = _times(layer.weight, own, 1.0 / before)
        bias = layer.bias * own
        same = abs(_times(weight, 1.0 / own, before) - layer.weight).max() == 0
        if not (same and np.array_equal(bias / own, layer.bias)):
            return None
        layers.append(layer.with_map(weight, bias))
        before = own
    return Network(layers, network.name)


def _times(matrix: Matrix, rows: FloatArray, columns: FloatArray) -> Matrix:
    """Return ``diag(rows) @ matrix @ diag(columns)``."""
    scaled = scaled_rows(matrix, rows)
    return scaled * columns if isinstance(scaled, np.ndarray) else scaled @ diags_array(columns)


def _scaled_norm(problem: LipschitzProblem) -> tuple[OutputNorm, float]:
    """Return the output norm with a single functional scaled near 1, and the inverse factor."""
    vertices = problem.dual_vertices
    if vertices is None or len(vertices) != 1:
        return problem.output_norm, 1.0
    factor = float(_power(np.abs(vertices).max(axis=1))[0])
    if factor == 1.0 or not np.array_equal(vertices * factor / factor, vertices):
        return problem.output_norm, 1.0
    return LinearOutput(vertices=vertices * factor), 1.0 / factor
