"""Compare an imported network with onnxruntime, and refuse it if they disagree.

The runtime computes in the precision of the file, mostly float32; the network computes in float64.
The two may differ by the rounding errors of the runtime, which are estimated to first order: a
layer ``W h + b`` makes errors of about ``eps (|W| |h| + |b|)``, which propagate to the output by
the Jacobian of the following layers.  The rounding of the largest tensor in the graph, which may
cancel within a layer, is added.  So the tolerance grows with the intermediate magnitudes, but not
with products of norms that would hide a real difference.  A smooth unit is computed by formulas
with terms of size ``L (1 + |z|)``, L its steepest slope: |sigma| is below that up to a constant,
and the float32 kernels of onnxruntime (rational approximations of tanh, sigmoid and erf, exp and
log elsewhere) have errors of a few eps of it.  That eps is float32's in float64 models too: erf and
constants such as 1/6 are float32 there as well.  If that does not explain a difference, it is
estimated again with a layer for every node of the graph: numbers that cancel when nodes are merged
are large in the runtime nevertheless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import onnx

from lipyomo.base.arrays import FloatArray, dense
from lipyomo.base.errors import ImportRefused
from lipyomo.base.system.memory import BATCH
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.formats.onnx.arrange import Fixed, Output
from lipyomo.formats.onnx.lower import lower_graph
from lipyomo.formats.onnx.lower.quantised import Quantiser
from lipyomo.formats.onnx.read import PathLike, inlined, read_model
from lipyomo.formats.onnx.runtime import UNCHECKED, Runner, open_runtime
from lipyomo.formats.onnx.select import select_graph
from lipyomo.networks import activations
from lipyomo.networks.building.budget import NUMBER, budget
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.problem import LOOKS

SAFETY = 64.0
"""Factor of the first-order estimate of rounding, for long sums and other orders of summation."""
COMPLETE = 4.0
"""The same for complete estimates, with all nodes of the graph."""

SINGLE = float(np.finfo(np.float32).eps)
"""Least relative rounding error of the formulas of smooth operators."""

FAINTEST = float(np.finfo(np.float32).tiny)
"""Magnitude below which rounding errors are absolute."""


class Sampler(Protocol):
    """An object that samples points, such as a domain."""

    def sample(self, rng: np.random.Generator, count: int, /) -> FloatArray:
        """Return random points, shape (count, d)."""


class CheckFailed(ImportRefused):
    """The imported network and onnxruntime disagree.

    Parameters
    ----------
    message : str
    difference : float
        The largest absolute difference of an output.
    tolerance : float
        Largest difference by rounding at that output.
    """

    def __init__(self, message: str, difference: float, tolerance: float) -> None:
        self.difference = difference
        self.tolerance = tolerance
        super().__init__(
            message,
            remedy=f"please report this model; {UNCHECKED}",
        )


def rounding_tolerance(
    network: Network, points: npt.ArrayLike, eps: float, asked: FloatArray | float = np.inf
) -> FloatArray:
    """Estimate the effect of rounding errors of relative size `eps` on the outputs.

    Parameters
    ----------
    network : Network
    points : array_like, shape (n, d)
    eps : float
        Relative rounding error of the other evaluation.
    asked : ndarray, shape (n, m), optional
        Differences to be explained.  If the last layer's errors explain them already, those of the
        hidden layers, which need Jacobians, are left out.

    Returns
    -------
    ndarray, shape (n, m)
    """
    h = np.asarray(points, dtype=np.float64)
    found = network.preactivations(h)
    inner = [layer.activate(z) for layer, z in zip(network.hidden, found, strict=True)]
    tolerance = _sizes(network.head, inner[-1] if inner else h)
    if not network.hidden or (SAFETY * eps * tolerance >= asked).all():
        return np.asarray(SAFETY * eps * tolerance)
    sizes = [_sizes(*pair) for pair in zip(network.hidden, [h, *inner], strict=False)]
    slopes = []
    for layer, z, size in zip(network.hidden, found, sizes, strict=True):
        slopes.append(_steepest(layer, z, SAFETY * eps * size))
    coarse = max(1.0, SINGLE / eps)
    formulas = [_formula_sizes(*pair, coarse) for pair in zip(network.hidden, found, strict=True)]
    widest, entries = max(network.sizes), BATCH // NUMBER
    some = max(1, entries // widest)
    for start in range(0, network.output_dim, some):
        outputs = slice(start, min(start + some, network.output_dim))
        count = max(1, entries // (widest * (outputs.stop - outputs.start)))
        for first in range(0, len(h), count):
            budget().poll()
            part = slice(first, min(first + count, len(h)))
            tolerance[part, outputs] += _of_hidden(network, sizes, slopes, formulas, part, outputs)
    return np.asarray(SAFETY * eps * tolerance)


def _sizes(layer: Layer, h: FloatArray) -> FloatArray:
    """Return the sums of absolute terms of a layer, shape (n, units)."""
    return np.asarray((layer.sizes @ np.abs(h).T).T + np.abs(layer.bias) + FAINTEST)


def _steepest(layer: Layer, z: FloatArray, error: FloatArray) -> FloatArray:
    """Return the largest absolute slopes within `error` of the pre-activations, (n, units)."""
    one = np.abs(np.where(z > 0, layer.right, layer.left))
    found = np.where(np.abs(z) <= error, layer.steepest, one)
    for curve in layer.curves:
        at, off = z[:, curve.units], error[:, curve.units]
        low, high = curve.activation.slope_range(at - off, at + off)
        found[:, curve.units] = np.maximum(np.abs(low), np.abs(high))
    return found


def _formula_sizes(layer: Layer, z: FloatArray, factor: float) -> FloatArray | None:
    """Return `factor` times the magnitudes of the terms of smooth units, shape (n, units).

    None for a layer without smooth units.
    """
    if not layer.curves:
        return None
    steepest = np.where(layer.curved, layer.steepest, 0.0)
    steepest = np.broadcast_to(steepest, z.shape).copy()
    for curve in layer.curves:
        # these are steep only where they are large
        if isinstance(curve.activation, activations.Unbounded):
            at, sigma = z[:, curve.units], curve.activation
            steepest[:, curve.units] = np.abs(sigma.slope(at)) + np.abs(sigma.value(at))
    return factor * steepest * (1.0 + np.abs(z))


def _of_hidden(
    network: Network,
    sizes: list[FloatArray],
    slopes: list[FloatArray],
    formulas: list[FloatArray | None],
    part: slice,
    outputs: slice,
) -> FloatArray:
    """Return the effect of the hidden layers' errors on some outputs at some points."""
    rows = dense(network.head.weight[outputs])
    points = part.stop - part.start
    found = np.zeros((points, len(rows)))
    jacobians = np.broadcast_to(rows, (points, *rows.shape))
    for position in range(len(network.hidden) - 1, -1, -1):
        own = formulas[position]
        if own is not None:
            found += np.einsum("pmn,pn->pm", np.abs(jacobians), own[part])
        jacobians = jacobians * slopes[position][part][:, None, :]
        found += np.einsum("pmn,pn->pm", np.abs(jacobians), sizes[position][part])
        if position:
            weight = network.layers[position].weight
            flat = jacobians.reshape(-1, weight.shape[0])
            jacobians = np.asarray(flat @ weight).reshape(points, len(rows), weight.shape[1])
    return found


