"""Combinations of networks: differences, compositions, parallel networks and loops.

Each function returns a `Network` that equals the combination of its parts in exact arithmetic.
Weights are multiplied only if the product is exact; otherwise both layers are kept, with identity
units between them.  Values of shallower parts, and values that are needed later, are passed through
identity units.

Equal parts cost nothing extra: `LipschitzProblem.reduced` merges units of a layer whose rows are
multiples of each other, layer by layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.base.arguments import instance, real_numbers, whole_number
from lipyomo.base.arrays import Matrix, dense
from lipyomo.base.errors import NetworkError
from lipyomo.base.numerics.exact import lost_in_sum
from lipyomo.networks.layer import Curve, Layer
from lipyomo.networks.naming import common_names
from lipyomo.networks.network import Network, check_network

__all__ = ["affine_after", "compose", "difference", "parallel", "unroll"]

MOST_STEPS = 10_000
"""Limit of `unroll`: about ten seconds of work, and far more than any bound gets through."""


def parallel(*networks: Network, name: str | None = None) -> Network:
    """Return the networks in parallel: ``x -> (f(x), g(x), ...)``, with outputs concatenated.

    Parameters
    ----------
    *networks : Network
        Networks with the same inputs.
    name : str, optional

    Raises
    ------
    NetworkError
        If there is none, or they take different inputs.

    Examples
    --------
    >>> import lipyomo
    >>> f = lipyomo.Network.from_arrays([[[2.0], [-1.0]], [[1.0, 1.0]]])
    >>> parallel(f, f).forward([3.0]).tolist()
    [6.0, 6.0]
    """
    return side_by_side(networks, name).fused()


def side_by_side(networks: Sequence[Network], name: str | None = None) -> Network:
    """Combine as `parallel`, but keep all units: its patterns consist of patterns of the parts.

    Parameters
    ----------
    networks : sequence of Network
        Networks with the same inputs; shallow ones are extended by identity units.
    name : str, optional

    Returns
    -------
    Network
        Outputs of the first network come first.  `Network.with_functional` combines them: rows such
        as ``[1, -1]`` give the difference of two scalar networks.

    Raises
    ------
    NetworkError
        If there is none, or they take different inputs.

    Examples
    --------
    >>> from lipyomo import Network
    >>> from lipyomo.primal.regions import side_by_side
    >>> one = Network.from_arrays([[[1.0]], [[2.0]]])
    >>> two = Network.from_arrays([[[3.0]]])
    >>> side_by_side([one, two]).forward([1.0])
    array([2., 3.])
    """
    instance(networks, Sequence, "what stands for networks", NetworkError, "a sequence of Network")
    _check(networks)
    if not networks:
        raise NetworkError("there are no networks to put side by side.  Remedy: give one or more")
    shape = networks[0].input_shape
    for other in networks[1:]:
        shape = _common(
            shape, other.input_shape, f"the inputs of {networks[0].name} and of {other.name}"
        )
    depth = max(len(network.layers) for network in networks)
    first, *others = zip(*(_carried(n.layers, depth) for n in networks), strict=True)
    # the first layers have the same inputs
    layers = [_side_by_side(first, sp.vstack)]
    layers += [_side_by_side(row, sp.block_diag) for row in others]
    label = name or "+".join(network.name for network in networks)
    names = common_names([(network.name, network.input_names) for network in networks])
    parts = networks[0].input_parts
    return Network(layers, label, shape, input_parts=parts, input_names=names)


def common_inputs(f: Network, g: Network) -> None:
    """Raise `NetworkError` unless two networks take the same inputs."""
    _common(f.input_shape, g.input_shape, f"the inputs of {f.name} and of {g.name}")


def difference(f: Network, g: Network, name: str | None = None) -> Network:
    """Return the network ``f - g``.

    Parameters
    ----------
    f, g : Network
        Networks with the same inputs and the same number of outputs.
    name : str, optional

    Raises
    ------
    NetworkError
        If their inputs or outputs differ in number or in the order of their axes.

    Examples
    --------
    >>> import lipyomo
    >>> f = lipyomo.Network.from_arrays([[[2.0], [-1.0]], [[1.0, 1.0]]])
    >>> g = lipyomo.Network.from_arrays([[[2.0], [-1.0]], [[1.0, 0.5]]])
    >>> difference(f, g).forward([-4.0]).tolist()
    [2.0]
    """
    _check((f, g))
    outputs = _common(f.output_shape, g.output_shape, f"the outputs of {f.name} and of {g.name}")
    both = side_by_side((f, g), name or f"{f.name} - {g.name}")
    *hidden, heads = both.layers
    m = f.output_dim
    if not hidden:  # weights are subtracted here, which may round
        eye = np.eye(m)
        return _chained([both, _affine(np.hstack([eye, -eye]))], both.name, outputs)
    weight = sp.csr_array(heads.weight)
    weight = sp.csr_array(weight[:m] - weight[m:])
    first, second = heads.bias[:m], -heads.bias[m:]
    bias = first + second
    lost = lost_in_sum(first, second, bias)
    rounded = np.flatnonzero(lost)
    if rounded.size:  # constant units add the rounding errors of the biases
        constants = Layer(np.zeros((rounded.size, hidden[-1].inputs)), lost[rounded])
        hidden[-1] = _side_by_side([hidden[-1], constants], sp.vstack)
        columns = sp.csr_array(
            (np.ones(rounded.size), (rounded, np.arange(rounded.size))), (m, rounded.size)
        )
        weight = sp.csr_array(sp.hstack([weight, columns]))
    head = Layer(weight if _sparse([heads]) else dense(weight), bias)
    named = both.input_parts, both.input_names
    return Network([*hidden, head], both.name, both.input_shape, outputs, *named).fused()


def compose(g: Network, f: Network, name: str | None = None) -> Network:
    """Return the network ``g(f(x))``.

    Parameters
    ----------
    g, f : Network
        g takes as many inputs as f has outputs.
    name : str, optional

    Raises
    ------
    NetworkError
        If the outputs of f do not match the inputs of g.
    """
    _check((g, f))
    _common(f.output_shape, g.input_shape, f"the outputs of {f.name} and the inputs of {g.name}")
    return _chained([f, g], name or f"{g.name} after {f.name}", g.output_shape)


def affine_after(
    f: Network, matrix: Any, offset: npt.ArrayLike | None = None, name: str | None = None
) -> Network:
    """Return the network ``A f(x) + b``.

    Parameters
    ----------
    f : Network
    matrix : array_like or sparse array, shape (k, m)
        A.
    offset : array_like, shape (k,), optional
        b; zero by default.
    name : str, optional

    Raises
    ------
    NetworkError
        If the matrix does not take the outputs of f, or a number is not finite.
    """
    _check((f,))
    last = _affine(matrix, offset)
    if last.input_dim != f.output_dim:
        raise NetworkError(
            f"the matrix has {last.input_dim} columns, but {f.name} has {f.output_dim} outputs"
        )
    return _chained([f, last], name or f.name)


def unroll(
    dynamics: Network | Sequence[Any],
    policy: Network,
    steps: int,
    name: str | None = None,
) -> Network:
    """Unroll a control loop ``x+ = g(x, pi(x))``: the final state as a function of the first.

    Parameters
    ----------
    dynamics : Network, or matrices (A, B) or (A, B, c)
        g, a network of the state (n inputs) and then the control (p inputs) with n outputs, or the
        affine map ``A x + B u + c``.
    policy : Network
        pi, from the state to the control.
    steps : int
        Number of steps, from 1 to 10,000.
    name : str, optional

    Raises
    ------
    NetworkError
        If the parts do not fit together, or there are too many steps.

    Examples
    --------
    >>> import lipyomo
    >>> policy = lipyomo.Network.from_arrays([[[1.0], [-1.0]], [[-0.5, 0.5]]])  # -x / 2
    >>> unroll(([[1.0]], [[1.0]]), policy, 3).forward([8.0]).tolist()
    [1.0]
    """
    _check((policy,))
    count = whole_number(steps, "the number of steps", NetworkError, 1)
    if count > MOST_STEPS:
        raise NetworkError(
            f"{count} steps make a network of as many layers; the limit is {MOST_STEPS}.  Remedy: "
            "fewer steps; constants multiply, so those of k steps on a box that no state leaves "
            "bound those of 2 k, 3 k, ... steps by their powers"
        )
    plant = _plant(dynamics)
    n, p = policy.input_dim, policy.output_dim
    if (plant.input_dim, plant.output_dim) != (n + p, n):
        raise NetworkError(
            f"the policy takes {n} states and gives {p} controls, so the dynamics should take "
            f"{n + p} inputs and give {n} outputs; they take {plant.input_dim} and give "
            f"{plant.output_dim}"
        )
    both = parallel(_affine(sp.eye_array(n, format="csr")), policy)
    return _chained([both, plant] * count, name or f"{policy.name}, {count} steps")


def _plant(dynamics: Any) -> Network:
    """Convert the dynamics to a network of states and controls."""
    if isinstance(dynamics, Network):
        return dynamics
    remedy = "give a Network of states and controls, or matrices (A, B) or (A, B, c)"
    instance(dynamics, Sequence, "the dynamics", NetworkError, remedy)
    if len(dynamics) not in (2, 3):
        raise NetworkError(f"the dynamics have {len(dynamics)} parts.  Remedy: {remedy}")
    A, B = (
        np.atleast_2d(real_numbers(part, f"the matrix {which}", NetworkError))
        for which, part in zip("AB", dynamics, strict=False)
    )
    if A.ndim != 2 or B.ndim != 2 or len(A) != len(B):
        raise NetworkError(
            f"the matrices A and B have shapes {A.shape} and {B.shape}: they need as many rows"
        )
    return _affine(np.hstack([A, B]), *dynamics[2:])


def _check(networks: Iterable[Any]) -> None:
    for network in networks:
        check_network(network, NetworkError)


def _common(first: tuple[int, ...], second: tuple[int, ...], what: str) -> tuple[int, ...]:
    """Return the common shape of two row-major shapes, ignoring axes of one entry and vectors.

    Raises
    ------
    NetworkError
        If they differ in size, or in the order of their axes.
    """
    sizes = int(np.prod(first)), int(np.prod(second))
    if sizes[0] != sizes[1]:
        raise NetworkError(
            f"{what} differ: {sizes[0]} of shape {first}, and {sizes[1]} of shape {second}"
        )
    axes = [[n for n in shape if n != 1] for shape in (first, second)]
    if min(map(len, axes)) > 1 and axes[0] != axes[1]:
        raise NetworkError(
            f"{what} have the same number, but other axes: {first} and {second}.  "
            "Remedy: export both with the same layout (channels first, say)"
        )
    return max(first, second, key=len)


def _affine(matrix: Any, offset: Any = None) -> Network:
    """Return an affine map as a network."""
    return Network([Layer(matrix, 0.0 if offset is None else offset)], "affine")


def _chained(
    networks: Sequence[Network], name: str, output_shape: tuple[int, ...] | None = None
) -> Network:
    """Compose networks, the first one first."""
    layers = [layer for network in networks for layer in network.layers]
    first = networks[0]
    named = first.input_parts, first.input_names
    return Network(layers, name, first.input_shape, output_shape, *named).fused()


def _carried(layers: Sequence[Layer], depth: int) -> list[Layer]:
    """Extend a chain to `depth` layers by identities."""
    outputs = layers[-1].units
    eye = sp.eye_array(outputs, format="csr")
    same = Layer(eye if _sparse(layers) else eye.toarray(), np.zeros(outputs))
    return [*layers, *[same] * (depth - len(layers))]


def _side_by_side(
    layers: Sequence[Layer], put_together: Callable[[Sequence[sp.sparray]], sp.sparray]
) -> Layer:
    """Combine the units of several layers to one layer."""
    weight: Matrix = sp.csr_array(put_together([sp.csr_array(layer.weight) for layer in layers]))
    if not _sparse(layers):
        weight = dense(weight)
    starts = accumulate((layer.units for layer in layers), initial=0)
    curves = [
        Curve(curve.activation, start + curve.units)
        for layer, start in zip(layers, starts, strict=False)
        for curve in layer.curves
    ]
    bias, left, right = (
        np.concatenate([getattr(layer, part) for layer in layers])
        for part in ("bias", "left", "right")
    )
    return Layer(weight, bias, left, right, curves)


def _sparse(layers: Sequence[Layer]) -> bool:
    """Return whether any weight is sparse."""
    return any(sp.issparse(layer.weight) for layer in layers)
