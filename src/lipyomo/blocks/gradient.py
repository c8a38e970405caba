r"""The gradient of a network, propagated backwards (adjoint form), as a Pyomo block.

For a functional y on the outputs, with D_i the slopes that the switches select,

    t_L = W_{L+1}^T y,   t_{i-1} = W_i^T (D_i t_i),   gradient = t_0.     (LipMIP, eq. 13)

The block uses the switches of a `ReluNetworkBlock`, so that value and gradient are consistent.

For a smooth network D_i is the diagonal of ``sigma'(z)``.  There is one variable for each t and
each ``s_i = D_i t_i``, in addition to those of the network's values.  The rows of t are affine,
those of s have three variables each, so that the model's Jacobian stays sparse.  In the reduced
space, the gradient is one expression in the inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt
import pyomo.environ as pyo
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray, Matrix
from lipyomo.base.errors import BoundsMissing, ProblemError
from lipyomo.blocks import derivative
from lipyomo.blocks.assemble import (
    add_equalities,
    add_layers,
    add_variables,
    component_of,
    declared,
)
from lipyomo.blocks.base import FormulationBlockData, formulation_block
from lipyomo.blocks.curves import activations_of, need_no_kink, slope_of
from lipyomo.blocks.forward import NetworkOptions, NetworkSource, Ranges
from lipyomo.blocks.inputs import variables_of
from lipyomo.blocks.labels import Labels, joined_keys, refer
from lipyomo.blocks.passes import add_chain
from lipyomo.blocks.smooth import SmoothNetworkBlockData
from lipyomo.networks.network import Network
from lipyomo.problems.directions import parse_directions
from lipyomo.relaxations.linear.balls import InputBoxes
from lipyomo.relaxations.linear.derivative import ChainLimits, adjoint_limits
from lipyomo.relaxations.linear.layers import parts_of
from lipyomo.relaxations.linear.relax import Switches
from lipyomo.solvers.rows import Forms
from lipyomo.solvers.variables import box_of, combination


class NoGradient(ProblemError, AttributeError):
    """The attribute `gradient` was read from a block of the whole Jacobian."""


@formulation_block(NetworkOptions)
class GradientBlockData(FormulationBlockData):
    """The gradient of ``y . f`` with respect to the inputs, or the whole Jacobian.

    After `build_formulation` with a functional the block has ``gradient[j]`` and, in ``layer[i]``,
    the derivatives that arrive at the units (``arriving``) and their products with the switches
    (``switched``).  ``gradient[j]`` has the keys of the network block's ``inputs``.  For the whole
    Jacobian it has ``row[k]``, one such block per output.  For one output or all,
    ``jacobian[k, j]`` are the entries, with the keys of ``outputs`` and ``inputs``;
    ``jacobian[k, j].lb`` and ``.ub`` are their bounds.  For a functional of numbers or variables
    there is only ``gradient[j]``.

    Notes
    -----
    At a kink of the network the solver may choose the gradient of either side, or, if several units
    are at their kinks, a pattern without a linear region.  An interior point of a solution's
    region, if there is one, is found by `lipyomo.primal.regions.interior_point` for one network,
    and by `lipyomo.primal.regions.joint_interior_point` for several in one model.

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

    _RESULT = "gradient"
    gradient: Any
    jacobian: Any
    row: Any
    layer: Any
    net: Any

    def build_formulation(
        self,
        network: NetworkSource,
        inputs: Any = None,
        *,
        functional: Any = None,
        limits: ChainLimits | None = None,
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
        functional : key of an output, sequence of m numbers, or m variables, optional
            An output, a fixed functional, or variables of the model.  By default the only output,
            or the whole Jacobian if there are several.
        limits : ChainLimits, optional
            Bounds of the backward pass, for networks of two-slope units and one functional; then a
            variable functional needs no bounds.
        directions : array_like, shape (d, k), optional
            T: ``gradient[j]`` is the derivative in the direction of its column j.
        **options
            `domain`, `input_bounds`, `bounds`, `scaling`, `formulation`; these and `inputs` must
            not be given with a built block, which has its own.

        Raises
        ------
        ProblemError
            If the network block is not built, or the functional does not fit.
        BoundsMissing
            If a variable functional has no bounds, and no limits are given.
        """
        base = derivative.network_block_of(self, network, inputs, options, smooth=True)
        net, labels = base.network, base.labels
        m = net.output_dim
        smooth = isinstance(base, SmoothNetworkBlockData)
        every = functional is None and m > 1
        if limits is not None and (smooth or every):
            raise ProblemError("limits belong to one functional of a network of two-slope units")
        if every:
            self._build_rows(base, directions)
            return
        T = parse_directions(net.input_dim, directions)
        along = net if T is None else net.with_directions(T)
        row = labels[1].keys[0] if functional is None else functional
        fixed, place = derivative.functional_of(row, labels[1])
        ends = labels[0] if T is None else Labels.of(None, along.input_shape)
        start: Any = fixed
        points: Any = fixed
        if fixed is None:
            _, start = variables_of(self, "functional", functional, "functional", m, labels[1])
        if fixed is None and limits is None:
            self._rely_on_bounds(start)
            try:
                box = box_of(start, finite=not smooth)
            except BoundsMissing as error:
                raise BoundsMissing(f"the functional has no bounds: {error}") from None
            points = InputBoxes(box.lower[None], box.upper[None])
        if smooth:
            add_smooth_chain(self, base, start, along, ends)
        else:
            forms = Forms.of(start) if fixed is None else Forms.numbers(fixed)
            limits = adjoint_limits(along, base.layer_bounds, points) if limits is None else limits
            add_chain(self, "gradient", base, forms, limits, True, along, ends)
        if place is not None:
            self._refer_to({labels[1].keys[place]: self})

    def _build_rows(self, network_block: Any, directions: Any) -> None:
        """Build one gradient block per output."""
        outputs = network_block.labels[1]
        declared(self, "row", component_of(GradientBlockData), outputs)
        for key in outputs:
            way = {"network": network_block, "directions": directions}
            self._own(self.row[key], functional=key, **way)
        self._refer_to({key: self.row[key] for key in outputs})

    def _refer_to(self, rows: dict[Any, Any]) -> None:
        """Declare ``jacobian[k, j]``, which refers to the gradients of the given outputs."""
        entries = {
            joined_keys(k, j): variable
            for k, row in rows.items()
            for j, variable in row.gradient.items()
        }
        refer(self, "jacobian", list(entries.values()), list(entries))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name == "gradient" and self.component("row") is not None:
                raise NoGradient(
                    f"block '{self.name}' holds a whole Jacobian, and no gradient of one output.  "
                    f"Remedy: {self.name}.jacobian[k, j], or functional=k when it is built"
                )
            return super().__getattr__(name)


@dataclass(frozen=True)
class SlopesOfUnits:
    """The slopes of a layer's units.

    Attributes
    ----------
    curved : dict
        Expressions of the slopes of smooth units.
    least, most : ndarray, shape (n,)
        Ranges of the slopes, which are one number for linear units.
    """

    curved: dict[int, Any]
    least: FloatArray
    most: FloatArray


def slopes_in(part: Any, base: Any, i: int) -> SlopesOfUnits:
    """Declare ``part.slope[k]``, the slopes of the smooth units of hidden layer i.

    Raises
    ------
    ProblemError
        If a unit's slope has no expression.
    """
    layer, (low, high) = base.network.hidden[i], base.ranges(i)
    kinds = activations_of(layer)
    found = declared(part, "slope", pyo.Expression, sorted(kinds)) if kinds else {}
    for k in sorted(kinds):
        z = base.layer[i].preactivation[k]
        found[k] = slope_of(kinds[k], z, (float(low[k]), float(high[k])))
    slopes = np.where(low >= 0, layer.right, layer.left)
    least, most = slopes.copy(), slopes.copy()
    for curve in layer.curves:
        units = curve.units
        least[units], most[units] = curve.activation.slope_range(low[units], high[units])
    return SlopesOfUnits(dict(found.items()), least, most)


def add_smooth_chain(
    block: Any, base: Any, functional: Any, along: Network, labels: Labels
) -> None:
    """Declare ``block.gradient``, the gradient of a functional of a smooth network.

    Parameters
    ----------
    block : BlockData
    base : SmoothNetworkBlock
    functional : ndarray or list of VarData, length m
    along : Network
        The network as a function of the coefficients of the directions.
    labels : Labels
        Keys of the gradient.

    Raises
    ------
    ProblemError
        If a unit's slope has no expression.
    """
    _check_slopes(base)
    hidden = base.network.hidden
    add_layers(block, len(hidden))
    slopes = [slopes_in(block.layer[i], base, i) for i in range(len(hidden))]
    if base.reduced_space:
        _add_expressions(block, slopes, functional, along, labels)
        return
    if isinstance(functional, np.ndarray):
        forms, ends = Forms.numbers(functional), (functional, functional)
    else:
        forms, box = Forms.of(functional), box_of(functional, finite=False)
        ends = box.lower, box.upper
    weights = [layer.dense_weight.T for layer in along.layers]
    maps = [parts_of(layer).split.transposed for layer in along.layers]
    for i in reversed(range(len(hidden))):
        forms, ends = forms.map(weights[i + 1]), maps[i + 1].range(*ends)
        forms, ends = _passed(block.layer[i], slopes[i], forms, ends)
    forms, ends = forms.map(weights[0]), maps[0].range(*ends)
    gradient = add_variables(block, "gradient", labels, *ends)
    add_equalities(block, "gradient_affine", labels, gradient, forms)


def _check_slopes(base: Any) -> None:
    """Raise `ProblemError` if a block has segments or units with kinks in their bounds."""
    if base.segments is not None:
        raise ProblemError(
            f"'{base.name}' relaxes its curves by segments, which have no derivative.  "
            "Remedy: leave segments= out, for solvers of nonlinear programs"
        )
    for i, layer in enumerate(base.network.hidden):
        why = "has no derivative there.  Remedy: narrower bounds of the inputs"
        need_no_kink(layer, base.ranges(i), i, why)


def _passed(
    block: Any, slopes: SlopesOfUnits, arriving: Forms, ends: Ranges
) -> tuple[Forms, Ranges]:
    """Return the derivatives multiplied by one layer's slopes, with rows for smooth units."""
    keys = list(slopes.curved)
    moving = [k for k in keys if not arriving.is_constant()[k]]
    t = add_variables(block, "arriving", moving, ends[0][moving], ends[1][moving])
    add_equalities(block, "arriving_affine", moving, t, arriving, moving)
    low, high = Switches(slopes.least, slopes.most).range(*ends)
    passed = add_variables(block, "passed", keys, low[keys], high[keys])
    factors: dict[int, Any] = dict(enumerate(arriving.constant.tolist()))
    factors |= dict(zip(moving, t, strict=True))
    if keys:
        rows = pyo.Constraint(keys)
        block.add_component("product", rows)
        for k, out in zip(keys, passed, strict=True):
            rows[k] = out - slopes.curved[k] * factors[k] == 0.0
    # A smooth unit has a variable for the product, a linear one multiplies by a number.
    curved = np.isin(np.arange(slopes.least.size), keys)
    straight = arriving.map(sp.diags_array(np.where(curved, 0.0, slopes.least)))
    return straight.plus(keys, passed), (low, high)


def _add_expressions(
    block: Any, slopes: list[SlopesOfUnits], functional: Any, along: Network, labels: Labels
) -> None:
    """Declare the gradient as an expression in the inputs."""
    weights = [layer.dense_weight.T.tolist() for layer in along.layers]
    now: list[Any] = functional.tolist() if isinstance(functional, np.ndarray) else list(functional)
    for i in reversed(range(len(slopes))):
        known = dict(enumerate(slopes[i].least.tolist())) | slopes[i].curved
        passed = declared(block.layer[i], "passed", pyo.Expression, range(len(known)))
        for k, column in enumerate(weights[i + 1]):
            passed[k] = known[k] * combination(column, now)
        now = list(passed.values())
    gradient = declared(block, "gradient", pyo.Expression, labels)
    for key, column in zip(labels, weights[0], strict=True):
        gradient[key] = combination(column, now)