@with_one_blas_thread
def check_against_runtime(
    network: Network,
    model: onnx.ModelProto | PathLike,
    points: npt.ArrayLike | None = None,
    domain: Sampler | None = None,
    samples: int = LOOKS,
    seed: int = 0,
    output: Output = None,
    fixed: Fixed | None = None,
) -> float:
    """Compare a network with onnxruntime's evaluation of the imported model.

    Parameters
    ----------
    network : Network
    model : onnx.ModelProto or path
    points : array_like, shape (n, d), optional
        Points of the comparison.
    domain : object with ``sample(rng, count)``, optional
        Samples random points if no `points` are given; by default they have several magnitudes
        around the origin.
    samples : int, optional
        Number of random points.
    seed : int, optional
    output : str or sequence of str, optional
        Tensors or nodes that were chosen as outputs.
    fixed : mapping of str to array_like, optional
        Given values of inputs.

    Returns
    -------
    float
        The largest difference of an output.

    Raises
    ------
    CheckFailed
        If an output differs by more than rounding explains.
    ImportRefused
        If onnxruntime cannot run the model, or it has another number of inputs or outputs.
    """
    proto = model if isinstance(model, onnx.ModelProto) else read_model(model)
    runtime = open_runtime(proto, output, fixed)
    if points is None:
        points = sampled(domain, network.input_dim, samples, seed)
    return judged(
        network,
        runtime,
        evaluations(runtime, network.input_dim, points),
        lambda: lower_graph(select_graph(inlined(proto), output, fixed), separate=True),
    )


def sampled(domain: Sampler | None, dimension: int, samples: int, seed: int = 0) -> FloatArray:
    """Return random points of a domain; of several magnitudes if there is none."""
    rng = np.random.default_rng(seed)
    if domain is not None:
        return domain.sample(rng, samples)
    scales = 10.0 ** rng.uniform(-1.0, 1.5, size=(samples, 1))
    points = scales * rng.standard_normal((samples, dimension))
    points[::4] = rng.uniform(0.0, 1.0, size=points[::4].shape)
    return points


class Answers(NamedTuple):
    """The outputs of a model at some points.

    Attributes
    ----------
    points : ndarray, shape (n, d)
        Rounded to the type of the runtime's input; followed by the rounded signals, in steps.
    expected : ndarray, shape (n, m)
        The outputs; followed by the signals before they are rounded.
    largest : ndarray, shape (n, 1)
        The largest intermediate number.
    """

    points: FloatArray
    expected: FloatArray
    largest: FloatArray


