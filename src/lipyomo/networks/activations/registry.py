"""The registry of activations, and checks of their parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from lipyomo.base.arguments import real_number
from lipyomo.base.errors import NetworkError
from lipyomo.base.modules import import_modules, module_names
from lipyomo.networks.activations.activation import Activation

_TABLE: dict[str, Callable[..., Activation]] = {}

Kind = TypeVar("Kind", bound=Callable[..., Activation])


def known_as(*names: str) -> Callable[[Kind], Kind]:
    """Register a class, or a function that returns an activation, under some names."""

    def enter(made: Kind) -> Kind:
        for name in names:
            _TABLE[name] = made
        return made

    return enter


def activation(name: str, **parameters: Any) -> Activation:
    """Return the activation of a name.

    Parameters
    ----------
    name : str
        Such as ``tanh``, ``elu`` or ``gelu``; see `activations`.
    **parameters : float
        Parameters of the activation, such as ``alpha=0.5``.

    Raises
    ------
    NetworkError
        If the name is unknown, or the parameters do not fit.
    """
    package = "lipyomo.networks.activations"
    if name not in _TABLE and name in module_names(package):  # most have a file of their own name
        import_module(f"{package}.{name}")
    made = _TABLE.get(name) or _whole_table().get(name)
    if made is None:
        raise NetworkError(f"unknown activation '{name}'; there are {', '.join(activations())}")
    try:
        return made(**parameters)
    except TypeError as problem:
        raise NetworkError(f"activation '{name}': {problem}") from problem


def activations() -> tuple[str, ...]:
    """Return the names of all activations, in alphabetical order."""
    return tuple(sorted(_whole_table()))


def _whole_table() -> dict[str, Callable[..., Activation]]:
    """Return the table once all modules of this package have entered their activations."""
    import_modules("lipyomo.networks.activations")
    return _TABLE


def finite_number(value: float, what: str) -> float:
    """Return a parameter as a float; raise `NetworkError` unless it is finite."""
    number = real_number(value, what, NetworkError)
    if not math.isfinite(number):
        raise NetworkError(f"{what} must be a finite number, not {value!r}")
    return number


def positive_number(value: float, what: str) -> float:
    """Return a parameter as a float; raise `NetworkError` unless it is positive.

    It must lie between 1e-100 and 1e100, so that its powers do not overflow or underflow.
    """
    number = finite_number(value, what)
    if not 1e-100 <= number <= 1e100:
        raise NetworkError(f"{what} must be positive (1e-100 to 1e100), not {value!r}")
    return number
