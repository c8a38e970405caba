"""Elementary functions are compared with stored values before anything rests on them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.special

import lipyomo
from experiments.elementary import arguments, table
from lipyomo.base.errors import PlatformError
from lipyomo.networks.activations import elementary
from lipyomo.networks.activations.elementary import STORED, Elementary, check
from lipyomo.networks.activations.rounding import ASSUMED

Function = Callable[[np.ndarray], np.ndarray]

FOUND: dict[str, Function] = {
    name: getattr(np, name, None) or getattr(scipy.special, name) for name in ASSUMED
}


def test_what_is_stored_is_what_arb_says() -> None:
    stored = np.load(STORED)
    np.testing.assert_array_equal(stored, table([*stored[:, 0]]))
    for points, name in zip(stored[:, 0], ASSUMED, strict=True):  # powers differ by processors
        np.testing.assert_allclose(points, arguments(name), rtol=1e-13)


@pytest.mark.parametrize("name", ASSUMED)
def test_functions_of_this_platform_are_as_good_as_assumed(name: str) -> None:
    check(name, FOUND[name])


def _everywhere(function: Function) -> Function:
    return lambda z: function(z) * (1 + 2e-12) + 2e-15


def _in_long_arrays(function: Function) -> Function:
    return lambda z: (_everywhere(function) if z.size > 1000 else function)(z)


def _where_strided(function: Function) -> Function:
    return lambda z: (function if z.flags.c_contiguous else _everywhere(function))(z)


def _backwards(function: Function) -> Function:
    return lambda z: (_everywhere(function) if z.strides[0] < 0 else function)(z)


def _in_the_tail_of_vectors(function: Function) -> Function:
    def found(z: np.ndarray) -> np.ndarray:
        values, tail = np.array(function(z)), z.size % 8
        if tail:
            values[-tail:] = _everywhere(function)(z[-tail:])
        return values

    return found


def _with_single_precision(function: Function) -> Function:
    return lambda z: function(z).astype(np.float32).astype(np.float64)


def _without_numbers(function: Function) -> Function:
    return lambda z: np.where(np.abs(z) > 0.5, np.nan, function(z))


@pytest.mark.parametrize(
    "spoilt",
    [
        _everywhere, _in_long_arrays, _where_strided, _backwards, _in_the_tail_of_vectors,
        _with_single_precision, _without_numbers,
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ASSUMED)
def test_a_function_that_is_off_by_more_is_found(
    name: str, spoilt: Callable[[Function], Function]
) -> None:
    with pytest.raises(PlatformError, match=f"'{name}'"):
        check(name, spoilt(FOUND[name]))


def test_a_function_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(elementary, "check", lambda name, function: asked.append(name))
    function = Elementary("tanh")
    assert function(np.ones(2))[0] == function(np.ones(3))[1] == np.tanh(1.0)
    assert asked == ["tanh"]


@pytest.fixture
def bad_exponential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(elementary.exp), "function", raising=False)
    monkeypatch.setitem(sys.modules, "functions", SimpleNamespace(exp=_everywhere(np.exp)))
    monkeypatch.setattr(elementary.exp, "module", "functions")


def _problem(units: str) -> lipyomo.LipschitzProblem:
    curves = [] if units == "relu" else [lipyomo.Curve(lipyomo.activation(units), [0, 1])]
    hidden = lipyomo.Layer([[1.0], [-2.0]], [0.1, 0.2], curves=curves)
    network = lipyomo.Network([hidden, lipyomo.Layer([[1.0, 0.7]], [0.0], 1.0, 1.0)])
    return lipyomo.LipschitzProblem(network, lipyomo.Box(-1.0, 1.0, 1))


@pytest.mark.usefixtures("bad_exponential")
@pytest.mark.parametrize("units", ["tanh", "sigmoid", "softplus", "gelu", "mish", "elu", "silu"])
def test_smooth_bounds_are_refused_where_a_function_is_bad(units: str) -> None:
    with pytest.raises(PlatformError, match="'exp'"):
        lipyomo.solve(_problem(units))
    with pytest.raises(PlatformError, match="'exp'"):
        lipyomo.lipschitz(_problem(units).network, box=(-1, 1), method="crown")


@pytest.mark.usefixtures("bad_exponential")
def test_what_rests_on_no_such_function_goes_on() -> None:
    assert lipyomo.solve(_problem("relu")).is_exact
    assert lipyomo.solve(_problem("softsign")).lower > 0


def test_smooth_maps_and_ranges_are_refused_as_well(bad_exponential: None) -> None:
    problem = _problem("gelu")
    with pytest.raises(PlatformError, match="'exp'"):
        lipyomo.map_cells(problem, (4,))
    with pytest.raises(PlatformError, match="'exp'"):
        lipyomo.derivative_range(problem)


def test_activations_use_no_others() -> None:
    """Functions of numpy, SciPy and the C library are taken from `elementary`."""
    wrong = []
    names = {f"np.{name}" for name in (*ASSUMED, "exp2", "sinh", "cosh")}
    for path in Path(elementary.__file__).parent.glob("*.py"):
        if path.name == "elementary.py":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            own = isinstance(node, ast.Attribute) and ast.unparse(node) in names
            if own or (isinstance(node, ast.ImportFrom) and "scipy" in (node.module or "")):
                wrong.append(f"{path.name}: {ast.unparse(node)}")
    assert not wrong
