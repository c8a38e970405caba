"""Scikit-learn's perceptrons become the networks that they compute."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra 'sklearn')")
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import VarianceThreshold
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from lipyomo.base.errors import ImportRefused, MissingExtra
from lipyomo.formats.importers import from_sklearn

RNG = np.random.default_rng(5)
X = RNG.normal(size=(60, 4)) * [1.0, 5.0, 0.1, 2.0] + 3.0
NEW = RNG.normal(size=(30, 4)) * 4.0
Y = np.column_stack([X[:, 0] * X[:, 1], np.abs(X[:, 2])])
LABELS = (X[:, 0] > 3).astype(int) + (X[:, 1] > 4)


def fitted(model, target):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, target)


def regressor(**options) -> MLPRegressor:
    return MLPRegressor(hidden_layer_sizes=(6, 5), max_iter=30, random_state=0, **options)


def classifier(**options) -> MLPClassifier:
    return MLPClassifier(hidden_layer_sizes=(6,), max_iter=30, random_state=0, **options)


@pytest.mark.parametrize(
    "model",
    [
        regressor(),
        regressor(activation="identity"),
        make_pipeline(StandardScaler(), regressor()),
        make_pipeline(StandardScaler(with_mean=False), regressor()),
        make_pipeline(MinMaxScaler((-1, 2)), "passthrough", StandardScaler(), regressor()),
        make_pipeline(MinMaxScaler(clip=True), regressor()),
        make_pipeline(RobustScaler(), regressor()),
        make_pipeline(RobustScaler(with_centering=False, quantile_range=(10, 80)), regressor()),
        make_pipeline(RobustScaler(with_scaling=False), regressor()),
        make_pipeline(MaxAbsScaler(), regressor()),
        make_pipeline(PCA(2), regressor()),
        make_pipeline(StandardScaler(), PCA(3, whiten=True), regressor()),
        make_pipeline(VarianceThreshold(1.0), regressor()),
    ],
    ids=str,
)
def test_regressors(model) -> None:
    network = from_sklearn(fitted(model, Y))
    np.testing.assert_allclose(network.forward(NEW), model.predict(NEW), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("activation", "name"), [("tanh", "tanh"), ("logistic", "sigmoid")])
def test_smooth_activations(activation: str, name: str) -> None:
    model = fitted(make_pipeline(StandardScaler(), regressor(activation=activation)), Y)
    network = from_sklearn(model)
    assert set(network.activations) == {name}
    np.testing.assert_allclose(network.forward(NEW), model.predict(NEW), rtol=1e-9, atol=1e-9)


def test_logits_of_smooth_classifiers() -> None:
    network = from_sklearn(fitted(classifier(activation="logistic"), LABELS))
    assert network.output_dim == 3
    assert network.smooth


def test_one_target() -> None:
    model = fitted(regressor(), Y[:, 0])
    network = from_sklearn(model)
    assert network.output_dim == 1
    np.testing.assert_allclose(network.forward(NEW)[:, 0], model.predict(NEW), rtol=1e-9)


def test_logits_of_several_classes() -> None:
    model = fitted(make_pipeline(StandardScaler(), classifier()), LABELS)
    network = from_sklearn(model)
    logits = network.forward(NEW)
    assert network.output_dim == 3
    assert np.array_equal(logits.argmax(axis=1), model.predict(NEW))
    ratios = np.log(model.predict_proba(NEW))
    np.testing.assert_allclose(logits - logits[:, :1], ratios - ratios[:, :1], rtol=1e-6, atol=1e-6)


def test_logit_of_two_classes() -> None:
    model = fitted(classifier(), LABELS > 0)
    network = from_sklearn(model)
    assert network.output_dim == 1
    assert np.array_equal(network.forward(NEW)[:, 0] > 0, model.predict(NEW))


def test_several_labels() -> None:
    model = fitted(classifier(), np.column_stack([LABELS > 0, LABELS > 1]))
    assert from_sklearn(model).output_dim == 2


def test_float32() -> None:
    model = regressor()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X.astype(np.float32), Y[:, 1].astype(np.float32))
    network = from_sklearn(model)
    assert np.array_equal(network.layers[0].dense_weight, model.coefs_[0].T)


REFUSED = {
    "unfitted": (lambda: regressor(), "not fitted"),
    "step": (lambda: fitted(make_pipeline(QuantileTransformer(), regressor()), Y), "Quantile"),
    "kind": (lambda: fitted(Ridge(), Y), "Ridge"),
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refusals(case: str) -> None:
    make, words = REFUSED[case]
    with pytest.raises(ImportRefused) as caught:
        from_sklearn(make())
    assert words in str(caught.value)
    assert caught.value.remedy


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"lipyomo\[sklearn\]"):
        from_sklearn(regressor())
