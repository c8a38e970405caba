"""Base class of the blocks for a network's values: its network, inputs, layers and outputs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyomo.environ as pyo

from lipyomo.base.arguments import brief, one_of, whole_number
from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.errors import BoundsMissing, ProblemError
from lipyomo.blocks.assemble import add_equalities, add_layers, add_variables, declared
from lipyomo.blocks.base import FormulationBlockData
from lipyomo.blocks.inputs import PlaceOptions, Region, attach_inputs, items_of, variables_of
from lipyomo.blocks.labels import Labels, refer
from lipyomo.blocks.units import UNIT_TIES, WITHOUT_SWITCH, OpenUnits, UnitFormulation, add_sides
from lipyomo.networks.network import Layer, Network, check_two_slopes
from lipyomo.networks.phases import LEFT, OPEN
from lipyomo.networks.scaling import in_units
from lipyomo.relaxations.linear import LayerBounds
from lipyomo.relaxations.linear.layers import given_bounds
from lipyomo.relaxations.linear.relax import activated, interval_range
from lipyomo.relaxations.linear.sharpen import ModelRelaxation, bounds_of_models
from lipyomo.solvers.rows import Forms, linear
from lipyomo.solvers.variables import box_of, need_finite

NetworkSource: TypeAlias = "Network | str | os.PathLike[str] | ForwardBlockData"
"""A network, the path of an ONNX file, or a built block of a network's value."""

Ranges: TypeAlias = tuple[FloatArray, FloatArray]
"""Lower and upper bounds of the units of a layer."""

Kind = TypeVar("Kind", bound="ForwardBlockData")

BoundChoice: TypeAlias = (
    "ModelRelaxation | LayerBounds | Sequence[tuple[npt.ArrayLike, npt.ArrayLike]]"
)
"""A relaxation, or bounds: one pair (lower, upper) for each hidden layer."""


class NetworkOptions(PlaceOptions, total=False):
    """Options of inputs, and of the formulation of two-slope units."""

    bounds: BoundChoice
    formulation: UnitFormulation


