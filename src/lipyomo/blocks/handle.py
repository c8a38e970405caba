"""`add_network`: a network in a model, with its values, derivatives and bounds on them.

It chooses the blocks by the type of the network; derivatives are built at first use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyomo.environ as pyo
from pyomo.core.base.block import declare_custom_block

from lipyomo.base.arguments import instance
from lipyomo.base.errors import ProblemError
from lipyomo.blocks.assemble import all_or_nothing, component_of
from lipyomo.blocks.base import network_given
from lipyomo.blocks.derivative import network_block_kind
from lipyomo.blocks.forward import NetworkSource, need_two_slopes
from lipyomo.blocks.gradient import GradientBlockData
from lipyomo.blocks.labels import unpacked
from lipyomo.blocks.lipschitz import LipschitzBlockData
from lipyomo.blocks.relu import ReluNetworkBlockData
from lipyomo.blocks.upper import UpperLipschitzBlockData
from lipyomo.networks.network import Network
from lipyomo.problems.norms import InputNorm, OutputNorm

if TYPE_CHECKING:
    from lipyomo.blocks.typed import BlockData
else:
    from pyomo.core.base.block import BlockData


@declare_custom_block(name="NetworkBlock")
class NetworkBlockData(BlockData):
    """The result of `add_network`: a network in a model.

    Attributes
    ----------
    net : ReluNetworkBlock or SmoothNetworkBlock
        The block of the network's values.
    x, y : indexed components
        Inputs and outputs of the network, with the keys of the given variables.
    jacobian : Jacobian
        ``jacobian[k, j]``, the derivative of output k in input j; a row is built at first use.
    steepness : Steepness
        The Lipschitz constant at the inputs, which can be maximised or bounded from below.
    """

    net: Any
    row: Any
    steep: Any
    norms: dict[str, Any]

    @property
    def x(self) -> Any:
        """The inputs."""
        return self.net.inputs

    @property
    def y(self) -> Any:
        """The outputs."""
        return self.net.outputs

    @property
    def jacobian(self) -> Jacobian:
        """The derivatives, ``jacobian[k, j]``."""
        return Jacobian(self)

    @property
    def steepness(self) -> Steepness:
        """The Lipschitz constant at the inputs, to be maximised."""
        return Steepness(self)

    def lipschitz_at_most(self, limit: Any, *, radius: Any = 0.0, **options: Any) -> Any:
        """Bound the Lipschitz constant on a box around the inputs from above.

        Parameters
        ----------
        limit : number, Var or expression
            To minimise the constant, a variable that is minimised.
        radius : float, Var, or one of them for each input, optional
            Half the widths of the box.
        **options
            `norm`, `output_norm`, `distance_to_kink`, `wrt`, as for an `UpperLipschitzBlock`.

        Returns
        -------
        UpperLipschitzBlock
            Its ``value`` lies between the constant and the limit.

        Raises
        ------
        ProblemError
            If the network is smooth, or an argument does not fit.
        """
        need_two_slopes(self.net.network, "lipschitz_at_most")
        name = _free_name(self, "limit")
        kind = component_of(UpperLipschitzBlockData)
        block = kind(self.net, radius=radius, **(self.norms | options))
        self.add_component(name, block)
        with all_or_nothing(block):
            block.at_most = pyo.Constraint(expr=block.value <= limit)
        return block

    def _row(self, key: Any) -> Any:
        """Return the gradient block of an output, built at first use."""
        if self.component("row") is None:
            self.add_component("row", component_of(GradientBlockData)(pyo.Any))
        if key not in self.row:
            try:
                self.row[key].build_formulation(self.net, functional=key)
            except BaseException:
                del self.row[key]
                raise
        return self.row[key]

    def _steep(self) -> Any:
        """Return the block whose value is at most the constant, built at first use."""
        if self.component("steep") is None:
            need_two_slopes(self.net.network, "steepness")
            kind = component_of(LipschitzBlockData)
            self.add_component("steep", kind(self.net, **self.norms))
        return self.steep


@dataclass(frozen=True)
class Jacobian:
    """The derivatives of a network, by output and input."""

    block: NetworkBlockData

    def __getitem__(self, key: Any) -> Any:
        """Return the derivative for a joint key of output and input, flattened as in Pyomo."""
        inputs, outputs = self.block.net.labels
        for cut in range(1, len(key) if isinstance(key, tuple) else 0):
            k, j = outputs.place(unpacked(key[:cut])), inputs.place(unpacked(key[cut:]))
            if k is not None and j is not None:
                return self.block._row(outputs.keys[k]).gradient[inputs.keys[j]]
        raise KeyError(
            f"the Jacobian of '{self.block.name}' has no entry {key!r}: outputs are "
            f"{outputs.keys[:5]}, inputs {inputs.keys[:5]}"
        )


@dataclass(frozen=True)
class Steepness:
    """The Lipschitz constant of a network at its inputs, for maximisation only.

    It is not an expression, because its value is only a lower bound of a norm, so that minimising
    it would be meaningless; use `lipschitz_at_most` for that.
    """

    block: NetworkBlockData

    def maximise(self, plus: Any = 0.0) -> Any:
        """Return an objective that maximises the constant plus an expression."""
        return pyo.Objective(expr=self.block._steep().value + plus, sense=pyo.maximize)

    def at_least(self, limit: float) -> Any:
        """Return a constraint that the constant is at least `limit`."""
        return pyo.Constraint(expr=self.block._steep().value >= limit)

    @property
    def value(self) -> Any:
        """The value in a solved model."""
        return pyo.value(self.block._steep().value)


def add_network(
    model: Any,
    network: NetworkSource,
    inputs: Any = None,
    *,
    name: str | None = None,
    norm: InputNorm = "linf",
    output_norm: str | OutputNorm = "linf",
    **options: Any,
) -> NetworkBlockData:
    """Add a network to a model.

    Parameters
    ----------
    model : BlockData
    network : Network, path of an ONNX file, or built block of a network
    inputs : optional
        As for a `ReluNetworkBlock`.
    name : str, optional
        Name of the new block; by default ``net``, or ``net_2`` and so on.
    norm, output_norm : optional
        Norms of `lipschitz_at_most` and `steepness`; ``linf`` by default.
    **options
        `outputs`, `domain`, `input_bounds`, `scaling`, `bounds`, `formulation`, `groups` as for a
        `ReluNetworkBlock`, and for smooth networks `segments` and `reduced_space`.

    Returns
    -------
    NetworkBlock
        With ``y``, ``jacobian[k, j]``, ``lipschitz_at_most(limit, radius=...)``, ``steepness``.

    Raises
    ------
    LipyomoError
        If an argument is invalid; the model is then unchanged.

    Examples
    --------
    >>> import lipyomo
    >>> import pyomo.environ as pyo
    >>> m = pyo.ConcreteModel()
    >>> m.x = pyo.Var(["angle", "vel"], bounds=(-1, 1))
    >>> net = lipyomo.Network.from_arrays([[[1.0, -2.0], [1.0, 1.0]], [[3.0, -1.0]]])
    >>> handle = lipyomo.add_network(m, net, m.x)
    >>> m.falls = pyo.Constraint(expr=handle.jacobian[0, "vel"] <= 0)
    >>> m.best = pyo.Objective(expr=handle.y[0], sense=pyo.maximize)
    >>> _ = pyo.SolverFactory("appsi_highs").solve(m)
    >>> round(pyo.value(m.best), 6)
    9.0
    """
    instance(model, BlockData, "the model", ProblemError, "a Pyomo model or block")
    given = network_given(network)
    found = given if isinstance(given, Network) else getattr(given, "network", None)
    kind = ReluNetworkBlockData if found is None else network_block_kind(found)
    chosen = _free_name(model, "net") if name is None else name
    block: NetworkBlockData = component_of(NetworkBlockData)()
    model.add_component(chosen, block)
    with all_or_nothing(block):
        block.norms = {"norm": norm, "output_norm": output_norm}
        block.net = component_of(kind)()
        block.net.build_formulation(given, inputs, **options)
    return block


def _free_name(block: Any, name: str) -> str:
    """Return a name that is not used in the block yet."""
    count, found = 1, name
    while block.component(found) is not None or hasattr(block, found):
        count += 1
        found = f"{name}_{count}"
    return found