def judged(
    network: Network, runtime: Runner, answers: Answers, separate: Callable[[], Network]
) -> float:
    """Return the largest difference between outputs of a network and a model.

    Parameters
    ----------
    network : Network
    runtime : Runner
        The evaluator of the model.
    answers : Answers
    separate : callable
        Returns the network with a layer for every node of the graph, which takes longer.

    Raises
    ------
    CheckFailed
        If it is more than rounding explains.
    """
    chosen, expected, largest = answers
    found = network.forward(chosen)
    if expected.shape != found.shape:
        raise ImportRefused(
            f"{runtime.name} returns {expected.shape[1]} numbers, the network {found.shape[1]}",
            remedy="please report this model",
        )
    difference = np.abs(expected - found)
    cancelled = COMPLETE * runtime.eps * largest
    tolerance = cancelled + rounding_tolerance(network, chosen, runtime.eps, difference - cancelled)
    singular = network.needs_ranges
    if not (difference <= tolerance).all():
        nodes = separate()
        by_node = rounding_tolerance(nodes, chosen, runtime.eps) * (COMPLETE / SAFETY)
        tolerance = np.maximum(tolerance, by_node)
        singular |= nodes.needs_ranges
    if singular:  # close to a singularity rounding may explain any difference
        known = np.isfinite(tolerance).all(axis=1)
        if not known.any():
            raise ImportRefused(
                "the model is singular, or nearly so, at all points where it was computed, so that "
                "the import cannot be checked",
                remedy=f"give a domain on which it is not; {UNCHECKED}",
            )
        found, expected, tolerance = found[known], expected[known], tolerance[known]
        difference = difference[known]
    wrong = ~(difference <= tolerance)
    if wrong.any():
        size = np.where(wrong, np.nan_to_num(difference, nan=np.inf), -1.0)
        worst = np.unravel_index(int(np.argmax(size)), size.shape)
        raise CheckFailed(
            f"the imported network and onnxruntime disagree: output {worst[1]} is "
            f"{found[worst]:.9g} here and {expected[worst]:.9g} there; the difference "
            f"{difference[worst]:.3g} is more than rounding explains ({tolerance[worst]:.3g})",
            float(difference[worst]),
            float(tolerance[worst]),
        )
    return float(difference.max(initial=0.0))


def evaluations(
    runtime: Runner, inputs: int, points: npt.ArrayLike, quantisers: Sequence[Quantiser] = ()
) -> Answers:
    """Evaluate a runtime at points, rounded to the type of its input.

    Points where its numbers overflow, or beyond its limit of points, are left out.

    Parameters
    ----------
    runtime : Runner
    inputs : int
        Number of inputs of the network.
    points : array_like, shape (n, d)
    quantisers : sequence of Quantiser, optional
        Nodes that round signals.

    Raises
    ------
    ImportRefused
        If no point is left, or inputs differ in number.
    """
    chosen = np.atleast_2d(np.asarray(points, dtype=np.float64))
    if runtime.size != inputs or chosen.shape[1] != inputs:
        raise ImportRefused(
            f"the model takes {runtime.size} inputs, the network {inputs}, and the "
            f"points have {chosen.shape[1]} coordinates",
            remedy="give points of the network's dimension",
        )
    asked, expected, largest = [], [], []
    for point in representable(chosen, runtime.dtype)[: runtime.points]:
        budget().poll()
        tensors = runtime.tensors(point)
        held = [_flat([tensors[one.made]]) - one.zero for one in quantisers]
        asked.append(_flat([point, *held]))
        signals = [tensors[one.signal] for one in quantisers]
        expected.append(_flat([next(iter(tensors.values())), *signals]))
        largest.append([runtime.largest(list(tensors.values()))])
    found = Answers(np.array(asked), np.array(expected), np.array(largest))
    comparable = np.isfinite(found.largest[:, 0]) & np.isfinite(found.expected).all(axis=1)
    if not comparable.any():
        raise ImportRefused(
            f"the numbers overflow in {runtime.name} ({np.dtype(runtime.dtype).name}), so the "
            "import cannot be checked",
            remedy=f"scale the weights down; {UNCHECKED}",
        )
    return Answers(*(part[comparable] for part in found))


def _flat(arrays: Iterable[Any]) -> FloatArray:
    """Return the joined entries of arrays."""
    return np.concatenate([np.asarray(array, dtype=np.float64).reshape(-1) for array in arrays])


def representable(points: FloatArray, dtype: type[np.floating]) -> FloatArray:
    """Round points to a type, after scaling down those whose squares overflow in it."""
    most = float(np.sqrt(np.finfo(dtype).max))
    size = np.abs(points).max(axis=1, keepdims=True, initial=1.0)
    return np.asarray((points * np.minimum(1.0, most / size)).astype(dtype), dtype=np.float64)
