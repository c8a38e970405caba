"""Warm starts for solvers by local search: gradient ascent through the networks of a model.

Solvers find good points of network models by sub-MIPs over all inputs, which takes most of their
time; evaluating a network and its gradient takes microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyomo.environ as pyo
from pyomo.common.collections import ComponentMap, ComponentSet
from pyomo.repn import generate_standard_repn

from lipyomo.blocks.units import switch_of
from lipyomo.primal.heuristics.values import NetworkTerm, ValueAscent
from lipyomo.solvers.variables import ends_of


def local_start(model: Any, blocks: Sequence[Any], columns: list[Any]) -> ComponentMap | None:
    """Return values of the variables of network blocks at the best point of a local search.

    Parameters
    ----------
    model : BlockData
    blocks : sequence of ReluNetworkBlock
        Built, with switches and values.
    columns : list of VarData
        Variables that need a value.

    Returns
    -------
    ComponentMap or None
        None if there are other columns, the objective is not linear in inputs and outputs of the
        networks, or an input has no bounds.
    """
    known = ComponentSet(v for block in blocks for v in _variables_of(block))
    if any(column not in known for column in columns):
        return None
    inputs = list(ComponentSet(v for block in blocks for v in block.region.variables))
    ascent = _ascent_of(model, blocks, inputs)
    if ascent is None:
        return None
    point = ascent.best()
    values = ComponentMap(zip(inputs, point.tolist(), strict=True))
    for block, term in zip(blocks, ascent.terms, strict=True):
        x = point[term.places]
        for i, z in enumerate(block.network.preactivations(x)):
            part, layer = block.layer[i], block.network.hidden[i]
            y = layer.activate(z)
            values.update((v, float(z[k])) for k, v in part.preactivation.items())
            values.update((v, float(y[k])) for k, v in part.output.items())
            values.update((v, float(z[k] > 0.0)) for k, v in switch_of(part).items())
        outputs = block.network.forward(x).tolist()
        values.update(zip(outputs_of(block), outputs, strict=True))
    return values


def _ascent_of(model: Any, blocks: Sequence[Any], inputs: list[Any]) -> ValueAscent | None:
    """Return an ascent of the model's objective over the inputs of its networks, if possible."""
    objectives = list(model.component_data_objects(pyo.Objective, active=True))
    if len(objectives) != 1:
        return None
    form = generate_standard_repn(objectives[0].expr, quadratic=False)
    if form.nonlinear_vars:
        return None
    sign = 1.0 if objectives[0].sense == pyo.maximize else -1.0
    weight = ComponentMap(zip(form.linear_vars, form.linear_coefs, strict=True))
    place = ComponentMap((variable, j) for j, variable in enumerate(inputs))
    held = [(v.value, v.value) if v.fixed else v.bounds for v in inputs]
    lower, upper = np.array([ends_of(*ends) for ends in held]).reshape(-1, 2).T
    terms = []
    for block in blocks:
        places = np.array([place[v] for v in block.region.variables], dtype=np.intp)
        low, high = block.region.box
        np.maximum.at(lower, places, low)
        np.minimum.at(upper, places, high)
        weights = np.array([sign * weight.pop(v, 0.0) for v in outputs_of(block)])
        terms.append(NetworkTerm(block.network, places, weights))
    direct = np.array([sign * weight.pop(variable, 0.0) for variable in inputs])
    sound = np.isfinite(lower).all() and np.isfinite(upper).all() and (lower <= upper).all()
    if len(weight) or not sound or not any(term.weights.any() for term in terms):
        return None
    return ValueAscent(lower, upper, direct, terms)


def outputs_of(block: Any) -> list[Any]:
    """Return the variables of a network block's outputs."""
    return [v if v.is_variable_type() else v.expr for v in block.outputs.values()]


def _variables_of(block: Any) -> Iterator[Any]:
    """Yield all variables of a network block for which `local_start` computes values."""
    yield from block.region.variables
    yield from outputs_of(block)
    for part in block.layer.values():
        for name in ("preactivation", "output", "switch"):
            yield from getattr(part, name).values()
