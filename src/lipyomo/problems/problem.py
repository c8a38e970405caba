"""`LipschitzProblem`, the input of every method: a network, a domain and a pair of norms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from lipyomo.base.arguments import deprecated, instance, real_numbers, whole_number
from lipyomo.base.arrays import BoolArray, FloatArray, IntArray, Matrix, read_only, sparse_product
from lipyomo.base.errors import ProblemError
from lipyomo.base.numerics.exact import product_is_exact
from lipyomo.base.numerics.rounding import EQUAL, gamma
from lipyomo.networks.naming import by_name, called
from lipyomo.networks.network import Network, check_network
from lipyomo.networks.phases import Phases
from lipyomo.problems.directions import (
    Selection,
    describe_directions,
    free_directions,
    parse_directions,
    selected,
    without_frozen,
)
from lipyomo.problems.domains import Domain
from lipyomo.problems.magnitudes import check_magnitudes, underflow_of
from lipyomo.problems.norms import (
    CrossOutput,
    InputNorm,
    LinfOutput,
    OutputNorm,
    check_input_norm,
    output_norm_of,
    read_functional,
)
from lipyomo.problems.norms import (
    functional as functional_norm,
)
from lipyomo.problems.operator_norm import OperatorNorm, norm_of_sizes, operator_norm
from lipyomo.problems.reductions.direct import product_rounding, separated
from lipyomo.problems.reductions.merge import exactly
from lipyomo.problems.reductions.presolve import thin
from lipyomo.problems.reductions.reduction import Reduction

LOOKS = 16
"""Number of sample points where a few suffice: to estimate norms, to compare an import with its
original, or to find a first witness."""


class _Asked(NamedTuple):
    """The arguments of `LipschitzProblem` about directions, independent of the domain."""

    directions: Matrix | None = None
    wrt: IntArray | None = None
    weights: FloatArray | None = None

    @classmethod
    def of(cls, inputs: int, directions: Any, wrt: Any, weights: Any) -> _Asked:
        """Check and copy the arguments."""
        return cls(
            None if directions is None else parse_directions(inputs, directions, wrt, weights),
            None if wrt is None else selected(wrt, inputs),
            None if weights is None else real_numbers(weights, "the weights", ProblemError),
        )


class ProblemKeywords(TypedDict, total=False):
    """Keywords of `LipschitzProblem` other than its norms."""

    functional: npt.ArrayLike | None
    margin: int | None
    directions: npt.ArrayLike | None
    wrt: Selection | None
    weights: npt.ArrayLike | None


class LipschitzProblem:
    """``L(f, X) = sup |f(x) - f(y)|_beta / |x - y|_alpha`` over x != y in X.

    With directions T it is the supremum of ``||J(x) T||`` over X: all inputs vary in x, and only
    the argument of the Jacobian is restricted (`lipyomo.problems.directions`).

    Parameters
    ----------
    network : Network
        f, with d inputs and m outputs.
    domain : Domain
        X, convex, in R^d.
    norm : {'linf', 'l1', 'l2'}, optional
        alpha, the norm of inputs.
    output_norm : str or OutputNorm, optional
        beta: ``l1``, ``l2``, ``linf``, ``cross``, ``cross(i)`` or an `OutputNorm`.  The default is
        the scalar itself for one output, else linf.
    functional : array_like, shape (m,), optional
        The scalar ``|c . f|`` instead of an output norm.
    margin : int, optional
        Class i: the norm cross(i) instead of an output norm.
    directions : array_like, shape (d, k), optional
        T; the input norm is one on R^k.
    wrt : int, slice, indices, mask or names, optional
        The inputs that directions change; by default all.  Names are those of the network's
        `input_names`, or of an ONNX file's inputs.
        For a smooth network, an input that the domain fixes may be named: then ``J(x) T`` contains
        its partial derivative at the fixed value, such as a normal derivative on a boundary.
    weights : array_like, shape (d,), or float, optional
        The norm of a direction v is ``|v / weights|_alpha``: an input of weight zero does not
        change, and one of infinite weight changes for free, so that the constant is infinite unless
        its partial derivatives vanish.
    input_norm : str, optional
        `norm` by its name of version 0.3; deprecated.

    Attributes
    ----------
    network : Network
        f on X.  Units with slopes that are bounded on bounded ranges only, such as squares, are
        confined to the ranges of their arguments on X (`lipyomo.problems.reductions.confine`).
    directions : Matrix, shape (d, k), or None
        T, read-only, without directions that change an input which the domain fixes; None for all.
    at_fixed : ndarray of bool, shape (d,)
        Inputs that the domain fixes and `wrt` names, for smooth networks: derivatives with respect
        to them count, at their fixed values.
    functional : ndarray, shape (m,), or None
        c, read-only.
    notes : tuple of str
        Remarks for results: about a default norm, or inputs that the domain fixes.
    free : LipschitzProblem or None
        The problem of the inputs of infinite weight: the constant is infinite unless the constant
        of this problem is zero.

    Raises
    ------
    ProblemError, NormError
        If the parts do not fit together.
    """

    def __init__(
        self,
        network: Network,
        domain: Domain,
        norm: str = "linf",
        output_norm: str | OutputNorm | None = None,
        functional: npt.ArrayLike | None = None,
        margin: int | None = None,
        *,
        directions: npt.ArrayLike | None = None,
        wrt: Selection | None = None,
        weights: npt.ArrayLike | None = None,
        input_norm: str | None = None,
    ) -> None:
        check_network(network, ProblemError)
        remedy = "give a Box, a ball, a Polytope or AllSpace"
        instance(domain, Domain, "the domain", ProblemError, remedy)
        if domain.dimension != network.input_dim:
            raise ProblemError(
                f"the domain has {domain.dimension} inputs, the network takes {network.input_dim}"
            )
        if network.needs_ranges:
            from lipyomo.problems.reductions.confine import confined

            network = confined(network, domain)
        self.network, self.domain = network, domain
        if input_norm is not None:
            deprecated("input_norm=", "norm=")
            norm = input_norm
        self.norm: InputNorm = check_input_norm(norm)
        m, d = network.output_dim, network.input_dim
        self.functional, self.output_norm = _chosen_output(m, output_norm, functional, margin)
        named = wrt
        if wrt is not None:
            named = by_name(wrt, network.input_names, network.input_parts, "wrt", ProblemError)
        self._asked = asked = _Asked.of(d, directions, named, weights)
        self.directions: Matrix | None = None
        if any(one is not None for one in asked):
            self.directions = parse_directions(d, *asked)
        check_magnitudes(network, domain, self._given_vertices, self.directions)
        if domain.frozen.all():
            raise ProblemError(
                "the domain is a single point, where a Lipschitz constant has no meaning.  "
                "Remedy: let at least one input move"
            )
        self.at_fixed = self._named_though_fixed(asked.wrt)
        if self.at_fixed.any() and self.directions is None:
            self.directions = np.eye(d)
        self.free: LipschitzProblem | None = self._free_of_cost()
        out = domain.frozen & ~self.at_fixed
        if (
            out.any()
            and self.directions is not None
            and (self.free is None or self.directions.any())
        ):
            self.directions = without_frozen(self.directions, out)
        by_default = output_norm is None and functional is None and margin is None
        self.notes = self._remarks(by_default, int(out.sum()))

    @property
    def input_norm(self) -> InputNorm:
        """`norm` by its name of version 0.3; deprecated."""
        deprecated("LipschitzProblem.input_norm", "norm")
        return self.norm

    def _named_though_fixed(self, wrt: IntArray | None) -> BoolArray:
        """See `at_fixed`."""
        found = np.zeros(self.network.input_dim, dtype=bool)
        if wrt is not None and self.network.smooth:
            found[wrt] = True
            found &= self.domain.frozen
            if self.directions is not None:
                found &= np.asarray(abs(self.directions).sum(axis=1)).reshape(-1) > 0
        return read_only(found)

    def _free_of_cost(self) -> LipschitzProblem | None:
        """See `free`."""
        if self._asked.weights is None:
            return None
        free = free_directions(self.network.input_dim, self._asked.weights, self._asked.wrt)
        if free is None:
            return None
        moving = free[:, np.flatnonzero(~self.domain.frozen @ free)]
        if not moving.shape[1]:
            return None
        return _Derived(self, self.network, self.domain, directions=moving)

    def _remarks(self, by_default: bool, eliminated: int) -> tuple[str, ...]:
        """Return the remarks for results of the problem.

        Parameters
        ----------
        by_default : bool
            Whether the output norm is the default one.
        eliminated : int
            Number of inputs that were eliminated because the domain fixes them.
        """
        notes = []
        if by_default and self.network.output_dim > 1:
            notes.append(
                f"no output norm given: linf over the {self.network.output_dim} outputs was used"
            )
        if self.at_fixed.any():
            which = np.flatnonzero(self.at_fixed).tolist()
            inputs = ", ".join(called(k, self.network.input_names, "") for k in which)
            notes.append(
                f"wrt names what cannot move in the domain (input {inputs}): derivatives along "
                "that are taken at its value"
            )
        if eliminated:
            notes.append(
                f"{eliminated} of {self.network.input_dim} inputs cannot move in the domain and "
                "were eliminated: the constant is over the other directions"
            )
        return tuple(notes)

    # -- shape -----------------------------------------------------------------------------------

    @property
    def is_scalar(self) -> bool:
        """Whether there is only one functional: the dual ball has one vertex (up to sign)."""
        vertices = self.dual_vertices
        return vertices is not None and len(vertices) == 1

    @cached_property
    def dual_vertices(self) -> FloatArray | None:
        """Vertices of the dual ball (k, m), one of each pair +-y; None if not a small polytope."""
        return self.output_norm.vertices(self.network.output_dim)

    @cached_property
    def underflow(self) -> float:
        """Amount to add to upper bounds because products may underflow; usually zero.

        It includes the `rounding` of directions.
        """
        found = underflow_of(self.network, self._given_vertices, self.directions)
        return self.rounding + (0.0 if found and self.is_constant else found)

    @property
    def rounding(self) -> float:
        """Error bound of norms of `reduced`; zero except for some directions.

        Their product with the first layer's weight may round.  If that is not negligible, `reduced`
        has an additional layer, and the product is exact.
        """
        return self._reduced[1]

    @cached_property
    def is_constant(self) -> bool:
        """Whether no input influences an output that counts, so the constant is exactly zero."""
        linked, vertices = self.reduced.problem.tangent_network.linked, self.dual_vertices
        return not (linked if vertices is None else vertices[:, linked]).any()

    @property
    def _given_vertices(self) -> FloatArray | None:
        """Vertices of a dual ball given by the user, such as a functional; else None."""
        return self.dual_vertices if self.output_norm.kind == "linear" else None

    def describe_norms(self) -> str:
        """Describe the norms, as ``linf -> cross(3)`` or ``l2 -> |.|, wrt 0, 3``."""
        names = self.network.input_names
        scalar = self.network.output_dim == 1 and self.output_norm.kind in ("l2", "linf")
        along = (
            "" if self.directions is None else f", {describe_directions(self.directions, names)}"
        )
        if self.free is not None and self.free.directions is not None:
            along += f", free of cost: {describe_directions(self.free.directions, names)}"
        return f"{self.norm} -> {'|.|' if scalar else self.output_norm.name}{along}"

    @cached_property
    def tangent_network(self) -> Network:
        """The network ``v -> f(T v)`` of directions v, whose gradients are bounded.

        Without directions it is the network itself.  Its phases are those of `network`.
        """
        if self.directions is None:
            return self.network
        return self.network.with_directions(self.directions)

    # -- values at points -------------------------------------------------------------------------

    def norm_of(self, jacobian: FloatArray) -> OperatorNorm:
        """Return the operator norm of a Jacobian (m, d) in the problem's norms and directions.

        Frozen columns are ignored.
        """
        if self.directions is not None:
            return self._along(jacobian, self.directions)
        move = ~self.domain.frozen
        if move.all():
            return operator_norm(jacobian, self.norm, self.output_norm)
        found = operator_norm(jacobian[:, move], self.norm, self.output_norm)
        direction = np.zeros(jacobian.shape[1])
        direction[move] = found.direction
        return OperatorNorm(found.value, found.upper, direction, found.functional)

    def _along(self, jacobian: FloatArray, directions: Matrix) -> OperatorNorm:
        """Compute `norm_of` with directions; `upper` includes the rounding of the product."""
        along = np.asarray(sparse_product(jacobian, directions))
        found = operator_norm(along, self.norm, self.output_norm)
        upper = found.upper
        if not product_is_exact(jacobian, directions):
            error = gamma(jacobian.shape[1]) * (np.abs(jacobian) @ abs(directions))
            lost = norm_of_sizes(np.asarray(error), self.norm, self.output_norm)
            upper = (upper + lost) * (1.0 + gamma(2))
        direction = np.asarray(directions @ found.direction)
        return OperatorNorm(found.value, upper, direction, found.functional)

    def value_at(self, x: FloatArray) -> OperatorNorm:
        """Return the operator norm of the Jacobian at the point `x`, shape (d,)."""
        return self.norm_of(self.network.jacobian_at(x))

    # -- reductions -------------------------------------------------------------------------------

    @cached_property
    def reduced(self) -> ReducedProblem:
        """The reduced problem for algorithms: without frozen inputs, layers fused, units merged."""
        return self._reduced[0]

    @cached_property
    def _reduced(self) -> tuple[ReducedProblem, float]:
        """The reduced problem, and the error bound of norms by rounding of its directions."""
        found, lost = exactly(self.network, self.domain, self.at_fixed), 0.0
        problem = self.of_moving(found.network, found.moving)
        if problem.directions is not None:
            lost = product_rounding(found.network, problem.directions, self.output_norm)
            points = [self.domain.center, *self.domain.sample(np.random.default_rng(0), LOOKS)]
            if all(lost > EQUAL * self.value_at(x).value for x in points):
                found, lost = found.then(separated(found.network)), 0.0
                problem = problem.with_network(found.network)
        return ReducedProblem(**vars(found), problem=problem), lost

    def of_moving(self, network: Network, moving: BoolArray) -> LipschitzProblem:
        """Return the problem of a network whose inputs are the `moving` ones (d,) of this one."""
        directions = self.directions
        if directions is not None:
            directions = directions[np.flatnonzero(moving)]
        domain = self.domain if moving.all() else self.domain.restrict(moving)
        return _Derived(self, network, domain, directions=directions)

    def thinned(self, phases: Phases) -> LipschitzProblem:
        """Return the problem for primal heuristics, without units that the domain decides.

        It is the same function up to rounding.

        Parameters
        ----------
        phases : Phases
            Phases that follow from the domain, which must not fix any input.
        """
        found = thin(self.network, self.functional, phases)
        if found.network is self.network:
            return self
        return _Derived(self, found.network, self.domain, found.functional, self.directions)

    def with_network(self, network: Network) -> LipschitzProblem:
        """Return the problem of another network with the same inputs and outputs, unchecked."""
        return _Derived(self, network, self.domain, directions=self.directions)

    def over(self, domain: Domain) -> LipschitzProblem:
        """Return the problem of the same network, norms and directions over another domain.

        Raises
        ------
        ProblemError
            If the domain does not fit, or a weight is infinite.
        """
        if self.free is not None:
            raise ProblemError("infinite weights go with one domain.  Remedy: leave them out")
        return LipschitzProblem(
            self.network,
            domain,
            self.norm,
            self.output_norm if self.functional is None else None,
            self.functional,
            **self._asked._asdict(),
        )

    def __repr__(self) -> str:
        return f"LipschitzProblem({self.network!r}, {self.domain!r}, {self.describe_norms()})"


def _chosen_output(
    m: int, norm: str | OutputNorm | None, functional: npt.ArrayLike | None, margin: int | None
) -> tuple[FloatArray | None, OutputNorm]:
    """Return the functional, if one is given, and the norm of m outputs."""
    if sum(choice is not None for choice in (norm, functional, margin)) > 1:
        raise ProblemError("give only one of output norm, functional and margin")
    row = None
    found: OutputNorm = LinfOutput() if norm is None else output_norm_of(norm)
    if functional is not None:
        row = read_functional(functional, m)
        found = functional_norm(row)
    elif margin is not None:
        found = CrossOutput(whole_number(margin, "the margin", ProblemError, None))
    found.check(m)
    return row, found


class _Derived(LipschitzProblem):
    """A problem in the norms of another one, without repeated checks."""

    def __init__(
        self,
        origin: LipschitzProblem,
        network: Network,
        domain: Domain,
        functional: FloatArray | None = None,
        directions: Matrix | None = None,
    ) -> None:
        self.network, self.domain, self.notes = network, domain, ()
        # a reduced network keeps fixed inputs only if derivatives are taken with respect to them
        self.at_fixed = origin.at_fixed if domain is origin.domain else domain.frozen
        self.directions, self.free, self._asked = directions, None, _Asked(directions)
        self.norm, self.functional = origin.norm, origin.functional
        self.output_norm = origin.output_norm
        if functional is not None:
            self.functional, self.output_norm = functional, functional_norm(functional)


@dataclass(frozen=True, eq=False)
class ReducedProblem(Reduction):
    """A reduction of a problem's network, with the problem of the reduced network.

    Attributes
    ----------
    problem : LipschitzProblem
        In the same norms, over the inputs that are left.
    """

    problem: LipschitzProblem