class ForwardBlockData(FormulationBlockData):
    """Base of the blocks for a network's values, ``outputs = f(inputs)``."""

    _RESULT = "outputs"
    NAMES: ClassVar[str] = "ReluNetworkBlock or SmoothNetworkBlock"
    """Public names of the class, for messages."""
    inputs: Any
    outputs: Any
    layer: Any
    region: Region
    network: Network
    labels: tuple[Labels, Labels]
    layer_bounds: LayerBounds
    formulation: UnitFormulation = "bigm"
    groups: int = 2
    segments: int | None = None

    def _attach(
        self, network: Any, inputs: Any, outputs: Any, place: PlaceOptions
    ) -> tuple[Network, Region]:
        """Declare the inputs and their constraints, and return the network in the model's units.

        Raises
        ------
        ProblemError
            If the network or the scaling is invalid.
        """
        if not isinstance(network, Network):
            twin = built_block(network, ForwardBlockData)
            inputs = twin.region.variables if inputs is None else inputs
            network = twin.network
        self.network = net = in_units(network, place.get("scaling"))
        self.region = region = attach_inputs(self, inputs, place, net.input_shape)
        given = None if outputs is None else items_of(outputs, "outputs")[0]
        self.labels = region.labels, Labels.of(given, net.output_shape)
        return net, region

    def _check_units(
        self, formulation: Any, groups: Any, bounds: Any, relaxations: Sequence[str]
    ) -> None:
        """Check and store the formulation of unstable units; `ProblemError` if it is invalid."""
        one_of(formulation, UNIT_TIES, "formulation", ProblemError)
        self.formulation = formulation
        self.groups = whole_number(groups, "groups", ProblemError, 1)
        if isinstance(bounds, str) or bounds is None:
            one_of(bounds, relaxations, "bounds", ProblemError)

    def ranges(self, i: int) -> Ranges:
        """Return bounds of the pre-activations of hidden layer i."""
        return self.layer_bounds.lower[i], self.layer_bounds.upper[i]

    def _bound(self, network: Network, region: Region, bounds: Any) -> None:
        """Compute the bounds of the pre-activations, or check and store the given ones."""
        if isinstance(bounds, str):
            area = region.area()
            if self.segments is not None or self.formulation not in WITHOUT_SWITCH:
                need_finite(region.variables, area.lower, area.upper)
            self.layer_bounds = bounds_of_models(network, area, cast(ModelRelaxation, bounds))
        else:
            self.layer_bounds = given_bounds(network, bounds)

    def _add_all(
        self, network: Network, variables: list[Any], outputs: Any, values: bool = True
    ) -> None:
        """Add all layers and the outputs; without `values` only what the switches need."""
        add_layers(self, len(network.hidden))
        forms, last = Forms.of(variables), len(network.hidden) - 1
        for i, layer in enumerate(network.hidden):
            forms = self._add_layer(i, layer, forms, values or i < last)
        if values:
            self._add_outputs(network, forms, outputs)

    def _add_layer(self, i: int, layer: Layer, before: Forms, values: bool) -> Forms:
        """Add one hidden layer, and return its outputs as forms in the new variables.

        Without `values`, only what its switches need is added.
        """
        block, phases = self.layer[i], self.layer_bounds.phases[i]
        low, high = self.ranges(i)
        undecided = layer.kinked & (phases == OPEN)
        self._check_finite(i, undecided, layer.curved)
        slope = np.where(phases != LEFT, layer.right, layer.left)
        # A unit with a given phase keeps that side as a bound of its variable.
        held = layer.kinked & ~undecided & ((low == 0) | (high == 0))
        needed = undecided | layer.curved | held | ((slope != 0) & values)
        keys = np.flatnonzero(needed).tolist()
        z = add_variables(block, "preactivation", keys, low[keys], high[keys])
        add_equalities(block, "affine", keys, z, before.map(layer.weight, layer.bias), keys)
        free = np.flatnonzero(undecided).tolist()
        if not values:
            add_sides(block, free, low, high)
            return Forms.numbers(np.zeros(layer.units))
        own = np.flatnonzero(undecided | layer.curved)
        (least,), (most,) = activated(layer, phases[None], low[None], high[None])
        add_variables(block, "output", own.tolist(), least[own], most[own])
        if free:
            UNIT_TIES[self.formulation](block, OpenUnits(layer, free, low, high, self.groups))
        self._add_curves(block, layer, (low, high))
        terms, y = [], block.output
        expressions = declared(block, "activation", pyo.Expression, range(layer.units))
        for k, factor in enumerate(slope.tolist()):
            if k in y:
                factor, variable = 1.0, y[k]
            elif factor == 0.0:
                expressions[k] = 0.0
                continue
            else:
                variable = block.preactivation[k]
            terms.append((k, factor, variable))
            expressions[k] = variable if factor == 1.0 else linear([factor], [variable])
        return Forms.of_terms(terms, np.zeros(layer.units))

    def _check_finite(self, i: int, undecided: BoolArray, curved: BoolArray) -> None:
        """Raise `BoundsMissing` if a unit that needs finite bounds has none."""
        low, high = self.ranges(i)
        needed = undecided & (self.formulation not in WITHOUT_SWITCH)
        needed = needed | (curved & (self.segments is not None))
        loose = np.flatnonzero(needed & ~(np.isfinite(low) & np.isfinite(high)))
        if loose.size:
            raise BoundsMissing(
                f"unit {int(loose[0])} of hidden layer {i} has no finite bounds, which switches "
                "and segments need.  Remedy: bound the network's inputs"
            )

    def _add_curves(self, block: Any, layer: Layer, ranges: Ranges) -> None:
        """Add the constraints between pre-activations and outputs of smooth units, if any."""

    def _add_outputs(self, network: Network, before: Forms, given: Any) -> None:
        """Declare ``outputs``, new or given ones, and their rows from the last hidden layer."""
        head, labels = network.head, self.labels[1]
        forms = before.map(head.weight, head.bias)
        if given is not None:
            _, outputs = variables_of(self, "outputs", given, "outputs", network.output_dim)
            refer(self, "outputs", outputs, labels)
        else:
            lows = highs = forms.constant
            if forms.columns:
                box = box_of(forms.columns, finite=False)
                lows, highs = interval_range(Layer(forms.matrix, lows), box.lower, box.upper)
            outputs = add_variables(self, "outputs", labels, lows, highs)
        add_equalities(self, "output_affine", labels, outputs, forms)


def built_block(
    block: Any, kind: type[Kind], inputs: Any = None, options: Mapping[str, Any] | None = None
) -> Kind:
    """Return a block that was given as a network; options that it has must not be given as well.

    The option ``bounds`` is ignored, since the block has its own bounds.

    Raises
    ------
    ProblemError
        If it is no block of this `kind`, is not built yet, or another option was given.
    """
    if not isinstance(block, kind) or not block.is_built:
        shown = f"'{block.name}'" if hasattr(block, "ctype") else brief(block)
        raise ProblemError(
            f"{shown} was given as a network.  Remedy: a {kind.NAMES} whose build_formulation "
            "was called, a Network, or the path of an ONNX file"
        )
    own = {"inputs": inputs} | dict(options or {})
    given = [name for name, value in own.items() if value is not None and name != "bounds"]
    if given:
        raise ProblemError(
            f"{given[0]}= has no meaning with a built block, which has its own.  "
            "Remedy: leave it out, name what was meant, or pass the network"
        )
    return block


def need_two_slopes(network: Network, what: str) -> None:
    """Raise `ProblemError` if a network has smooth units, which `what` does not support."""
    remedy = (
        "SmoothNetworkBlock for its values, GradientBlock or jacobian[k, j] for derivatives, "
        "lipyomo.solve for its Lipschitz constant"
    )
    check_two_slopes(network, what, remedy, ProblemError)
