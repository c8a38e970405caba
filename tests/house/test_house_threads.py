"""Whatever computes is declared to have one thread of linear algebra, or is listed here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module

import pytest

from lipyomo.analyses.certification import Classifier
from lipyomo.analyses.sweeps import Sweep
from lipyomo.base.system import parallel
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.blocks.base import FormulationBlockData
from lipyomo.cli import main
from lipyomo.methods import methods
from lipyomo.relaxations.cascade import Cascade
from lipyomo.search.engine import workers
from lipyomo.search.engine.engine import Engine

MODULES = (
    "lipyomo",
    "lipyomo.networks.activations",
    "lipyomo.blocks",
    "lipyomo.relaxations.linear",
    "lipyomo.analyses.certification",
    "lipyomo.analyses.compare",
    "lipyomo.problems.domains",
    "lipyomo.formats.importers",
    "lipyomo.analyses.maps",
    "lipyomo.methods",
    "lipyomo.networks",
    "lipyomo.formats.onnx",
    "lipyomo.proofs",
    "lipyomo.primal.regions",
    "lipyomo.solvers",
)  # fmt: skip

EXEMPT = {
    "names and parameters": {
        "activation", "activations", "known_as", "Silu", "QuickGelu", "functional",
        "parse_output_norm", "ball",
        "get_method", "method", "methods", "register", "default_methods", "cells_of", "grid",
        "available_solvers", "choose_solver", "get_solver", "load_settings", "solver_table",
        "network_digest", "joint_pattern",
    },
    "rows and pictures": {
        "plot_rows", "plot_map", "reference_interval", "to_csv", "to_json", "with_errors",
    },
    "products of a few matrices, maybe large": {
        "affine_after", "compose", "difference", "quantised_difference", "parallel", "unroll",
        "side_by_side",
        "directional", "gradient", "hessian", "jacobian", "product", "quotient", "residual",
        "square", "lie_network", "smoothness_problem",
    },
    "does it where it works": {
        "solve",  # once its clock runs
        "compare",  # in processes of its own
        "add_network", "rebuild",  # block by block: FormulationBlockData._write
    },
}  # fmt: skip
"""Public functions without the decorator, by what they do."""


def _functions() -> dict[str, object]:
    found: dict[str, object] = {}
    for place in MODULES:
        module = import_module(place)
        things = {name: getattr(module, name) for name in module.__all__}
        found |= {name: thing for name, thing in things.items() if inspect.isfunction(thing)}
    return found


DECORATED = with_one_blas_thread(len).__code__


def has_one_blas_thread(function: Callable[..., object]) -> bool:
    """Whether a function is decorated, beneath other decorators too."""
    found = inspect.unwrap(function, stop=lambda each: each.__code__ is DECORATED)
    return found.__code__ is DECORATED


def test_public_functions_have_one_thread_of_linear_algebra() -> None:
    functions = _functions()
    without = {name for name, thing in functions.items() if not has_one_blas_thread(thing)}
    assert without == set().union(*EXEMPT.values())


@pytest.mark.parametrize(
    "thing",
    [
        Engine.run, Cascade.run, Classifier.global_constants, FormulationBlockData._write,
        Sweep.__next__, main._dispatch, workers.work, parallel._called, parallel.Carried.__call__,
    ],
    ids=lambda thing: thing.__qualname__,
)  # fmt: skip
def test_what_else_computes_has_it(thing: object) -> None:
    assert has_one_blas_thread(thing)


def test_methods_have_it_also_where_they_are_called_directly() -> None:
    assert not [name for name, method in methods().items() if not has_one_blas_thread(method.run)]
