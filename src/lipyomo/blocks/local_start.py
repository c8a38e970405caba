r"""A start for solvers by local search: sign-gradient ascent through the networks of a model.

Solvers find good points of network models by sub-MIPs over all inputs, which takes most of their
time; evaluating a network and its gradient takes microseconds.  For an objective
``c . x + sum_n d_n . f_n(x)`` in the inputs x and the outputs of networks f_n, points go through
the box of the inputs by steps ``w_j sign(c + sum_n J_n(x)^T d_n)_j / (2 + t / 4)``, w_j being half
its width (projected gradient steps; Madry et al., 2018).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyomo.environ as pyo
from pyomo.common.collections import ComponentMap
from pyomo.repn import generate_standard_repn

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.blocks.ranges import ends_of
from lipyomo.blocks.units import switch_of
from lipyomo.primal.heuristics.params import PARAMS as SAMPLING


@dataclass(frozen=True)
class _Ascent:
    """An objective to be made large over a box of inputs.

    Attributes
    ----------
    inputs : list of VarData
    lower, upper : ndarray, shape (d,)
    direct : ndarray, shape (d,)
        Coefficients of the inputs themselves.
    parts : list of (block, ndarray of int, ndarray)
        Network blocks, where their inputs are among `inputs`, and coefficients of their outputs.
    """

    inputs: list[Any]
    lower: FloatArray
    upper: FloatArray
    direct: FloatArray
    parts: list[tuple[Any, IntArray, FloatArray]]

    def values(self, points: FloatArray) -> FloatArray:
        """The objective at points (n, d), shape (n,)."""
        found = points @ self.direct
        for block, places, weights in self.parts:
            found = found + block.network.forward(points[:, places]) @ weights
        return np.asarray(found)

    def slopes(self, points: FloatArray) -> FloatArray:
        """Its gradients, shape (n, d)."""
        found = np.tile(self.direct, (len(points), 1))
        for block, places, weights in self.parts:
            if weights.any():
                slopes = block.network.gradients(points[:, places], weights)
                np.add.at(found.T, places, slopes.T)
        return found

    def best(self) -> FloatArray:
        """The best point that a few dozen ascents meet, shape (d,)."""
        layers = [layer for block, _, _ in self.parts for layer in block.network.layers]
        each = 4 * SAMPLING.ascent_steps * sum(layer.weight.size for layer in layers)
        count = int(np.clip(SAMPLING.work / SAMPLING.quick / each, 1, SAMPLING.population))
        rng = np.random.default_rng(0)
        points = rng.uniform(self.lower, self.upper, (count, self.lower.size))
        points[0] = 0.5 * (self.lower + self.upper)
        width = 0.5 * (self.upper - self.lower)
        top, point = -np.inf, points[0]
        for turn in range(SAMPLING.ascent_steps + 1):
            values = self.values(points)
            k = int(values.argmax())
            if values[k] > top:
                top, point = float(values[k]), points[k].copy()
            if turn < SAMPLING.ascent_steps:
                step = width * np.sign(self.slopes(points)) / (2.0 + 0.25 * turn)
                points = np.clip(points + step, self.lower, self.upper)
        return np.asarray(point)


def local_start(model: Any, blocks: Sequence[Any], columns: list[Any]) -> ComponentMap | None:
    """Values of the variables of network blocks at a point that a local search finds good.

    Parameters
    ----------
    model : BlockData
    blocks : sequence of ReluNetworkBlock
        Built, with switches and values.
    columns : list of VarData
        Variables that a start has to have values of.

    Returns
    -------
    ComponentMap or None
        Nothing if there are other columns, the objective is not linear in inputs and outputs of the
        networks, or an input has no bounds.
    """
    known = {id(v) for block in blocks for v in _variables_of(block)}
    if any(id(column) not in known for column in columns):
        return None
    ascent = _ascent_of(model, blocks)
    if ascent is None:
        return None
    point = ascent.best()
    values = ComponentMap(zip(ascent.inputs, point.tolist(), strict=True))
    for block, places, _ in ascent.parts:
        x = point[places]
        for i, z in enumerate(block.network.preactivations(x)):
            part, layer = block.layer[i], block.network.hidden[i]
            for k, variable in part.preactivation.items():
                values[variable] = float(z[k])
            for k, variable in part.output.items():
                values[variable] = float(layer.activate(z)[k])
            for k, variable in switch_of(part).items():
                values[variable] = float(z[k] > 0.0)
        outputs = block.network.forward(x).tolist()
        values.update(zip(outputs_of(block), outputs, strict=True))
    return values


def _ascent_of(model: Any, blocks: Sequence[Any]) -> _Ascent | None:
    """The objective of a model as an ascent over the inputs of its networks."""
    objectives = list(model.component_data_objects(pyo.Objective, active=True))
    if len(objectives) != 1:
        return None
    form = generate_standard_repn(objectives[0].expr, quadratic=False)
    if form.nonlinear_vars:
        return None
    sign = 1.0 if objectives[0].sense == pyo.maximize else -1.0
    weight = ComponentMap(zip(form.linear_vars, form.linear_coefs, strict=True))
    inputs: ComponentMap = ComponentMap()
    parts: list[tuple[Any, IntArray, FloatArray]] = []
    lows: list[float] = []
    highs: list[float] = []
    for block in blocks:
        lower, upper = block.region.box
        places = []
        for variable, low, high in zip(inputs_of(block), lower, upper, strict=True):
            place = inputs.setdefault(variable, len(lows))
            if place == len(lows):
                held = variable.value, variable.value
                own = ends_of(*(held if variable.fixed else variable.bounds))
                lows.append(own[0])
                highs.append(own[1])
            lows[place], highs[place] = max(lows[place], low), min(highs[place], high)
            places.append(place)
        weights = [sign * weight.pop(v, 0.0) for v in outputs_of(block)]
        parts.append((block, np.array(places, dtype=np.intp), np.array(weights)))
    direct = np.array([sign * weight.pop(variable, 0.0) for variable in inputs])
    lower, upper = np.array(lows, dtype=float), np.array(highs, dtype=float)
    sound = np.isfinite(lower).all() and np.isfinite(upper).all() and (lower <= upper).all()
    if len(weight) or not sound or not any(weights.any() for _, _, weights in parts):
        return None
    return _Ascent(list(inputs), lower, upper, direct, parts)


def inputs_of(block: Any) -> list[Any]:
    """The variables behind the inputs of a network block."""
    return [v if v.is_variable_type() else v.expr for v in block.inputs.values()]


def outputs_of(block: Any) -> list[Any]:
    """The variables behind the outputs of a network block."""
    return [v if v.is_variable_type() else v.expr for v in block.outputs.values()]


def _variables_of(block: Any) -> Iterator[Any]:
    """All variables of a network block."""
    yield from inputs_of(block)
    yield from outputs_of(block)
    for part in block.layer.values():
        for name in ("preactivation", "output", "switch"):
            yield from getattr(part, name).values()
