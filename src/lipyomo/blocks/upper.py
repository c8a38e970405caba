r"""An upper bound of the Lipschitz constant around a variable point, as a Pyomo block.

``value`` of a `LipschitzBlock` is at most a norm, so it cannot bound one from above.  Here it is an
upper bound of the network's Lipschitz constant on the box ``|y_j - x_j| <= r_j``, whose centre x
and radius r may be variables, so that ``value <= s`` is a valid constraint.  Interval arithmetic is
linear in the ends of the intervals, for pre-activations and for derivatives:

- pre-activations on the box lie in [p, q]: ``p = W+ l + W- u + b``, ``q = W+ u + W- l + b``, where
  [l, u] contains the layer's inputs (x - r and x + r at first), W = W+ + W-;
- a binary ``on`` may be 1 only if p >= 0, and ``off`` only if q <= 0: the unit has one slope on the
  whole box.  Its output has ``u >= left q, right q`` and ``l <= left p``, or ``l <= right p`` if it
  is on;
- in the backward pass, from a vertex c of the output norm's dual ball, derivatives in [t, T] before
  a unit become [s, S] with ``S >= left T`` unless the unit is on, ``S >= right T`` unless it is off
  (FastLip: Weng et al., "Towards fast computation of certified robustness for ReLU networks",
  2018);
- at the inputs, the l1 norm of the gradient is the largest signed sum of its entries.  Each sum is
  one more affine map of the first layer's derivatives, so that all entries share the slopes of its
  units; with many inputs, the entries are bounded one by one.

The bound is sound at kinks: there neither side is certified, and both slopes are possible.  The
larger the box, the looser the bound; at radius 0 it is the norm of the gradient.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

import numpy as np
import pyomo.environ as pyo
import scipy.sparse as sp

from lipyomo.base.arguments import real_number
from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.errors import NormError, ProblemError
from lipyomo.base.numerics.rounding import EXACT_TOLERANCE
from lipyomo.blocks.assemble import add_layers, add_value, add_variables, declared
from lipyomo.blocks.base import FormulationBlockData, formulation_block
from lipyomo.blocks.derivative import directions_of, linear_norm
from lipyomo.blocks.forward import NetworkSource, built_block, need_two_slopes
from lipyomo.blocks.inputs import PlaceOptions, Region, attach_inputs, in_order, variables_of
from lipyomo.blocks.labels import refer
from lipyomo.blocks.relu import ReluNetworkBlockData
from lipyomo.blocks.spans import Span, above_sizes, through_slopes, through_units
from lipyomo.blocks.use import OneSided
from lipyomo.networks.network import Network
from lipyomo.networks.scaling import in_units
from lipyomo.problems.domains import Box
from lipyomo.problems.norms import ONE_BY_ONE, InputNorm, output_norm_of
from lipyomo.relaxations.linear import preactivation_bounds
from lipyomo.solvers.rows import Forms, Rows
from lipyomo.solvers.variables import box_of, need_finite


@formulation_block(PlaceOptions)
class UpperLipschitzBlockData(FormulationBlockData):
    """An upper bound ``value`` of the Lipschitz constant on a box around the inputs.

    After `build_formulation` the block has ``value``, ``inputs[j]`` (the centre), ``radius[j]``
    and, in ``layer[i]``, ``low[k]`` and ``high[k]`` (bounds of the pre-activations), ``on[k]`` and
    ``off[k]`` (1 only if a unit has its right-hand, or left-hand, slope on the whole box).

    Notes
    -----
    The bound holds at every feasible point of the model, not only at the optimum.  Centre and
    radius of the box may be variables; the weights are numbers.  For a fixed box, ``lipyomo.solve``
    returns a better bound, as a number.

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> from lipyomo import Network
    >>> from lipyomo.blocks import UpperLipschitzBlock
    >>> m = pyo.ConcreteModel()
    >>> m.x = pyo.Var([0], bounds=(-5, 5))
    >>> m.calm = UpperLipschitzBlock()
    >>> net = Network.from_arrays([[[1.0], [1.0]], [[3.0, 1.0]]], [[-2.0, 1.0], [0.0]])
    >>> m.calm.build_formulation(net, inputs=m.x, radius=0.5)
    >>> m.limit = pyo.Constraint(expr=m.calm.value <= 1.0)
    >>> m.far = pyo.Objective(expr=m.x[0], sense=pyo.maximize)
    >>> _ = pyo.SolverFactory("lipyomo_highs").solve(m)
    >>> round(pyo.value(m.x[0]), 4)
    1.5
    """

    value: Any
    inputs: Any
    radius: Any
    layer: Any
    chain: Any

    network: Network | None = None

    def build_formulation(
        self,
        network: NetworkSource,
        inputs: Any = None,
        *,
        radius: Any = 0.0,
        norm: InputNorm = "linf",
        output_norm: Any = "linf",
        distance_to_kink: float = EXACT_TOLERANCE,
        wrt: Iterable[Any] | None = None,
        **place: Unpack[PlaceOptions],
    ) -> None:
        """Build the constraints.

        Parameters
        ----------
        network : Network, path of an ONNX file, or ReluNetworkBlock
            With a built block, its inputs are the centre of the box.
        inputs : Var, slice, array, sequence or mapping, optional
            The centre of the box, as in `ReluNetworkBlock`; new variables by default.
        radius : float, Var, or one of them for each input, optional
            Half the widths of the box; variables need bounds of at least 0.  A single radius
            applies to the inputs along which directions are included; the others have width 0.
        norm : {'linf', 'l1'}, optional
        output_norm : str or OutputNorm, optional
            Any linear norm with few vertices.
        distance_to_kink : float, optional
            Distance from its kink from which a unit counts as stable, which must exceed the
            solver's feasibility tolerance.
        wrt : iterable of keys of the inputs, optional
            Inputs along which directions are included: by default those with nonzero radius if each
            has its own, otherwise those whose centre can vary (all, if none can).
        **place
            `domain`, `input_bounds`, `scaling` of the centre, as in `ReluNetworkBlock`; must not be
            given with a built block.

        Raises
        ------
        BoundsMissing
            If the centre or the radius is not bounded.
        NormError
            If a norm is not linear, or has too many vertices.
        ProblemError, DomainError
            If an argument is invalid.  The block is then unchanged.

        Warns
        -----
        FixedInputWarning
            If some inputs cannot vary.
        """
        margin = real_number(distance_to_kink, "distance_to_kink", ProblemError)
        if not 0.0 <= margin < np.inf:
            raise ProblemError(
                f"distance_to_kink must be a finite number of at least 0, not {margin}"
            )
        norm = linear_norm(norm)
        measured = output_norm_of(output_norm)
        base: Any = None
        if isinstance(network, Network):
            net = in_units(network, place.get("scaling"))
        else:
            base = built_block(network, ReluNetworkBlockData, inputs, place)
            self._rely_on_block(base)
            net = base.network
        need_two_slopes(net, "UpperLipschitzBlock")
        vertices = measured.vertices(net.output_dim)
        measured.check(net.output_dim)
        if vertices is None or len(vertices) > ONE_BY_ONE:
            raise NormError(
                f"the dual ball of {measured.name} over {net.output_dim} outputs has more than "
                f"{ONE_BY_ONE} vertices, and each takes a pass.  Remedy: another norm"
            )
        self.network = net
        if base is None:
            region = attach_inputs(self, inputs, place, net.input_shape)
        else:
            region = base.region
            refer(self, "inputs", region.variables, region.labels)
        box, counted = self._box(net, region, radius, wrt)
        known = preactivation_bounds(net, Box(box.least, box.most))
        add_layers(self, len(net.hidden))
        certain = []
        for i, layer in enumerate(net.hidden):
            box, found = through_units(self.layer[i], layer, box, known.phases[i], margin)
            certain.append(found)
        self._record.one_sided.append(OneSided(add_value(self, 0.0), -1, 0.0, strict=True))
        declared(self, "chain", pyo.Block, range(len(vertices)))
        tops = [
            self._backward(self.chain[k], net, vertex, certain, norm, counted)
            for k, vertex in enumerate(vertices)
        ]
        self.value.setub(max(tops))

    def _box(
        self, network: Network, region: Region, radius: Any, wrt: Any
    ) -> tuple[Span, BoolArray]:
        """Return the box with bounds for every position, and the inputs included in the norm."""
        centre, labels, (lower, upper) = region.variables, region.labels, region.box
        d = len(centre)
        need_finite(centre, lower, upper)
        _, given = in_order(radius, "radius", labels)
        if len(given) not in (1, d):
            raise ProblemError(f"{len(given)} radii for {d} inputs")
        _, radii = variables_of(self, "radius", given, "radius")
        sizes = box_of(radii)
        if (sizes.lower < 0).any():
            raise ProblemError(f"radius={radius!r} may be negative.  Remedy: bounds >= 0")
        self._rely_on_bounds(radii)
        each = len(given) > 1
        moving = sizes.upper > 0 if each else None
        counted = directions_of(self, network, region, wrt, moving)
        declared(self, "radius", pyo.Expression, labels)
        wide = counted | each
        for j, key in enumerate(labels):
            self.radius[key] = radii[j % len(radii)] if wide[j] else 0.0
        eye = sp.eye_array(d)
        places = np.arange(d) % len(radii)
        share = sp.csr_array((wide.astype(float), (np.arange(d), places)), shape=(d, len(radii)))
        reach = share @ sizes.upper
        span = Span(
            Forms.of([*centre, *radii]).map(sp.block_array([[eye, -share], [eye, share]])),
            np.nextafter(lower - reach, -np.inf),
            np.nextafter(upper + reach, np.inf),
        )
        return span, counted

    def _backward(
        self,
        block: Any,
        network: Network,
        vertex: FloatArray,
        certain: list[np.ndarray],
        input_norm: InputNorm,
        counted: BoolArray,
    ) -> float:
        """Add the bound of one functional's gradient, and return its largest possible value."""
        add_layers(block, len(certain))
        now = Span.numbers(np.asarray(vertex, dtype=np.float64))
        for i in reversed(range(len(certain))):
            now = now.map(network.layers[i + 1].weight.T)
            now = through_slopes(block.layer[i], network.hidden[i], now, certain[i], self.layer[i])
        first = sp.csr_array(network.layers[0].weight.T)[np.flatnonzero(counted)]
        signs = output_norm_of("l1").vertices(first.shape[0])
        if input_norm == "linf" and signs is not None and len(signs) <= ONE_BY_ONE:
            # All signed sums of entries, so that all entries share the units' slopes.
            return self._keep_above(block, now.map(signs @ first))
        entries = now.map(first)
        if input_norm == "l1":
            return self._keep_above(block, entries)
        n = first.shape[0]
        reach = np.maximum(np.maximum(-entries.least, entries.most), 0.0)
        size = add_variables(block, "size", list(range(n)), np.zeros(n), reach)
        above_sizes(block, "size", size, entries)
        Rows(block, "norm", [0]).at_least(0, [1.0, *[-1.0] * n], [self.value, *size], 0.0)
        return float(reach.sum()) * (1.0 + EXACT_TOLERANCE)

    def _keep_above(self, block: Any, forms: Span) -> float:
        """Add rows ``value >= |t|`` for all t in the intervals, and return the largest ``|t|``."""
        above_sizes(block, "norm", [self.value] * forms.least.size, forms)
        return float(np.maximum(-forms.least, forms.most).max(initial=0.0)) * (
            1.0 + EXACT_TOLERANCE
        )
