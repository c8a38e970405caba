"""A network as a classifier: classes, margins, and balls around points.

The class of x is the largest output; with a single output f the classes are 0 (f <= 0) and 1.  The
margins of class i at x are ``f_i(x) - f_j(x)`` for j != i.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lipyomo.api import solve
from lipyomo.bounds import preactivation_bounds
from lipyomo.bounds.params import PARAMS as BOUNDS
from lipyomo.certification.data import Clip, DataError, class_of, clip_box, data_point
from lipyomo.certification.goal import unless_interrupted
from lipyomo.certification.metric import metric_of
from lipyomo.domains import Domain
from lipyomo.errors import LipyomoError
from lipyomo.network import FloatArray, Layer, Network, check_network
from lipyomo.norms import LinearOutput, OutputNorm, functional
from lipyomo.problem import LipschitzProblem
from lipyomo.settings import Settings


class Classifier:
    """A network, the norm in which perturbations are measured, and the box of valid inputs.

    Parameters
    ----------
    network : Network
        With one output a class, or a single output whose sign is the class.
    norm : {'linf', 'l2', 'l1'} or OutputNorm, optional
        A linear norm on the inputs is known by its dual ball.
    clip : (lower, upper), optional
        Box of valid inputs: no perturbation leaves it.
    weights : array_like, shape (d,), or float, optional
        Perturbations s are measured by ``|s / weights|``.

    Attributes
    ----------
    network : Network
        With at least two outputs.
    classes : int
    metric : Metric
    """

    def __init__(
        self,
        network: Network,
        norm: str | OutputNorm = "linf",
        clip: Clip | None = None,
        weights: npt.ArrayLike | None = None,
    ) -> None:
        check_network(network, LipyomoError)
        self.metric = metric_of(norm, network.input_dim, weights)
        self.network = _two_class(network) if network.output_dim == 1 else network
        self.classes = self.network.output_dim
        self.clip = clip_box(clip, network.input_dim)
        self._with_margins: dict[int, Network] = {}
        self._global: dict[int, FloatArray] = {}

    def check(self, x: FloatArray, label: float | None) -> FloatArray:
        """The row as a point; `DataError` if it is none."""
        point = data_point(x, self.clip)
        if label is not None and class_of(label) >= self.classes:
            raise DataError(f"the label {label:g} is none of the {self.classes} classes")
        return point

    def predict(self, points: FloatArray) -> np.ndarray:
        """Classes of points (n, d), shape (n,)."""
        return np.asarray(np.argmax(self.network.forward(points), axis=-1))

    def ball(self, x: FloatArray, radius: float) -> Domain:
        """All valid inputs within `radius` of x, as a domain that holds every one of them."""
        return self.metric.ball(x, radius, self.clip)

    def distance(self, x: FloatArray, points: FloatArray) -> FloatArray:
        """Distances of points (n, d) from x, rounded up, shape (n,)."""
        return self.metric.distance(points - x)

    def rivals(self, label: int) -> np.ndarray:
        """The other classes."""
        return np.delete(np.arange(self.classes), label)

    def functionals(self, label: int) -> FloatArray:
        """Rows ``e_i - e_j`` for the rivals j of class i, shape (classes - 1, classes)."""
        eye = np.eye(self.classes)
        return np.asarray(eye[label] - eye[self.rivals(label)])

    def margins(self, points: FloatArray, label: int) -> FloatArray:
        """Margins at points (n, d), shape (n, classes - 1)."""
        values = self.network.forward(np.atleast_2d(points))
        return np.asarray(values[:, [label]] - values[:, self.rivals(label)])

    def least_margins(self, domain: Domain, label: int) -> FloatArray:
        """Lower bounds of the margins over a domain (which may be one point), with rounding.

        The margins are the pre-activations of one more layer, and bounded with the others.
        """
        if label not in self._with_margins:
            rows = self.functionals(label)
            last = Layer(rows, np.zeros(len(rows)), 0.0, 1.0)
            self._with_margins[label] = Network([*self.network.layers, last])
        bounds = preactivation_bounds(self._with_margins[label], domain)
        return np.asarray(bounds.lower[-1])

    def global_constants(self, label: int) -> FloatArray:
        """Upper bounds of ``L(f_i - f_j)`` over all valid inputs, shape (classes - 1,)."""
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
        """The problem whose constant over a ball is the largest ``L(f_i - f_j) / least_j``.

        One constant so decides all rivals: if it is below 1 / r, no margin that is at least
        `least` at the centre of a ball of radius r vanishes in it.

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


def _two_class(network: Network) -> Network:
    """Outputs (0, f) for a network with the one output f."""
    rows = Layer(np.array([[0.0], [1.0]]), np.zeros(2))
    return Network([*network.layers, rows], network.name)
