r"""The forward pass of a network of two-slope units as a Pyomo block.

Unit k of a layer has the pre-activation z in [l, u] and the output y = left z for z < 0 and
right z for z >= 0.  With a binary switch a, right > left and delta = right - left:

    y >= right z,    y <= right z - delta l (1 - a),
    y >= left z,     y <= left z + delta u a.

For a concave unit (right < left) the inequalities are reversed.  Both values of a are feasible at
z = 0.  Stable units (l >= 0 or u <= 0) have no switch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np
from pyomo.common.collections import ComponentMap

from lipyomo.base.arguments import one_of, warn_caller
from lipyomo.base.arrays import Pattern
from lipyomo.base.errors import ProblemError
from lipyomo.blocks.base import formulation_block
from lipyomo.blocks.forward import (
    BoundChoice,
    ForwardBlockData,
    NetworkSource,
    need_two_slopes,
)
from lipyomo.blocks.inputs import PlaceOptions
from lipyomo.blocks.local_start import local_start
from lipyomo.blocks.units import WITHOUT_SWITCH, UnitFormulation, switch_of
from lipyomo.networks.network import Network
from lipyomo.networks.phases import OPEN, RIGHT

LARGE = 1e6
"""Size of a pre-activation at which tolerances of solvers for switches, 1e-6 to 1e-5, are units."""

SMALL = 1e-5
"""Size of all pre-activations of a layer at which tolerances of rows, up to 1e-6, are a tenth."""

RELAXATIONS = ("ascent", "linear", "interval", "lp", "auto")


class ToleranceWarning(UserWarning):
    """Pre-activations are so large, or so small, that tolerances of solvers make answers wrong."""


@formulation_block(PlaceOptions)
class ReluNetworkBlockData(ForwardBlockData):
    """A network's values: ``outputs = f(inputs)``.

    After `build_formulation` the block has ``inputs[j]`` (new variables, or expressions that refer
    to the given ones and can be fixed like them) and ``outputs[k]``, with the keys of the given
    variables if these are names, otherwise the indices of the network's tensors
    (``inputs[c, i, j]`` for an image).  In ``layer[i]``, for the i-th hidden layer, it has
    ``preactivation[k]``, ``switch[k]`` (binary; 1 on the right-hand slope), ``output[k]`` (the last
    two for unstable units only) and the expression ``activation[k]`` for every unit.

    Notes
    -----
    Bounds of the inputs on which the constraints rely are stored in the block.  If one becomes
    wider later, or an input is fixed outside of its bounds, a solve raises a `ProblemError`, and
    `rebuild` rebuilds the constraints in place.

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> from lipyomo import Network
    >>> from lipyomo.blocks import ReluNetworkBlock
    >>> m = pyo.ConcreteModel()
    >>> m.x = pyo.Var([0, 1], bounds=(-1, 1))
    >>> m.net = ReluNetworkBlock()
    >>> m.net.build_formulation(Network.from_arrays([[[1.0, -1.0]], [[2.0]]]), inputs=m.x)
    >>> m.best = pyo.Objective(expr=m.net.outputs[0], sense=pyo.maximize)
    >>> _ = pyo.SolverFactory("appsi_highs").solve(m)
    >>> round(pyo.value(m.net.outputs[0]), 6)
    4.0
    """

    NAMES = "ReluNetworkBlock"

    def build_formulation(
        self,
        network: NetworkSource,
        inputs: Any = None,
        *,
        outputs: Any = None,
        bounds: BoundChoice = "ascent",
        values: bool = True,
        formulation: UnitFormulation = "bigm",
        groups: int = 2,
        **place: Unpack[PlaceOptions],
    ) -> None:
        """Build the constraints.

        Parameters
        ----------
        network : Network, path of an ONNX file, or ReluNetworkBlock
            Of a built block, its network (including scaling), at the same inputs unless others are
            given.
        inputs : Var, slice, array, sequence or mapping, optional
            The d inputs in order: variables, expressions, Params or numbers; new variables by
            default.  For each expression or Param a variable with an equality is added.
        outputs : as `inputs`, optional
            What the m outputs are equal to, in order; new variables by default.
        bounds : {'ascent', 'linear', 'interval', 'lp', 'auto'}, LayerBounds or pairs of arrays
            Relaxation for bounds of the pre-activations, or their bounds (lower, upper) by layer.
            By default linear bounds, tightened by dual ascent if that is fast.
        values : bool, optional
            False leaves out the outputs and what only they need, which is sufficient for gradients.
        formulation : {'bigm', 'partition', 'gdp', 'sos1', 'complementarity'}, optional
            Formulation of unstable units; see `lipyomo.blocks.units`.
        groups : int, optional
            Groups of a unit's inputs in the formulation ``partition``; at least 1.
        domain : Domain, optional
            Region of the inputs in addition to their own bounds: a box, an l1 ball or a polytope,
            which become constraints.
        input_bounds : mapping or sequence of pairs, optional
            Additional bounds of the inputs in the model's units, which become constraints: (lower,
            upper) by position or by the index of `inputs`; None stands for no bound.
        scaling : Scaling, optional
            Offsets and factors between the model's units and the network's; OMLT's
            ``OffsetScaling`` and a dict of its arguments are accepted too.

        Warns
        -----
        ToleranceWarning
            If bounds of pre-activations are so large, or those of a layer so small, that solvers
            may answer wrongly.

        Raises
        ------
        BoundsMissing
            If a switch needs a bound that is not available.
        DomainError
            If the domain is no polyhedron, or does not intersect the bounds of the inputs.
        ProblemError
            If an argument is invalid, or numbers of inputs or of bounds do not fit.  The block is
            then unchanged.
        """
        one_of(values, (True, False), "value of values", ProblemError)
        self._check_units(formulation, groups, bounds, RELAXATIONS)
        net, region = self._attach(network, inputs, outputs, place)
        need_two_slopes(net, "ReluNetworkBlock, like each block of derivatives,")
        values = values or formulation != "bigm" or outputs is not None
        self._bound(net, region, bounds)
        self._add_all(net, region.variables, outputs, values)
        strange = self._strange_size(net) if values and formulation not in WITHOUT_SWITCH else ""
        if strange:
            warn_caller(
                f"block '{self.name}': {strange}, so that tolerances of solvers can make their "
                "answers wrong",
                ToleranceWarning,
            )

    def _strange_size(self, network: Network) -> str:
        """Return which pre-activations with switches are too large, or small, for tolerances."""
        known = self.layer_bounds
        sides = zip(network.hidden, known.phases, known.lower, known.upper, strict=True)
        for i, (layer, phases, low, high) in enumerate(sides):
            sizes = np.maximum(-low, high)
            switched = sizes[layer.kinked & (phases == OPEN)].max(initial=0.0)
            if switched >= LARGE:
                return (
                    f"a pre-activation of hidden layer {i} may be {switched:.1e} in size (remedy: "
                    "narrower bounds of the inputs)"
                )
            most = sizes[layer.kinked].max(initial=0.0)
            if switched > 0.0 and most <= SMALL:
                return (
                    f"the pre-activations of hidden layer {i} are at most {most:.1e} in size "
                    "(remedy: multiply its weights and biases, and divide the weights of the next "
                    "layer, by a power of two)"
                )
        return ""

    # -- for derivative blocks ---------------------------------------------------------------------

    def switches(self, i: int) -> dict[int, Any]:
        """Return the switch variables of hidden layer i by unit; unstable units only.

        Raises
        ------
        ProblemError
            If the formulation has none.
        """
        if self.formulation in WITHOUT_SWITCH:
            raise ProblemError(
                f"the formulation {self.formulation} has no switches, and a derivative needs them."
                "  Remedy: bigm, partition or gdp"
            )
        return switch_of(self.layer[i])

    def propose_start(self, model: Any, columns: list[Any]) -> ComponentMap | None:
        """Return a warm start for a model whose only columns are those of networks, or None.

        Solver adapters call it if no start is given, and check that the point is feasible.
        """
        blocks = [
            block
            for block in model.block_data_objects(active=True)
            if isinstance(block, ReluNetworkBlockData) and block.is_built
        ]
        if any(b.formulation != "bigm" or b.component("outputs") is None for b in blocks):
            return None
        return local_start(model, blocks, columns)

    def pattern(self, values: Mapping[Any, float] | None = None) -> Pattern:
        """Return the activation pattern of the variables' values (with rounded switches).

        Parameters
        ----------
        values : ComponentMap, optional
            A solution that was not loaded; missing values are read from the model.
        """
        found = []
        for i, phases in enumerate(self.layer_bounds.phases):
            on = np.asarray(phases == RIGHT)
            for k, a in self.switches(i).items():
                value = a.value if values is None else values.get(a, a.value)
                on[k] = value is not None and value > 0.5
            found.append(on)
        return tuple(found)
