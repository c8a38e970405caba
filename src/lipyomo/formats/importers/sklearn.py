"""Importer of scikit-learn's multi-layer perceptrons, alone or after scalers in a pipeline."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from lipyomo.base.arguments import instance
from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import ImportRefused
from lipyomo.base.system.extras import need
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.formats.onnx.lower.products import times_constant
from lipyomo.formats.onnx.lower.units import clip_between
from lipyomo.networks.activations import activation
from lipyomo.networks.building.affine import Tensor
from lipyomo.networks.building.chain import to_network
from lipyomo.networks.building.system import System
from lipyomo.networks.building.trace import Trace
from lipyomo.networks.network import Network, with_input_names
from lipyomo.problems.problem import LOOKS
from lipyomo.problems.reductions.merge import merge

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator
    from sklearn.neural_network import MLPClassifier, MLPRegressor

SMOOTH = {"tanh": "tanh", "logistic": "sigmoid"}
"""Names of smooth activations in scikit-learn and in lipyomo."""


@with_one_blas_thread
def from_sklearn(estimator: BaseEstimator, name: str | None = None) -> Network:
    """Convert a fitted scikit-learn estimator to a network.

    Parameters
    ----------
    estimator : MLPRegressor, MLPClassifier, or a Pipeline that ends in one
        With any activation (relu, tanh, logistic, identity).  Previous steps, which must be affine
        or clip, may be StandardScaler, RobustScaler, MinMaxScaler, MaxAbsScaler, PCA and selections
        of features.
    name : str, optional
        Name of the network; by default the class of the estimator.

    Returns
    -------
    Network
        For a classifier, the logits before the softmax (one per class) or the logistic function
        (one, for the second class).  `input_names` are the names of the columns if the estimator
        was fitted to a data frame.

    Raises
    ------
    MissingExtra
        If scikit-learn is not installed.
    ImportRefused
        If a step or an activation is not supported, the estimator is not fitted, or its predictions
        differ from the network's.
    """
    need("sklearn", "importing scikit-learn estimators")
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import NotFittedError
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    remedy = "give an MLPRegressor, an MLPClassifier or a Pipeline that ends in one"
    instance(estimator, BaseEstimator, "the estimator", ImportRefused, remedy)
    steps = estimator.steps if isinstance(estimator, Pipeline) else [("estimator", estimator)]
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        raise ImportRefused(
            f"the {type(estimator).__name__} is not fitted", remedy="call fit first"
        ) from None
    trace = Trace(int(estimator.n_features_in_))
    tensor = trace.input((1, trace.inputs))
    for label, step in steps[:-1]:
        tensor = _scaled(trace, tensor, label, step)
    label, last = steps[-1]
    output = _perceptron(trace, tensor, label, last)
    network = to_network(System.of(trace, output), name or type(estimator).__name__)
    network = merge(network).network
    _compare(network, estimator)
    return with_input_names(network, getattr(estimator, "feature_names_in_", None))


def _scaled(trace: Trace, x: Tensor, label: str, step: object) -> Tensor:
    """Apply a step of a pipeline before its estimator."""
    from sklearn.decomposition import PCA
    from sklearn.feature_selection import SelectorMixin
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

    if step is None or step == "passthrough":
        return x
    if isinstance(step, StandardScaler | RobustScaler):  # offsets and factors may be None
        offset = step.center_ if isinstance(step, RobustScaler) else step.mean_
        if offset is not None and getattr(step, "with_mean", True):
            x = x.shift(-offset)
        return x if step.scale_ is None else x.scale(1.0 / step.scale_)
    if isinstance(step, MaxAbsScaler):
        x = x.scale(1.0 / step.scale_)
        return clip_between(trace, x, -1.0, 1.0) if getattr(step, "clip", False) else x
    if isinstance(step, MinMaxScaler):
        x = x.scale(step.scale_).shift(step.min_)
        low, high = step.feature_range
        return clip_between(trace, x, low, high) if step.clip else x
    if isinstance(step, PCA):
        x = times_constant(x.shift(-step.mean_), np.asarray(step.components_.T, dtype=np.float64))
        return x.scale(1.0 / np.sqrt(step.explained_variance_)) if step.whiten else x
    if isinstance(step, SelectorMixin):
        return x.take(np.asarray(step.get_support(indices=True))[None, :])
    raise ImportRefused(
        f"the step is a {type(step).__name__}, which is not supported",
        node=label,
        remedy="use StandardScaler, RobustScaler, MinMaxScaler, MaxAbsScaler, PCA or a selection "
        "of features, or apply the step to the data beforehand",
    )


def _perceptron(trace: Trace, x: Tensor, label: str, step: object) -> Tensor:
    """Apply the layers of a multi-layer perceptron, without its output function."""
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    if not isinstance(step, MLPRegressor | MLPClassifier):
        raise ImportRefused(
            f"a {type(step).__name__} is not supported",
            node=label,
            remedy="use MLPRegressor or MLPClassifier, or export the model with skl2onnx",
        )
    if step.activation not in ("relu", "identity", *SMOOTH):
        raise ImportRefused(
            f"the activation '{step.activation}' is not known",
            node=label,
            remedy="train with activation relu, tanh, logistic or identity",
        )
    last = len(step.coefs_) - 1
    for position, (weight, bias) in enumerate(zip(step.coefs_, step.intercepts_, strict=True)):
        weights = np.asarray(weight, dtype=np.float64)
        x = times_constant(x, weights).shift(np.asarray(bias, dtype=np.float64))
        if position < last and step.activation == "relu":
            x = trace.relu(x)
        elif position < last and step.activation in SMOOTH:
            x = trace.smooth(x, activation(SMOOTH[step.activation]))
    return x


def _last(estimator: BaseEstimator) -> MLPRegressor | MLPClassifier:
    """Return the perceptron, which is the last step of a pipeline."""
    return estimator[-1] if hasattr(estimator, "steps") else estimator


def _predicted(estimator: BaseEstimator, points: FloatArray, logits: FloatArray) -> FloatArray:
    """Return the differences between the estimator's predictions and those of the network."""
    last = _last(estimator)
    if not hasattr(last, "predict_proba"):
        expected = np.asarray(estimator.predict(points)).reshape(len(points), -1)
        return np.asarray(np.abs(expected - logits) / (1.0 + np.abs(logits)))
    expected = np.asarray(estimator.predict_proba(points))
    if last.out_activation_ == "softmax":
        grown = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(np.abs(expected - grown / grown.sum(axis=1, keepdims=True)))
    probability = 0.5 * (1.0 + np.tanh(0.5 * logits))
    if probability.shape[1] == 1:
        probability = np.hstack([1.0 - probability, probability])
    return np.asarray(np.abs(expected - probability))


def _compare(network: Network, estimator: BaseEstimator) -> None:
    """Compare with the estimator's own predictions at random points."""
    points = np.random.default_rng(0).normal(size=(LOOKS, network.input_dim))
    allowed = 1e-9 if _last(estimator).coefs_[0].dtype == np.float64 else 1e-4
    with warnings.catch_warnings():  # arrays have no names of columns, which it may know
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        difference = _predicted(estimator, points, network.forward(points))
    if not (difference <= allowed).all():
        raise ImportRefused(
            f"the network and the estimator disagree by {difference.max():.3g}",
            remedy="please report this estimator",
        )
