"""A network as a classifier: classes, margins, and balls around points.

The class of x is that of the largest output.  With a single output y, it is 1 if y is above a
threshold, else 0; the threshold is 0.5 if y is a probability, else 0.  The margins of class i at x
are ``f_i(x) - f_j(x)`` for j != i; with a single output, f is (0, y - threshold), or (0, the
logit).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from lipyomo.analyses.api import solve, unless_interrupted
from lipyomo.analyses.certification.data import Clip, DataError, class_of, clip_box, data_point
from lipyomo.analyses.certification.metric import metric_of
from lipyomo.base.arguments import real_number
from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import LipyomoError
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.networks.activations import Sigmoid
from lipyomo.networks.network import Layer, Network, check_network
from lipyomo.problems.domains import AllSpace, Domain
from lipyomo.problems.norms import LinearOutput, OutputNorm, functional
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.settings import Settings
from lipyomo.relaxations.linear import preactivation_bounds
from lipyomo.relaxations.linear.params import PARAMS as BOUNDS

ROOM = 1e-6
"""How far bounds of a probability may be outside [0, 1] by rounding."""


class Classifier:
    """A network, the norm of perturbations, and the box of valid inputs.

    Parameters
    ----------
    network : Network
        With one output for each class, or a single output.
    norm : {'linf', 'l2', 'l1'} or OutputNorm, optional
        A linear norm of the inputs is given by its dual ball.
    clip : (lower, upper), optional
        The box of valid inputs; perturbed inputs stay in it.
    weights : array_like, shape (d,), or float, optional
        Perturbations s are measured by ``|s / weights|``.
    threshold : float, optional
        The class is 1 if the single output is above it.  The default is 0.5 if the network ends
        with a sigmoid, or its output is in [0, 1] for all inputs, else 0.

    Attributes
    ----------
    network : Network
        With at least two outputs.
    classes : int
    metric : Metric
    threshold : float or None
        None with several outputs.
    is_probability : bool
        Whether the single output is in [0, 1] for all inputs.
    decision : str
        The rule that decides, such as ``class 1 if y > 0.5``.
    """

    def __init__(
        self,
        network: Network,
        norm: str | OutputNorm = "linf",
        clip: Clip | None = None,
        weights: npt.ArrayLike | None = None,
        threshold: float | None = None,
    ) -> None:
        check_network(network, LipyomoError)
        self.metric = metric_of(norm, network.input_dim, weights)
        self.is_probability = network.output_dim == 1 and _is_probability(network)
        self.threshold, self.network = None, network
        self.decision = f"the largest of {network.output_dim} outputs"
        if network.output_dim == 1:
            self.threshold = _threshold(threshold, self.is_probability)
            self.network, self.decision = _two_class(network, self.threshold)
        elif threshold is not None:
            raise LipyomoError(
                f"a threshold is for one output, and the network has {network.output_dim}: the "
                "largest is the class.  Remedy: leave it out"
            )
        self.classes = self.network.output_dim
        self.clip = clip_box(clip, network.input_dim)
        self._with_margins: dict[int, Network] = {}
        self._global: dict[int, FloatArray] = {}

    def check(self, x: FloatArray, label: float | None) -> FloatArray:
        """Return the row as a point; raise `DataError` if it is not valid."""
        point = data_point(x, self.clip)
        if label is not None and class_of(label) >= self.classes:
            raise DataError(f"the label {label:g} is none of the {self.classes} classes")
        return point

    def predict(self, points: FloatArray) -> np.ndarray:
        """Return the classes of points (n, d), shape (n,)."""
        return np.asarray(np.argmax(self.network.forward(points), axis=-1))

    def class_of_outputs(self, outputs: FloatArray) -> int:
        """Return the class for outputs (m,) of the original network."""
        if self.threshold is not None:
            return int(outputs[0] > self.threshold)
        return int(np.argmax(outputs))

    def ball(self, x: FloatArray, radius: float) -> Domain:
        """Return a domain that contains all valid inputs within `radius` of x."""
        return self.metric.ball(x, radius, self.clip)

    def distance(self, x: FloatArray, points: FloatArray) -> FloatArray:
        """Return the distances of points (n, d) from x, rounded up, shape (n,)."""
        return self.metric.distance(points - x)

    def rivals(self, label: int) -> np.ndarray:
        """Return the other classes."""
        return np.delete(np.arange(self.classes), label)

    def functionals(self, label: int) -> FloatArray:
        """Return rows ``e_i - e_j`` for the rivals j of class i, shape (classes - 1, classes)."""
        eye = np.eye(self.classes)
        return np.asarray(eye[label] - eye[self.rivals(label)])

    def margins(self, points: FloatArray, label: int) -> FloatArray:
        """Return the margins at points (n, d), shape (n, classes - 1)."""
        values = self.network.forward(np.atleast_2d(points))
        return np.asarray(values[:, [label]] - values[:, self.rivals(label)])

    def least_margins(self, domain: Domain, label: int) -> FloatArray:
        """Bound the margins over a domain (perhaps a single point) from below, with rounding.

        The margins are the pre-activations of an additional layer, and bounded with the others.
        """
        if label not in self._with_margins:
            rows = self.functionals(label)
            last = Layer(rows, np.zeros(len(rows)), 0.0, 1.0)
            self._with_margins[label] = Network([*self.network.layers, last])
        bounds = preactivation_bounds(self._with_margins[label], domain)
        return np.asarray(bounds.lower[-1])

    @with_one_blas_thread
    def global_constants(self, label: int) -> FloatArray:
        """Return upper bounds of ``L(f_i - f_j)`` over all valid inputs, shape (classes - 1,)."""
        if label not in self._global:
            problems = (
                self.metric.problem(self.network, None, np.inf, self.clip, functional(c))
                for c in self.functionals(label)
            )
            quick = Settings(time_limit=BOUNDS.seconds, attain=False)
            found = [unless_interrupted(solve(p, "naive", quick)) for p in problems]
            self._global[label] = np.array([one.upper for one in found])
        return self._global[label]

    def problem(
        self, x: FloatArray, radius: float, label: int, least: FloatArray
    ) -> LipschitzProblem:
        """Return the problem whose constant over a ball is the largest ``L(f_i - f_j) / least_j``.

        In this way one constant decides all rivals: if it is below 1 / r, no margin that is at
        least `least` at the centre of a ball of radius r vanishes in the ball.

        Parameters
        ----------
        x : ndarray, shape (d,)
        radius : float
        label : int
        least : ndarray, shape (classes - 1,)
            Positive lower bounds of the margins at the centre.
        """
        scale = np.nextafter(1.0 / least, np.inf)
        rows = LinearOutput(vertices=scale[:, None] * self.functionals(label), name="margins")
        return self.metric.problem(self.network, x, radius, self.clip, rows)


def _threshold(given: float | None, is_probability: bool) -> float:
    """Return the threshold of a single output."""
    if given is None:
        return 0.5 if is_probability else 0.0
    found = real_number(given, "the threshold", LipyomoError)
    if not math.isfinite(found) or (is_probability and not 0.0 < found < 1.0):
        between = " between 0 and 1, as the output is" if is_probability else ""
        raise LipyomoError(f"the threshold must be a finite number{between}, not {found:g}")
    return found


def _is_probability(network: Network) -> bool:
    """Return whether the single output is in [0, 1] for all inputs, up to rounding."""
    seen = Network([*network.layers, Layer(np.ones((1, 1)), np.zeros(1), 0.0, 1.0)])
    bounds = preactivation_bounds(seen, AllSpace(network.input_dim), relaxation="interval")
    low, high = float(bounds.lower[-1][0]), float(bounds.upper[-1][0])
    return low >= -ROOM and high <= 1.0 + ROOM and high - low > 0.5


def _logit(network: Network) -> Network | None:
    """Return the network before its final sigmoid, if its output is exactly that of a sigmoid."""
    *before, last = network.hidden or (None,)
    head = network.head
    if last is None or last.units != 1 or not last.curves:
        return None
    if not isinstance(last.curves[0].activation, Sigmoid):
        return None
    if head.dense_weight.tolist() != [[1.0]] or head.bias.tolist() != [0.0]:
        return None
    layers = [*before, Layer(last.weight, last.bias)]
    return Network(layers, network.name, input_names=network.input_names)


def _two_class(network: Network, threshold: float) -> tuple[Network, str]:
    """Turn one output into two without rounding; also return the rule that decides."""
    rows, shift = np.array([[0.0], [1.0]]), np.array([0.0, -threshold])
    decision, logit = f"class 1 if y > {threshold:g}", None
    if threshold == 0.5:  # a sigmoid is above 0.5 if and only if its argument is positive
        logit = _logit(network)
    if logit is not None:
        network, shift = logit, np.zeros(2)
        decision += ", where the logit is positive (a final sigmoid)"
    layers = [*network.layers, Layer(rows, shift)]
    return Network(layers, network.name, input_names=network.input_names), decision
