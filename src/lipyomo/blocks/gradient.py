r"""The gradient of a network, propagated backwards (adjoint form), as a Pyomo block.

For a functional y on the outputs, with D_i the slopes that the switches select,

    t_L = W_{L+1}^T y,   t_{i-1} = W_i^T (D_i t_i),   gradient = t_0.     (LipMIP, eq. 13)

The block uses the switches of a `ReluNetworkBlock`: value and gradient always agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.environ as pyo

from lipyomo.arguments import brief
from lipyomo.blocks.base import FormulationBlockData, formulation_block
from lipyomo.blocks.derivative import (
    ChainLimits,
    add_chain,
    derivative_rung,
    functional_points,
    network_of,
)
from lipyomo.blocks.inputs import variables_of
from lipyomo.blocks.ranges import box_of
from lipyomo.bounds import adjoint_bounds
from lipyomo.errors import BoundsMissing, ProblemError
from lipyomo.network import FloatArray
from lipyomo.norms import OutputNorm
from lipyomo.solvers.rows import Affine

GradientBlock: Any = None  # declared by the decorator below

_MANY = 12
"""Most outputs for which the corners of a box of functionals are listed to bound adjoints."""


@formulation_block("GradientBlock")
class GradientBlockData(FormulationBlockData):
    """The gradient of ``y . f`` in the inputs, or the whole Jacobian.

    After `build_formulation` with a functional the block holds ``gradient[j]`` and, in
    ``layer[i]``, what arrives at the units (``arriving``) and what passes them (``switched``).
    For the whole Jacobian it holds ``row[k]``, one such block an output, and the expression
    ``jacobian[k, j]``.

    Notes
    -----
    At a kink of the network the solver may choose the gradient of either side, or, where several
    units sit at their kinks at once, a combination that belongs to no region.

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> from lipyomo import Network
    >>> from lipyomo.blocks import GradientBlock, ReluNetworkBlock
    >>> m = pyo.ConcreteModel()
    >>> m.x = pyo.Var([0], bounds=(-1, 1))
    >>> m.net, m.slope = ReluNetworkBlock(), GradientBlock()
    >>> net = Network.from_arrays([[[1.0], [-1.0]], [[3.0, 1.0]]])
    >>> m.net.build_formulation(net, inputs=m.x)
    >>> m.slope.build_formulation(m.net)
    >>> m.steep = pyo.Objective(expr=m.slope.gradient[0], sense=pyo.maximize)
    >>> _ = pyo.SolverFactory("appsi_highs").solve(m)
    >>> round(pyo.value(m.slope.gradient[0]), 6)
    3.0
    """

    _KEPT = ("gradient", "row")

    def build_formulation(
        self,
        network_block: Any,
        functional: Any = None,
        limits: ChainLimits | OutputNorm | FloatArray | None = None,
    ) -> None:
        """Write the constraints.

        Parameters
        ----------
        network_block : ReluNetworkBlock
            Built already.
        functional : int, sequence of m numbers, or m variables, optional
            An output, a fixed functional, or one that is itself part of the model.  Left out: the
            only output, or the whole Jacobian if there are several.
        limits : ChainLimits, OutputNorm or ndarray (k, m), optional
            For variable functionals: the dual ball, or the points in whose hull they lie, to
            bound adjoints with.  The default is the box of their bounds.

        Raises
        ------
        ProblemError
            If the network block is not built, or the functional does not fit.
        BoundsMissing
            If a variable functional has no bounds.
        """
        network = network_of(network_block)
        m = network.output_dim
        if limits is not None and not isinstance(limits, ChainLimits | OutputNorm | np.ndarray):
            raise ProblemError(f"limits={brief(limits)} are no ChainLimits, norm or points")
        if functional is None and m > 1:
            if limits is not None:
                raise ProblemError("limits belong to one functional, not to the whole Jacobian")
            self._rely_on_block(network_block)
            self._build_rows(network_block, m)
            return
        fixed = functional_points(0 if functional is None else functional, m)
        if isinstance(limits, ChainLimits):
            limits.check(network.hidden, network.input_dim)
        elif limits is not None and fixed is not None:
            raise ProblemError("a norm or points as limits belong to a functional of variables")
        self._rely_on_block(network_block)
        if fixed is not None:
            forms = Affine.numbers(fixed)
            points: Any = fixed
        else:
            _, variables = variables_of(self, "functional", functional, "functional", m)
            forms = Affine.of(variables)
            points = limits
            if limits is None:
                points = _corners(variables)
                self._rely_on_bounds(variables)
        if not isinstance(limits, ChainLimits):
            known = network_block.layer_bounds
            rung = derivative_rung(known.rung)
            limits = ChainLimits.of(adjoint_bounds(network, None, known, points, rung))
        add_chain(self, "gradient", network_block, forms, limits, backwards=True)

    def _build_rows(self, network_block: Any, m: int) -> None:
        """One gradient block an output."""
        if self.component("row") is None:
            self.row = GradientBlock(range(m))
        for k in range(m):
            row = self.row[k]
            row._owned = True
            row._build({"network_block": network_block, "functional": k}, row.is_built)
        columns = range(network_of(network_block).input_dim)
        self.jacobian = pyo.Expression(range(m), columns)
        for k in range(m):
            for j in columns:
                self.jacobian[k, j] = self.row[k].gradient[j]


def _corners(variables: list[Any]) -> FloatArray | OutputNorm:
    """Points whose hull holds a box of functionals: its corners, or those of a larger diamond."""
    try:
        box = box_of(variables)
    except BoundsMissing as error:
        raise BoundsMissing(f"the functional has no bounds: {error}") from None
    m = len(variables)
    if m <= _MANY:
        grid = np.stack(np.meshgrid(*([[0, 1]] * m), indexing="ij"), axis=-1).reshape(-1, m)
        return np.where(grid, box.upper, box.lower)
    reach = np.maximum(np.abs(box.lower), np.abs(box.upper)).sum()
    if reach <= 0:
        raise ProblemError("the functional is fixed to zero")
    return np.asarray(np.vstack([np.eye(m), -np.eye(m)]) * reach)
