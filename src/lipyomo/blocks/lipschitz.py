r"""The Lipschitz constant of a network over a region as a Pyomo block.

``value <= ||J||_{alpha -> beta}`` for the Jacobian J that the switches select; maximising
``value`` gives the local Lipschitz constant.  Two encodings:

- adjoint: y in the dual ball of beta is propagated backwards; the dual norm of the gradient takes
  a binary for each input whose gradient has an open sign (the paper's LipMIP).
- tangent: a direction v with ``|v|_alpha <= 1`` is propagated forwards; the norm of the
  derivative takes a binary for each vertex of the dual ball of beta, none for one functional.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from lipyomo.arguments import one_of
from lipyomo.blocks.assemble import Rows, add_value
from lipyomo.blocks.base import FormulationBlockData, formulation_block
from lipyomo.blocks.derivative import ChainLimits, derivative_rung, network_of
from lipyomo.blocks.dual_ball import DualBallBlock
from lipyomo.blocks.gradient import GradientBlock
from lipyomo.blocks.inputs import InputBounds
from lipyomo.blocks.norm import MARGIN, NormBlock, output_norm_of
from lipyomo.blocks.relu import BoundChoice, ReluNetworkBlock
from lipyomo.blocks.tangent import TangentBlock
from lipyomo.bounds import DerivativeBounds, LayerBounds, adjoint_bounds, tangent_bounds
from lipyomo.domains import Domain
from lipyomo.errors import NormError, ProblemError
from lipyomo.network import FloatArray, Network
from lipyomo.norms import DUAL, InputNorm, OutputNorm

LipschitzBlock: Any = None  # declared by the decorator below

Encoding: TypeAlias = Literal["adjoint", "tangent"]

MANY_VERTICES = 4096
"""Most vertices of a dual ball for which its hull, not its box, bounds the adjoints."""


@formulation_block("LipschitzBlock")
class LipschitzBlockData(FormulationBlockData):
    """A network's local Lipschitz constant, to be maximised.

    After `build_formulation` the block holds ``value``, ``net`` (a `ReluNetworkBlock`, unless one
    was given), ``inputs`` through it, and either ``ball``, ``gradient`` and ``norm`` (adjoint) or
    ``tangent`` and, for vector-valued networks, ``norm`` (tangent).

    Notes
    -----
    ``sense="max"`` is part of the contract: `value` stays at or below the norm, so it means
    something only where it is made large, by the objective or by a constraint from below.
    Minimising it, or bounding it from above, is an error when the model is solved; to keep a
    Lipschitz constant small use `UpperLipschitzBlock`, and a norm at a point a `NormBlock` with
    ``sense="min"``.

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

    _KEPT = ("value", "net")
    _STATE = ("encoding",)
    encoding: Encoding

    def build_formulation(
        self,
        network: Network | Any,
        inputs: Any = None,
        domain: Domain | None = None,
        input_norm: InputNorm = "linf",
        output_norm: str | OutputNorm = "linf",
        formulation: Encoding | Literal["auto"] = "auto",
        bounds: BoundChoice = "ascent",
        limits: ChainLimits | None = None,
        sense: Literal["max"] = "max",
        input_bounds: InputBounds = None,
    ) -> None:
        """Write the constraints.

        Parameters
        ----------
        network : Network or ReluNetworkBlock
            A built block shares its switches.
        inputs, domain, bounds, input_bounds
            As in `ReluNetworkBlock`; an error if a block is given, which has its own.
        input_norm : {'linf', 'l1'}, optional
        output_norm : str or OutputNorm, optional
            Any linear norm.
        formulation : {'auto', 'adjoint', 'tangent'}, optional
        limits : ChainLimits, optional
            Bounds along the derivative pass of the chosen formulation.
        sense : {'max'}, optional
            What `value` may be used for; there is nothing but the maximum.

        Raises
        ------
        NormError
            If a norm is not linear, or `sense` is another.
        ProblemError
            If an argument is none of the above.  The block is then as it was before the call.
        """
        if input_norm not in ("linf", "l1"):
            raise NormError(
                f"the input norm {input_norm!r} is not linear, so a MIP cannot express it.  "
                "Remedy: linf or l1, or method bnb"
            )
        if sense != "max":
            raise NormError(
                f"sense={sense!r}: a LipschitzBlock bounds the norm from below only, "
                "for maximisation.  Remedy: UpperLipschitzBlock to keep it small"
            )
        one_of(formulation, ("auto", "adjoint", "tangent"), "formulation", ProblemError)
        norm = output_norm_of(output_norm)
        shared = not isinstance(network, Network)
        net = network_of(network) if shared else network
        norm.check(net.output_dim)
        if limits is not None and not isinstance(limits, ChainLimits):
            raise ProblemError(f"limits={limits!r} are no ChainLimits")
        own = {"inputs": inputs, "domain": domain, "input_bounds": input_bounds}
        given = [name for name, value in own.items() if value is not None]
        if shared and given:
            raise ProblemError(
                f"{given[0]}= has no meaning with a built block, which has its own inputs.  "
                "Remedy: leave it out, or pass the network"
            )
        base: Any = network
        if not shared:
            if self.component("net") is None:
                self.net = ReluNetworkBlock()
            base = self.net
            base._owned = True
            forward = {"network": network, "bounds": bounds, "values": False, **own}
            base._build(forward, base.is_built)
        self._rely_on_block(base)
        net, known = base.network, base.layer_bounds
        if formulation == "auto":
            formulation = choose_encoding(net, known, input_norm, norm)
        self.encoding = formulation
        if limits is None:
            limits = ChainLimits.of(chain_limits(net, known, input_norm, norm, formulation))
        limits.check(net.hidden, net.input_dim if formulation == "adjoint" else net.output_dim)
        if formulation == "adjoint":
            self._build_adjoint(base, input_norm, norm, limits)
        else:
            self._build_tangent(base, input_norm, norm, limits)
        self._promise(self.value, "max", self.value.ub, strict=True)

    def _again(self, recipe: dict[str, Any]) -> dict[str, Any]:
        # Bounds that were given belong to the domain of that time, and so does the choice of the
        # formulation that others may have built on.
        return {**recipe, "limits": None, "formulation": self.encoding}

    def stale(self) -> str | None:
        """Say what the block relied on and what no longer holds; None if all is well."""
        own = self.component("net")
        return super().stale() or (None if own is None else own.stale())

    def _build_adjoint(
        self, base: Any, input_norm: InputNorm, norm: OutputNorm, limits: ChainLimits
    ) -> None:
        m = base.network.output_dim
        only = sole_functional(norm, m)
        self.gradient = GradientBlock()
        if only is not None:
            self.gradient.build_formulation(base, only, limits)
        else:
            self.ball = DualBallBlock()
            self.ball.build_formulation(m, norm, half=True)
            self.gradient.build_formulation(base, self.ball.functional, limits)
        self.norm = NormBlock()
        self.norm.build_formulation(self.gradient.gradient, DUAL[input_norm], sense="max")
        self._own("gradient", "ball", "norm")
        self._tie_value(self.norm.value)

    def _build_tangent(
        self, base: Any, input_norm: InputNorm, norm: OutputNorm, limits: ChainLimits
    ) -> None:
        m = base.network.output_dim
        only = sole_functional(norm, m)
        self.tangent = TangentBlock()
        self.tangent.build_formulation(base, norm=input_norm, limits=limits)
        if only is None:
            self.norm = NormBlock()
            self.norm.build_formulation(self.tangent.derivative, norm, sense="max", one_sided=True)
            self._own("tangent", "norm")
            self._tie_value(self.norm.value)
            return
        self._own("tangent")
        entries = np.flatnonzero(only)
        coefs = (-only[entries]).tolist()
        outputs = [self.tangent.derivative[k] for k in entries.tolist()]
        ends = np.maximum(only * limits.end_lower, only * limits.end_upper)
        value = add_value(self, 0.0, max(float(ends[entries].sum()) * (1.0 + MARGIN), 0.0))
        Rows(self, "value_below", [0]).at_most(0, [*coefs, 1.0], [*outputs, value], 0.0)

    def _tie_value(self, source: Any) -> None:
        value = add_value(self, 0.0, max(source.ub, 0.0))
        Rows(self, "value_below", [0]).at_most(0, [1.0, -1.0], [value, source], 0.0)

    def _own(self, *names: str) -> None:
        """Mark parts that are rebuilt with this block, and whose promises it makes itself."""
        for name in names:
            part = self.component(name)
            if part is not None:
                part._owned = True


