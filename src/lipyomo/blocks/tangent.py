r"""Directional derivatives, propagated forwards (tangent form), as a Pyomo block.

For a direction v, with D_i the slopes that the switches select,

    u_1 = W_1 v,   u_{i+1} = W_{i+1} (D_i u_i),   derivative = u_{L+1}.

The pass is linear in v: maximising a derivative over a unit ball of directions gives a norm of
the gradient without binaries for the signs of its entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.base.arrays import BoolArray, Matrix
from lipyomo.base.errors import ProblemError
from lipyomo.blocks import derivative
from lipyomo.blocks.assemble import add_sizes, add_variables
from lipyomo.blocks.base import FormulationBlockData, formulation_block
from lipyomo.blocks.forward import NetworkOptions, NetworkSource
from lipyomo.blocks.inputs import variables_of
from lipyomo.blocks.labels import Labels, refer
from lipyomo.blocks.passes import add_chain
from lipyomo.problems.directions import parse_directions
from lipyomo.problems.norms import InputNorm
from lipyomo.relaxations.linear.derivative import ChainLimits, tangent_limits
from lipyomo.solvers.rows import Forms, Rows
from lipyomo.solvers.variables import box_of


@formulation_block(NetworkOptions)
class TangentBlockData(FormulationBlockData):
    """The directional derivative of all outputs.

    After `build_formulation` the block has ``direction[j]``, ``derivative[k]`` and, in
    ``layer[i]``, the derivatives that arrive at the units (``arriving``) and their products with
    the switches (``switched``).

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> from lipyomo import Network
    >>> from lipyomo.blocks import ReluNetworkBlock, TangentBlock
    >>> m = pyo.ConcreteModel()
    >>> m.x = pyo.Var([0, 1], bounds=(-1, 1))
    >>> m.net, m.along = ReluNetworkBlock(), TangentBlock()
    >>> m.net.build_formulation(Network.from_arrays([[[1.0, -2.0]], [[3.0]]]), inputs=m.x)
    >>> m.along.build_formulation(m.net, norm="linf")
    >>> m.steep = pyo.Objective(expr=m.along.derivative[0], sense=pyo.maximize)
    >>> _ = pyo.SolverFactory("appsi_highs").solve(m)
    >>> round(pyo.value(m.along.derivative[0]), 6)
    9.0
    """

    _RESULT = "derivative"
    direction: Any
    derivative: Any
    layer: Any
    net: Any

    def build_formulation(
        self,
        network: NetworkSource,
        inputs: Any = None,
        *,
        direction: Any = None,
        norm: InputNorm = "linf",
        limits: ChainLimits | None = None,
        wrt: Iterable[Any] | None = None,
        directions: npt.ArrayLike | Matrix | None = None,
        **options: Unpack[NetworkOptions],
    ) -> None:
        """Build the constraints.

        Parameters
        ----------
        network : Network, path of an ONNX file, or ReluNetworkBlock
            A built block, whose switches are used; for a network a new block ``net`` is added.
        inputs
            As in `ReluNetworkBlock`.
        direction : Var or sequence of d variables, optional
            The direction; by default new variables, which range over the unit ball of `norm`.
        norm : {'linf', 'l1'}, optional
            Norm of a new direction.
        limits : ChainLimits, optional
            Bounds of the forward pass.
        wrt : iterable of keys of the inputs, optional
            Inputs with nonzero entries of a new direction: by default those that can vary.
        directions : array_like, shape (d, k), optional
            T: ``direction[j]`` are the coefficients of its columns, for a new direction.
        **options
            `domain`, `input_bounds`, `bounds`, `scaling`, `formulation`; these and `inputs` must
            not be given with a built block, which has its own.

        Raises
        ------
        ProblemError, NormError, BoundsMissing
            If the network block is not built, the norm is not linear, or the given direction has
            no bounds.

        Warns
        -----
        FixedInputWarning
            If some inputs cannot vary.
        """
        norm = derivative.linear_norm(norm)
        base = derivative.network_block_of(self, network, inputs, options)
        net, known = base.network, base.layer_bounds
        labels, scale = base.labels[0], 1.0
        T = parse_directions(net.input_dim, directions)
        if T is not None:
            if direction is not None or wrt is not None:
                raise ProblemError("give only one of direction, directions and wrt")
            net = net.with_directions(T)
            columns = Labels.of(None, net.input_shape)
            v = self._add_ball(columns, np.ones(net.input_dim, dtype=bool), norm)
        elif direction is None:
            counted = derivative.directions_of(self, base.network, base.region, wrt)
            v = self._add_ball(labels, counted, norm)
            if not counted.all():
                net = net.with_directions(sp.diags_array(counted.astype(float)))
        elif wrt is not None:
            raise ProblemError("wrt= has no meaning with a direction.  Remedy: leave one out")
        else:
            _, v = variables_of(self, "direction", direction, "direction", len(labels), labels)
            refer(self, "direction", v, labels)
            box = box_of(v)
            self._rely_on_bounds(v)
            scale = float(np.maximum(np.abs(box.lower), np.abs(box.upper)).max(initial=0.0))
            norm = "linf"
        if limits is None:
            limits = tangent_limits(net, known, norm, scale)
        add_chain(self, "derivative", base, Forms.of(v), limits, False, net, base.labels[1])

    def _add_ball(self, keys: Labels, counted: BoolArray, norm: InputNorm) -> list[Any]:
        """Declare ``direction`` in the unit ball, with zeros for excluded inputs."""
        ends = counted.astype(float)
        v = add_variables(self, "direction", keys, -ends, ends)
        if norm == "l1":
            free = np.flatnonzero(counted).tolist()
            size = add_sizes(self, "size", free, [v[j] for j in free], np.ones(len(free)))
            Rows(self, "unit_ball", [0]).at_most(0, [1.0] * len(free), size, 1.0)
        return v
