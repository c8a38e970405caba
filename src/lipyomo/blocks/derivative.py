"""What the adjoint and the tangent block share: bounds of what arrives at the switches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyomo.environ as pyo

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.errors import ProblemError
from lipyomo.blocks.assemble import add_equalities, add_variables, declared, keys_of
from lipyomo.blocks.directions import directions_of
from lipyomo.blocks.forward import built_block
from lipyomo.blocks.inputs import InputBounds
from lipyomo.blocks.relu import BoundChoice, ReluNetworkBlock, ReluNetworkBlockData
from lipyomo.blocks.switch import ArrivingBounds, add_switched
from lipyomo.blocks.units import UnitFormulation
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.domains import Domain
from lipyomo.relaxations.linear import DerivativeBounds
from lipyomo.relaxations.linear.derivative import DerivativeRelaxation
from lipyomo.solvers.rows import Forms


@dataclass(frozen=True)
class ChainLimits:
    """Bounds along one derivative pass.

    Attributes
    ----------
    layers : list of ArrivingBounds
        One a hidden layer.
    end_lower, end_upper : ndarray
        Of the gradient (d,) or of the derivative of the outputs (m,).
    """

    layers: list[ArrivingBounds]
    end_lower: FloatArray
    end_upper: FloatArray

    def check(self, layers: Sequence[Layer], end: int) -> None:
        """Raise `ProblemError` unless these are bounds for such layers and such an end."""
        sizes = [arriving.lower.size for arriving in self.layers]
        if sizes != [layer.units for layer in layers] or self.end_lower.size != end:
            raise ProblemError(
                f"limits: they are for layers of {sizes} units and {self.end_lower.size} ends, the "
                f"network has {[layer.units for layer in layers]} and {end}"
            )

    @classmethod
    def of(cls, bounds: DerivativeBounds, factor: float = 1.0) -> ChainLimits:
        """From the relaxation, the same whether a unit is on or off.

        The pass starts from a set that is `factor` (>= 0) times as large as that of `bounds`.
        """
        layers = [
            ArrivingBounds.plain(factor * low, factor * high)
            for low, high in zip(bounds.lower, bounds.upper, strict=True)
        ]
        return cls(layers, factor * bounds.end_lower, factor * bounds.end_upper)


def network_block_of(
    block: Any,
    network: Any,
    inputs: Any,
    domain: Domain | None,
    bounds: BoundChoice,
    scaling: Any,
    formulation: UnitFormulation,
    input_bounds: InputBounds,
    values: bool = True,
) -> Any:
    """The block whose switches a derivative shares: a built one, or ``block.net``, made here.

    Parameters
    ----------
    block : FormulationBlockData
        That is being built.
    network : Network or ReluNetworkBlock
    inputs, domain, bounds, scaling, formulation, input_bounds, values
        As in `ReluNetworkBlock`.

    Raises
    ------
    ProblemError
        If a block is given that is not built, or one together with what belongs to a network.
    """
    own = {"inputs": inputs, "domain": domain, "input_bounds": input_bounds, "scaling": scaling}
    if isinstance(network, Network):
        own |= {"network": network, "bounds": bounds, "formulation": formulation}
        base = block._make_part("net", ReluNetworkBlock, values=values, **own)
    else:
        own["formulation"] = None if formulation == "bigm" else formulation
        base = built_block(network, ReluNetworkBlockData, **own)
    block._rely_on_block(base)
    return base


def along_of(block: Any, network_block: Any, wrt: Any) -> BoolArray:
    """Along which inputs of a network block directions count; that the others stay is relied on."""
    moving = network_block.region.moving
    counted = directions_of(block, network_block.network, moving, wrt)
    block._rely_on_unmoving(network_block.region.sources, counted, wrt)
    return counted


def add_chain(
    block: Any,
    name: str,
    network_block: Any,
    forms: Forms,
    limits: ChainLimits,
    backwards: bool,
    along: Network | None = None,
) -> None:
    """The pass of a derivative through a network, from `forms` to the variables ``block.name``.

    Parameters
    ----------
    block : BlockData
        Gets ``layer[i]``, ``name`` and its rows.
    name : str
    network_block : ReluNetworkBlock
    forms : Forms
        A functional on the outputs, or a direction of the inputs.
    limits : ChainLimits
    backwards : bool
        From outputs to inputs.
    along : Network, optional
        The network as a function of other directions than its inputs.
    """
    network, phases = network_block.network, network_block.layer_bounds.phases
    declared(block, "layer", pyo.Block, range(len(network.hidden)))
    along = network if along is None else along
    order, weights = list(range(len(network.hidden))), [layer.weight for layer in along.layers]
    if backwards:
        order, weights = order[::-1], [weight.T for weight in weights[::-1]]
    forms = forms.map(weights[0])
    for i, weight in zip(order, weights[1:], strict=True):
        layer, switches = network.hidden[i], network_block.switches(i)
        passed = add_switched(block.layer[i], layer, phases[i], switches, forms, limits.layers[i])
        forms = passed.map(weight)
    keys = keys_of(along.input_shape if backwards else network.output_shape)
    ends = add_variables(block, name, keys, limits.end_lower, limits.end_upper)
    add_equalities(block, f"{name}_affine", keys, ends, forms)


def derivative_relaxation(relaxation: str) -> DerivativeRelaxation:
    """The relaxation of derivative bounds that belongs to a relaxation of pre-activation bounds."""
    return "interval" if relaxation == "interval" else "linear"


def functional_points(functional: Any, m: int) -> FloatArray | None:
    """A fixed functional (output index or numbers) as an array (m,); None if it has variables.

    Raises
    ------
    ProblemError
        If the index is out of range, the length is wrong, or a number is not finite.
    """
    if isinstance(functional, bool | np.bool_ | str):
        raise ProblemError(
            f"functional={functional!r} is none.  Remedy: the index of an output, {m} numbers, or "
            f"{m} variables"
        )
    if isinstance(functional, int | np.integer):
        if not 0 <= functional < m:
            raise ProblemError(f"output {functional} is out of range: there are 0 to {m - 1}")
        return np.asarray(np.eye(m)[int(functional)])
    if isinstance(functional, Sequence | np.ndarray) and all(
        isinstance(item, int | float | np.number) and not isinstance(item, bool)
        for item in functional
    ):
        values = np.asarray(functional, dtype=np.float64)
        if values.shape != (m,):
            raise ProblemError(
                f"the functional has {values.size} entries, the network has {m} outputs"
            )
        if not np.isfinite(values).all():
            raise ProblemError(f"functional={functional!r} holds NaN or infinite entries")
        return values
    return None