def sole_functional(norm: OutputNorm, m: int) -> FloatArray | None:
    """The functional that decides a norm on m outputs by itself, or None."""
    vertices = norm.vertices(m)
    return vertices[0] if vertices is not None and len(vertices) == 1 else None


def functional_set(norm: OutputNorm, m: int) -> FloatArray | OutputNorm:
    """Where the functional of the adjoint encoding lives: few vertices, or the dual ball."""
    vertices = norm.vertices(m)
    if vertices is None or len(vertices) > MANY_VERTICES:
        return norm
    if norm.kind in ("l1", "linf") or len(vertices) == 1:
        return vertices
    return norm if norm.kind == "cross" else np.asarray(vertices)


def chain_limits(
    network: Network,
    known: LayerBounds,
    input_norm: InputNorm,
    norm: OutputNorm,
    formulation: Encoding,
) -> DerivativeBounds:
    """Derivative bounds for one formulation, on the rung of the pre-activation bounds."""
    rung = derivative_rung(known.rung)
    if formulation == "adjoint":
        return adjoint_bounds(network, None, known, functional_set(norm, network.output_dim), rung)
    return tangent_bounds(network, None, known, input_norm, rung)


def choose_encoding(
    network: Network, known: LayerBounds, input_norm: InputNorm, norm: OutputNorm
) -> Encoding:
    """The formulation that promises the smaller tree.

    The adjoint form pays one binary for each input whose gradient has an open sign (for l1 inputs
    one for each that may hold the largest entry), the tangent form one for each vertex of the
    dual ball.  Their relaxations differ as well: measured with HiGHS, adjoints are quicker while
    those binaries are no more than the undecided units, tangents beyond.
    """
    end = chain_limits(network, known, input_norm, norm, "adjoint")
    if input_norm == "linf":
        paid = int(((end.end_lower < 0) & (end.end_upper > 0)).sum())
    else:
        paid = 2 * network.input_dim
    vertices = norm.vertices(network.output_dim)
    choices = network.output_dim if vertices is None else len(vertices)
    return "adjoint" if paid <= max(known.unstable, choices - 1) else "tangent"
