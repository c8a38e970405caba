"""A network as a grey box: values, Jacobian and Hessian by callbacks, without inner variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from pyomo.contrib.pynumero.interfaces.external_grey_box import ExternalGreyBoxModel

from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import ProblemError
from lipyomo.blocks.base import network_given
from lipyomo.networks.network import Network
from lipyomo.networks.scaling import Scaling, in_units


class NetworkGreyBox(ExternalGreyBoxModel):
    """The external model of a network, for Pyomo's ``ExternalGreyBoxBlock`` and ``cyipopt``.

    Parameters
    ----------
    network : Network or path of an ONNX file
        Of any kind; at a kink its derivatives are one-sided.
    scaling : Scaling, optional
        As for a `ReluNetworkBlock`.
    inputs, outputs : sequence of keys, optional
        Names of inputs and outputs; ``x0``, ``y0`` and so on by default.

    Raises
    ------
    ProblemError
        If it is no network, or the names do not fit.

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> from pyomo.contrib.pynumero.interfaces.external_grey_box import ExternalGreyBoxBlock
    >>> from lipyomo.blocks import NetworkGreyBox
    >>> from lipyomo.networks.activations import activation
    >>> from lipyomo.networks.network import Curve, Layer, Network
    >>> unit = Layer([[2.0]], [0.0], curves=[Curve(activation("tanh"), [0])])
    >>> m = pyo.ConcreteModel()
    >>> m.net = ExternalGreyBoxBlock(external_model=NetworkGreyBox(Network([unit]), inputs=["x"]))
    >>> m.goal = pyo.Objective(expr=m.net.outputs["y0"], sense=pyo.maximize)
    >>> list(m.net.inputs)
    ['x']
    """

    def __init__(
        self,
        network: Any,
        *,
        scaling: Scaling | Any = None,
        inputs: Any = None,
        outputs: Any = None,
    ) -> None:
        found = network_given(network)
        if not isinstance(found, Network):
            raise ProblemError("a grey box is made of a network.  Remedy: block.network")
        self.network = in_units(found, scaling)
        self._names = (
            _names(inputs, self.network.input_dim, "x"),
            _names(outputs, self.network.output_dim, "y"),
        )
        self._x = np.zeros(self.network.input_dim)
        self._weights = np.zeros(self.network.output_dim)

    def input_names(self) -> list[str]:
        """Return the names of the inputs, in order."""
        return self._names[0]

    def output_names(self) -> list[str]:
        """Return the names of the outputs, in order."""
        return self._names[1]

    def set_input_values(self, input_values: npt.ArrayLike) -> None:
        """Set the point of evaluation."""
        self._x = np.array(input_values, dtype=np.float64)

    def set_output_constraint_multipliers(
        self, output_con_multiplier_values: npt.ArrayLike
    ) -> None:
        """Set the functional for the Hessian."""
        self._weights = np.array(output_con_multiplier_values, dtype=np.float64)

    def evaluate_outputs(self) -> FloatArray:
        """Return the values, shape (m,)."""
        return self.network.forward(self._x)

    def evaluate_jacobian_outputs(self) -> sp.coo_matrix:
        """Return the Jacobian, shape (m, d), with all entries stored."""
        m, d = self.network.output_dim, self.network.input_dim
        rows, columns = np.indices((m, d)).reshape(2, -1)
        entries = self.network.jacobian_at(self._x).reshape(-1)
        return sp.coo_matrix((entries, (rows, columns)), shape=(m, d))

    def evaluate_hessian_outputs(self) -> sp.coo_matrix:
        """Return the lower triangle of the functional's Hessian, shape (d, d)."""
        d = self.network.input_dim
        rows, columns = np.tril_indices(d)
        entries = self.hessian_product(np.eye(d))[rows, columns]
        return sp.coo_matrix((entries, (rows, columns)), shape=(d, d))

    def hessian_product(self, directions: npt.ArrayLike) -> FloatArray:
        """Return the functional's Hessian times directions of shape (d,) or (d, k)."""
        return self.network.hessian_product(self._x, self._weights, directions)


def _names(given: Any, count: int, letter: str) -> list[str]:
    """Return distinct names as text, as Pyomo's grey boxes require."""
    if given is None:
        return [f"{letter}{j}" for j in range(count)]
    names = list(map(str, given))
    if len(names) != count or len(set(names)) != count:
        raise ProblemError(f"{len(set(names))} different names for {count} entries of the network")
    return names
