r"""The forward pass of a network with smooth units as a Pyomo block.

In the full-space form, unit k of a layer has a variable z for its pre-activation, with an affine
row, and a variable y = sigma(z) for its output, both with certified bounds.  The curve is a
nonlinear expression or, for mixed-integer linear solvers, is relaxed by bands over segments that
contain it.  Two-slope units in the same network are formulated as in a
`ReluNetworkBlock`.

The certified range of a pre-activation is cut into segments [t_j, t_{j+1}], over each of which a
band ``s_j z + lo_j <= y <= s_j z + hi_j`` contains the activation
(`lipyomo.networks.activations.segments`).  The union of the bands is written as one mixed-integer
model, whose linear relaxation is the convex hull of the union (Jeroslow and Lowe, 1984; the
multiple choice model of Vielma, Ahmed and Nemhauser, 2010): with binaries b_j and parts z_j of z,

    sum_j b_j = 1,    sum_j z_j = z,    t_j b_j <= z_j <= t_{j+1} b_j,
    sum_j (s_j z_j + lo_j b_j) <= y <= sum_j (s_j z_j + hi_j b_j).

The coefficients are exactly the numbers for which the bands are proved, without further rounding;
bands that are almost horizontal are made horizontal, and higher.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, Unpack

import numpy as np
import numpy.typing as npt
import pyomo.environ as pyo

from lipyomo.base.arguments import one_of, whole_number
from lipyomo.base.errors import ProblemError
from lipyomo.base.numerics.rounding import rounded_up
from lipyomo.blocks.assemble import add_layers, add_variables, declared
from lipyomo.blocks.base import formulation_block
from lipyomo.blocks.curves import activations_of, expression_of, need_no_kink
from lipyomo.blocks.forward import ForwardBlockData, NetworkSource, Ranges
from lipyomo.blocks.inputs import PlaceOptions, variables_of
from lipyomo.blocks.labels import refer
from lipyomo.blocks.units import UnitFormulation
from lipyomo.networks.activations.segments import Segment, segments_of
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.reductions.confine import confined
from lipyomo.solvers.rows import Rows
from lipyomo.solvers.variables import combination

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

    def _add_curves(self, block: Any, layer: Layer, ranges: Ranges) -> None:
        low, high = ranges
        if self.segments is not None:
            found: dict[int, list[Segment]] = {}
            for curve in layer.curves:
                units = curve.units
                cut = segments_of(curve.activation, low[units], high[units], self.segments)
                found.update(zip(units.tolist(), cut, strict=True))
            add_bands(block, found)
            return
        kinds = activations_of(layer)
        if not kinds:
            return
        rows = pyo.Constraint(sorted(kinds))
        block.add_component("curve", rows)
        for k in sorted(kinds):
            ends = float(low[k]), float(high[k])
            curve = expression_of(kinds[k], block.preactivation[k], ends)
            rows[k] = block.output[k] - curve == 0.0


DROPPED = 1e-9
"""Size of coefficients that HiGHS takes for zero (its option ``small_matrix_value``)."""


def _level(band: Segment) -> Segment:
    """Return a horizontal band instead of one so flat that solvers drop its slope.

    Without its slope, a band may miss the graph by more than their tolerances.
    """
    if abs(band.slope) > DROPPED:
        return band
    ends = band.slope * band.low, band.slope * band.high
    low, high = band.below + min(ends), band.above + max(ends)
    return replace(band, slope=0.0, below=-rounded_up(-low, 2), above=rounded_up(high, 2))


def add_bands(block: Any, segments: dict[int, list[Segment]]) -> None:
    """Declare rows that keep each unit's output y in the bands over its segments.

    Units with one segment need neither binaries nor parts.

    Parameters
    ----------
    block : BlockData
        The layer's block.
    segments : dict
        Segments by unit.
    """
    keys = sorted(segments)
    segments = {k: [_level(band) for band in segments[k]] for k in keys}
    several = [k for k in keys if len(segments[k]) > 1]
    pairs = [(k, j) for k in several for j in range(len(segments[k]))]
    flat = [segments[k][j] for k, j in pairs]
    chosen = add_variables(block, "segment", pairs, binary=True)
    ends = np.array([(min(s.low, 0.0), max(s.high, 0.0)) for s in flat]).reshape(-1, 2)
    parts = add_variables(block, "part", pairs, ends[:, 0], ends[:, 1])
    from_, to = (Rows(block, name, pairs) for name in ("part_from", "part_to"))
    for pair, part, b, segment in zip(pairs, parts, chosen, flat, strict=True):
        from_.at_least(pair, [1.0, -segment.low], [part, b], 0.0)
        to.at_most(pair, [1.0, -segment.high], [part, b], 0.0)
    one, whole = Rows(block, "one_segment", several), Rows(block, "whole", several)
    above, below = Rows(block, "band_above", keys), Rows(block, "band_below", keys)
    for k in keys:
        own, z, y = segments[k], block.preactivation[k], block.output[k]
        if len(own) == 1:
            (only,) = own
            above.at_most(k, [1.0, -only.slope], [y, z], only.above)
            below.at_least(k, [1.0, -only.slope], [y, z], only.below)
            continue
        bs = [block.segment[k, j] for j in range(len(own))]
        zs = [block.part[k, j] for j in range(len(own))]
        one.equal(k, [1.0] * len(own), bs, 1.0)
        whole.equal(k, [1.0, *[-1.0] * len(own)], [z, *zs], 0.0)
        slopes = [-segment.slope for segment in own]
        for rows, heights in (
            (above.at_most, [-segment.above for segment in own]),
            (below.at_least, [-segment.below for segment in own]),
        ):
            rows(k, [1.0, *slopes, *heights], [y, *zs, *bs], 0.0)
