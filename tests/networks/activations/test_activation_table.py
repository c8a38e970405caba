"""Activations are values: names, equality, pickles, parameters, and what is refused."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from definitions import DEFINITIONS, Definition, name

from lipyomo.base.errors import NetworkError
from lipyomo.networks.activations import Elu, Gelu, Swish, Tanh, activation, activations


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name)
def test_an_activation_is_a_value(definition: Definition) -> None:
    made = definition.made
    copied = pickle.loads(pickle.dumps(made))
    assert copied == made
    assert hash(copied) == hash(made)
    z = np.linspace(-3, 3, 7)
    np.testing.assert_array_equal(copied.value(z), made.value(z))
    equal = [other.made for other in DEFINITIONS if other.made == made]
    assert len(equal) == 1


def test_names_tell_activations_apart() -> None:
    names = [definition.made.name for definition in DEFINITIONS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("word", activations())
def test_every_name_makes_one(word: str) -> None:
    made = activation(word)
    z = np.linspace(-2, 2, 5)
    assert made.value(z).shape == made.slope(z).shape == (5,)
    assert made.value(np.float64(0.5)).shape == ()


def test_parameters() -> None:
    assert activation("elu", alpha=0.5) == Elu(0.5)
    assert activation("gelu", approximate="tanh") == Gelu("tanh")
    assert activation("quick_gelu") == Swish(1.702) != Swish()
    assert activation("silu") == Swish(1.0)


@pytest.mark.parametrize(
    ("word", "parameters", "says"),
    [
        ("snake", {}, "unknown activation 'snake'"),
        ("elu", {"beta": 1.0}, "beta"),
        ("elu", {"alpha": float("nan")}, "elu: alpha must be a number"),
        ("softplus", {"beta": 0.0}, "softplus: beta must be positive"),
        ("softplus", {"beta": 1e200}, "softplus: beta must be positive .1e-100 to 1e100"),
        ("celu", {"alpha": 1e-200}, "celu: alpha must be positive"),
        ("swish", {"beta": -1.0}, "swish: beta must be positive"),
        ("celu", {"alpha": "much"}, "celu: alpha must be a number"),
        ("gelu", {"approximate": "fast"}, "'none' or 'tanh'"),
    ],
)
def test_what_does_not_fit_is_refused(word: str, parameters: dict, says: str) -> None:
    with pytest.raises(NetworkError, match=says):
        activation(word, **parameters)


def test_activations_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Elu(0.5).alpha = 1.0  # type: ignore[misc]
    assert Tanh() != Elu()
