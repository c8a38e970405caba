r"""The forward pass of a network with smooth units as a Pyomo block.

In the full-space form, unit k of a layer has a variable z for its pre-activation, with an affine
row, and a variable y = sigma(z) for its output, both with certified bounds.  The curve is a
nonlinear expression or, for mixed-integer linear solvers, is relaxed by bands over segments that
contain it (`lipyomo.blocks.bands`).  Two-slope units in the same network are formulated as in a
`ReluNetworkBlock`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, Unpack

import numpy as np
import numpy.typing as npt
import pyomo.environ as pyo

from lipyomo.base.arguments import one_of, whole_number
from lipyomo.base.errors import ProblemError
from lipyomo.blocks.assemble import add_layers, declared
from lipyomo.blocks.bands import add_bands
from lipyomo.blocks.base import formulation_block
from lipyomo.blocks.curves import activations_of, expression_of, need_no_kink
from lipyomo.blocks.forward import ForwardBlockData, NetworkSource, Ranges
from lipyomo.blocks.inputs import PlaceOptions, variables_of
from lipyomo.blocks.labels import refer
from lipyomo.blocks.units import UnitFormulation
from lipyomo.networks.activations.segments import Segment, segments_of
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.reductions.confine import confined
from lipyomo.solvers.expressions import combination

SmoothBounds: TypeAlias = (
    "Literal['linear', 'interval'] | Sequence[tuple[npt.ArrayLike, npt.ArrayLike]]"
)
"""A relaxation for bounds of pre-activations, or their bounds (lower, upper) by hidden layer."""


@formulation_block(PlaceOptions)
class SmoothNetworkBlockData(ForwardBlockData):
    """The values of a network with smooth units: ``outputs = f(inputs)``.

    After `build_formulation` the block has ``inputs`` and ``outputs`` as a `ReluNetworkBlock` and,
    in ``layer[i]`` for the i-th hidden layer, ``preactivation[k]``, ``output[k]`` (for smooth and
    unstable two-slope units), the expression ``activation[k]`` for every unit, and either
    ``curve[k]``, the nonlinear rows ``output[k] == sigma(preactivation[k])``, or the rows of bands
    over segments, with binaries ``segment[k, j]``.

    Notes
    -----
    The bounds of pre-activations and outputs are certified for all inputs within their bounds.  If
    a bound of an input becomes wider later, a solve raises a `ProblemError`, and `rebuild` rebuilds
    the constraints in place.

    With `segments`, every point of the network's graph is feasible, so that the dual bound of a
    solver is valid for the network; it becomes tighter with more segments.

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> from lipyomo.networks.activations import activation
    >>> from lipyomo.blocks import SmoothNetworkBlock
    >>> from lipyomo.networks.network import Curve, Layer, Network
    >>> unit = Layer([[2.0]], [0.0], curves=[Curve(activation("tanh"), [0])])
    >>> m = pyo.ConcreteModel()
    >>> m.x = pyo.Var([0], bounds=(-1, 1))
    >>> m.net = SmoothNetworkBlock()
    >>> m.net.build_formulation(Network([unit]), inputs=m.x, segments=8)
    >>> m.best = pyo.Objective(expr=m.net.outputs[0], sense=pyo.maximize)
    >>> _ = pyo.SolverFactory("appsi_highs").solve(m)
    >>> round(pyo.value(m.net.outputs[0]), 2)  # tanh(2) is 0.96
    0.96
    """

    reduced_space = False

    def build_formulation(
        self,
        network: NetworkSource,
        inputs: Any = None,
        *,
        outputs: Any = None,
        bounds: SmoothBounds = "linear",
        segments: int | None = None,
        formulation: UnitFormulation | None = None,
        groups: int = 2,
        reduced_space: bool = False,
        **place: Unpack[PlaceOptions],
    ) -> None:
        """Build the constraints.

        Parameters
        ----------
        network : Network, path of an ONNX file, or built block of a network
            Of a built block, its network (including scaling), at the same inputs unless others are
            given.
        inputs, outputs
            As for a `ReluNetworkBlock`.
        bounds : {'linear', 'interval'} or pairs of arrays
            Relaxation for bounds of the pre-activations, or their bounds (lower, upper) by layer.
        segments : int, optional
            Number of segments per smooth unit in piecewise-linear relaxations, for mixed-integer
            linear solvers; by default nonlinear expressions are used.
        formulation : {'complementarity', 'bigm', 'partition', 'gdp', 'sos1'}, optional
            Formulation of unstable two-slope units; see `lipyomo.blocks.units`.  By default
            ``complementarity`` with nonlinear expressions, ``bigm`` with segments.
        groups : int, optional
            Groups of a unit's inputs in the formulation ``partition``; at least 1.
        reduced_space : bool, optional
            Express the outputs directly in the inputs, without variables and rows of layers: a
            smaller model with denser derivatives.  All units must be smooth or stable.
        **place
            `domain`, `input_bounds`, `scaling`, as for a `ReluNetworkBlock`.

        Raises
        ------
        BoundsMissing
            If a segment or a switch needs a bound that is not available.
        DomainError
            If the domain is no polyhedron, or does not intersect the bounds of the inputs.
        ProblemError
            If an argument is invalid, or an activation has no expression in Pyomo.  The block is
            then unchanged.
        """
        if segments is not None:
            segments = whole_number(segments, "segments", ProblemError, 1)
        if formulation is None:
            formulation = "complementarity" if segments is None else "bigm"
        one_of(reduced_space, (True, False), "value of reduced_space", ProblemError)
        if reduced_space and segments is not None:
            raise ProblemError("segments need variables.  Remedy: leave reduced_space=True out")
        self._check_units(formulation, groups, bounds, ("linear", "interval"))
        net, region = self._attach(network, inputs, outputs, place)
        if net.needs_ranges:  # units for products, quotients and powers
            net = self.network = confined(net, region.area())
        self.segments, self.reduced_space = segments, reduced_space
        self._bound(net, region, bounds)
        self.layer_bounds = self.layer_bounds.with_confined_units(net)
        if reduced_space:
            self._add_expressions(net, region.variables, outputs)
        else:
            self._add_all(net, region.variables, outputs)

    def _add_expressions(self, network: Network, variables: list[Any], given: Any) -> None:
        """Add all layers as expressions in the inputs."""
        add_layers(self, len(network.hidden))
        now = list(variables)
        for i, layer in enumerate(network.hidden):
            part, (low, high) = self.layer[i], self.ranges(i)
            need_no_kink(layer, (low, high), i, "takes rows.  Remedy: leave reduced_space=True out")
            kinds = activations_of(layer)
            slopes = np.where(low >= 0, layer.right, layer.left).tolist()
            z = declared(part, "preactivation", pyo.Expression, range(layer.units))
            y = declared(part, "activation", pyo.Expression, range(layer.units))
            for k, row in enumerate(layer.dense_weight.tolist()):
                z[k] = combination(row, now, float(layer.bias[k]))
                ends = float(low[k]), float(high[k])
                y[k] = expression_of(kinds[k], z[k], ends) if k in kinds else slopes[k] * z[k]
            now = list(y.values())
        head, labels = network.head, self.labels[1]
        forms = [
            combination(row, now, float(b))
            for row, b in zip(head.dense_weight.tolist(), head.bias, strict=True)
        ]
        if given is None:
            outputs = declared(self, "outputs", pyo.Expression, labels)
            for key, form in zip(labels, forms, strict=True):
                outputs[key] = form
            return
        _, variables = variables_of(self, "outputs", given, "outputs", network.output_dim)
        refer(self, "outputs", variables, labels)
        rows = pyo.Constraint(list(labels))
        self.add_component("output_row", rows)
        for key, variable, form in zip(labels, variables, forms, strict=True):
            rows[key] = variable - form == 0.0

    def _add_curves(
        self, block: Any, layer: Layer, z: dict[int, Any], y: dict[int, Any], ranges: Ranges
    ) -> None:
        low, high = ranges
        if self.segments is not None:
            found: dict[int, list[Segment]] = {}
            for curve in layer.curves:
                units = curve.units
                cut = segments_of(curve.activation, low[units], high[units], self.segments)
                found.update(zip(units.tolist(), cut, strict=True))
            add_bands(block, z, y, found)
            return
        kinds = activations_of(layer)
        if not kinds:
            return
        rows = pyo.Constraint(sorted(kinds))
        block.add_component("curve", rows)
        for k in sorted(kinds):
            ends = float(low[k]), float(high[k])
            rows[k] = y[k] - expression_of(kinds[k], z[k], ends) == 0.0
