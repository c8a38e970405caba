r"""The Lipschitz constant of a network over a region as a Pyomo block.

``value <= ||J||_{alpha -> beta}`` for the Jacobian J that the switches select; maximising
``value`` gives the local Lipschitz constant.  Two encodings:

- adjoint: y in the dual ball of beta is propagated backwards; the dual norm of the gradient needs
  a binary for each input whose gradient has an undecided sign (LipMIP).
- tangent: a direction v with ``|v|_alpha <= 1`` is propagated forwards; the norm of the
  derivative needs a binary for each vertex of the dual ball of beta, none for one functional.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, Unpack

import numpy as np
import numpy.typing as npt

from lipyomo.base.arguments import one_of
from lipyomo.base.arrays import BoolArray, Matrix
from lipyomo.base.errors import ProblemError
from lipyomo.blocks import derivative
from lipyomo.blocks.assemble import add_value
from lipyomo.blocks.base import FormulationBlockData, formulation_block
from lipyomo.blocks.forward import NetworkOptions, NetworkSource
from lipyomo.blocks.gradient import GradientBlockData
from lipyomo.blocks.norm import DualBallBlockData, NormBlockData
from lipyomo.blocks.tangent import TangentBlockData
from lipyomo.blocks.use import OneSided
from lipyomo.networks.network import Network
from lipyomo.problems.directions import parse_directions
from lipyomo.problems.norms import DUAL, InputNorm, OutputNorm, output_norm_of
from lipyomo.relaxations.linear import LayerBounds
from lipyomo.relaxations.linear.derivative import (
    ChainLimits,
    adjoint_limits,
    hull_of_functionals,
)
from lipyomo.solvers.rows import Rows

Encoding: TypeAlias = Literal["adjoint", "tangent"]


@formulation_block(NetworkOptions)
class LipschitzBlockData(FormulationBlockData):
    """A network's local Lipschitz constant, to be maximised.

    After `build_formulation` the block has ``value``, ``net`` (a `ReluNetworkBlock` with the
    ``inputs``, unless one was given), ``norm``, and either ``ball`` and ``gradient`` (adjoint) or
    ``tangent``.

    Notes
    -----
    `value` is at most the norm, so it is only meaningful if it is maximised or bounded from below.
    Minimising it, or bounding it from above, is an error when the model is solved.  To bound a
    Lipschitz constant from above use `UpperLipschitzBlock`; for the norm at a point, a `NormBlock`
    with ``sense="min"``.

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> from lipyomo import Box, Network
    >>> from lipyomo.blocks import LipschitzBlock
    >>> m = pyo.ConcreteModel()
    >>> m.steep = LipschitzBlock()
    >>> net = Network.from_arrays([[[1.0], [-1.0]], [[3.0, 1.0]]])
    >>> m.steep.build_formulation(net, domain=Box(-1, 1, 1))
    >>> m.largest = pyo.Objective(expr=m.steep.value, sense=pyo.maximize)
    >>> _ = pyo.SolverFactory("appsi_highs").solve(m)
    >>> round(pyo.value(m.steep.value), 6)
    3.0
    """

    value: Any
    net: Any
    ball: Any
    gradient: Any
    tangent: Any
    norm: Any

    encoding: Encoding
    counted: BoolArray
    """Inputs, or directions, along which the norm is taken."""

    def build_formulation(
        self,
        network: NetworkSource,
        inputs: Any = None,
        *,
        norm: InputNorm = "linf",
        output_norm: str | OutputNorm = "linf",
        encoding: Encoding | Literal["auto"] = "auto",
        limits: ChainLimits | None = None,
        wrt: Iterable[Any] | None = None,
        directions: npt.ArrayLike | Matrix | None = None,
        **options: Unpack[NetworkOptions],
    ) -> None:
        """Build the constraints.

        Parameters
        ----------
        network : Network, path of an ONNX file, or ReluNetworkBlock
            Of a built block, the switches are used.
        inputs
            As in `ReluNetworkBlock`.
        norm : {'linf', 'l1'}, optional
        output_norm : str or OutputNorm, optional
            Any linear norm.
        encoding : {'auto', 'adjoint', 'tangent'}, optional
            Formulation of the Jacobian's norm.
        limits : ChainLimits, optional
            Bounds of the derivative pass of the chosen encoding.
        wrt : iterable of keys of the inputs, optional
            Inputs along which directions are included: by default those that can vary, as in
            `lipyomo.solve` (at a single point all of them).
        directions : array_like, shape (d, k), optional
            T: the norm is that of ``J T``; the input norm applies to coefficients of T's columns.
        **options
            `domain`, `input_bounds`, `bounds`, `scaling`, `formulation`; these and `inputs` must
            not be given with a built block, which has its own.

        Raises
        ------
        NormError
            If a norm is not linear.
        ProblemError
            If an argument is invalid.  The block is then unchanged.

        Warns
        -----
        FixedInputWarning
            If some inputs cannot vary.
        """
        norm = derivative.linear_norm(norm)
        one_of(encoding, ("auto", "adjoint", "tangent"), "encoding", ProblemError)
        measured = output_norm_of(output_norm)
        base = derivative.network_block_of(self, network, inputs, options, values=False)
        net, known = base.network, base.layer_bounds
        measured.check(net.output_dim)
        T = parse_directions(net.input_dim, directions)
        if T is None:
            counted = derivative.directions_of(self, base.network, base.region, wrt)
        elif wrt is not None:
            raise ProblemError("give only one of wrt and directions")
        else:
            net, counted = net.with_directions(T), np.ones(T.shape[1], dtype=bool)
        self.counted = counted
        if encoding == "auto":
            encoding = choose_encoding(net, known, norm, measured, counted)
        self.encoding = encoding
        # For rebuilds: limits depend on the current domain; users may rely on the encoding.
        self._record.recipe.update(limits=None, encoding=encoding)
        if limits is None and encoding == "adjoint":
            limits = adjoint_limits(net, known, hull_of_functionals(measured, net.output_dim))
        way = {"network": base, "limits": limits, "directions": T}
        write = self._adjoint if encoding == "adjoint" else self._tangent
        size = write(way, norm, measured)
        top = self._make_part("norm", NormBlockData, sense="max", **size).value
        value = add_value(self, 0.0, max(top.ub, 0.0))
        Rows(self, "value_below", [0]).at_most(0, [1.0, -1.0], [value, top], 0.0)
        self._record.one_sided.append(OneSided(value, 1, value.ub, strict=True))

    def _adjoint(
        self, way: dict[str, Any], input_norm: InputNorm, norm: OutputNorm
    ) -> dict[str, Any]:
        """Build a gradient whose functional ranges over the output norm's dual ball."""
        m = way["network"].network.output_dim
        vertices = norm.vertices(m)
        functional: Any = None if vertices is None else vertices[0]
        if vertices is None or len(vertices) > 1:
            ball = self._make_part("ball", DualBallBlockData, size=m, norm=norm, half=True)
            functional = ball.functional
        part = self._make_part("gradient", GradientBlockData, functional=functional, **way)
        pairs = zip(part.gradient.values(), self.counted, strict=True)
        return {"inputs": [entry for entry, counts in pairs if counts], "norm": DUAL[input_norm]}

    def _tangent(
        self, way: dict[str, Any], input_norm: InputNorm, norm: OutputNorm
    ) -> dict[str, Any]:
        """Build a derivative whose direction ranges over the input norm's unit ball."""
        wrt = np.flatnonzero(self.counted).tolist() if way["directions"] is None else None
        part = self._make_part("tangent", TangentBlockData, norm=input_norm, wrt=wrt, **way)
        return {"inputs": list(part.derivative.values()), "norm": norm, "one_sided": True}


def choose_encoding(
    network: Network,
    known: LayerBounds,
    input_norm: InputNorm,
    norm: OutputNorm,
    counted: BoolArray | None = None,
) -> Encoding:
    """Choose the encoding with the smaller expected branch-and-bound tree.

    The adjoint form needs one binary for each input whose gradient has an undecided sign (for l1
    inputs, two for each input), the tangent form one for each vertex of the dual ball.  Their
    relaxations differ as well: measured with HiGHS, the adjoint form is faster while those binaries
    are no more than the unstable units, the tangent form beyond.
    """
    counted = np.ones(network.input_dim, dtype=bool) if counted is None else counted
    end = adjoint_limits(network, known, hull_of_functionals(norm, network.output_dim))
    if input_norm == "linf":
        paid = int((counted & (end.end_lower < 0) & (end.end_upper > 0)).sum())
    else:
        paid = 2 * int(counted.sum())
    vertices = norm.vertices(network.output_dim)
    choices = network.output_dim if vertices is None else len(vertices)
    return "adjoint" if paid <= max(known.unstable, choices - 1) else "tangent"
