r"""Directional derivatives, propagated forwards (tangent form), as a Pyomo block.

For a direction v, with D_i the slopes that the switches select,

    u_1 = W_1 v,   u_{i+1} = W_{i+1} (D_i u_i),   derivative = u_{L+1}.

The pass is linear in v: maximising a derivative over a unit ball of directions gives a norm of
the gradient without binaries for the signs of its entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lipyomo.blocks.assemble import Rows, add_sizes, add_variables
from lipyomo.blocks.base import FormulationBlockData, formulation_block
from lipyomo.blocks.derivative import ChainLimits, add_chain, derivative_rung, network_of
from lipyomo.blocks.inputs import variables_of
from lipyomo.blocks.ranges import box_of
from lipyomo.blocks.stand_ins import refer
from lipyomo.bounds import tangent_bounds
from lipyomo.errors import NormError, ProblemError
from lipyomo.norms import InputNorm
from lipyomo.solvers.rows import Affine

TangentBlock: Any = None  # declared by the decorator below


@formulation_block("TangentBlock")
class TangentBlockData(FormulationBlockData):
    """The derivative of all outputs in one direction.

    After `build_formulation` the block holds ``direction[j]``, ``derivative[k]`` and, in
    ``layer[i]``, what arrives at the units (``arriving``) and what passes them (``switched``).

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

    _KEPT = ("direction", "derivative")

    def build_formulation(
        self,
        network_block: Any,
        direction: Any = None,
        norm: InputNorm = "linf",
        limits: ChainLimits | None = None,
    ) -> None:
        """Write the constraints.

        Parameters
        ----------
        network_block : ReluNetworkBlock
            Built already.
        direction : Var or sequence of d variables, optional
            The direction; left out, one is made that runs over the unit ball of `norm`.
        norm : {'linf', 'l1'}, optional
            The unit ball of a direction that is made here.
        limits : ChainLimits, optional
            Bounds along the pass.

        Raises
        ------
        ProblemError, NormError, BoundsMissing
            If the network block is not built, the norm is not linear, or the given direction has
            no bounds.
        """
        network = network_of(network_block)
        known = network_block.layer_bounds
        if norm not in ("linf", "l1"):
            raise NormError(
                f"directions in the unit ball of {norm!r} are not linear.  Remedy: linf or l1, or "
                "give the direction"
            )
        if limits is not None:
            if not isinstance(limits, ChainLimits):
                raise ProblemError(f"limits={limits!r} are no ChainLimits")
            limits.check(network.hidden, network.output_dim)
        self._rely_on_block(network_block)
        scale = 1.0
        if direction is None:
            v = self._add_ball(network.input_dim, norm)
        else:
            _, v = variables_of(self, "direction", direction, "direction", network.input_dim)
            refer(self, "direction", v)
            box = box_of(v)
            self._rely_on_bounds(v)
            scale = float(np.maximum(np.abs(box.lower), np.abs(box.upper)).max(initial=0.0))
            norm = "linf"
        if limits is None:
            rung = derivative_rung(known.rung)
            limits = ChainLimits.of(tangent_bounds(network, None, known, norm, rung))
            limits = limits.scaled(scale)
        add_chain(self, "derivative", network_block, Affine.of(v), limits, backwards=False)

    def _add_ball(self, d: int, norm: InputNorm) -> list[Any]:
        """Declare ``direction`` in the unit ball."""
        keys = range(d)
        v = add_variables(self, "direction", keys, np.full(d, -1.0), np.full(d, 1.0))
        if norm == "l1":
            size = add_sizes(self, "size", keys, v, np.ones(d))
            Rows(self, "unit_ball", [0]).at_most(0, [1.0] * d, size, 1.0)
        return v
