"""Bad arguments at the API: one sentence that names them, and an error of the library."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
from pyomo.environ import ConcreteModel

import lipyomo
from lipyomo import (
    AllSpace,
    Box,
    Layer,
    LinearOutput,
    LipschitzProblem,
    LipyomoError,
    Network,
    Polytope,
    Result,
    Settings,
    ball,
    functional,
    load,
    parse_output_norm,
    solve,
    sweep,
    to_onnx,
)
from lipyomo.analyses.compare import compare
from lipyomo.primal.regions import interior_point, side_by_side
from lipyomo.solvers import solve_model

NETWORK = Network.from_arrays([[[2.0, 1.0], [-1.0, 0.5]], [[1.0, 1.0], [0.0, 1.0]]])
DOMAIN = Box(-1, 1, 2)
PROBLEM = LipschitzProblem(NETWORK, DOMAIN, functional=[1, 0])


def certify(network=NETWORK, inputs=((0.5, 0.5),), radius=0.1, **others):
    return lipyomo.certify_robustness(network, inputs, radius=radius, workers=1, **others)


def monotone(network=NETWORK, inputs=((0.5, 0.5),), radius=0.1, **others):
    asked = {"increasing": [0], "functional": [1.0, 0.0], "workers": 1}
    return lipyomo.check_monotone(network, inputs, radius, **asked | others)


BAD = {
    "path for a network": (lambda: LipschitzProblem("good.onnx", DOMAIN), "network"),
    "list for a domain": (lambda: LipschitzProblem(NETWORK, [0, 1]), "domain"),
    "truth for a margin": (lambda: LipschitzProblem(NETWORK, DOMAIN, margin=True), "margin"),
    "text for a margin": (lambda: LipschitzProblem(NETWORK, DOMAIN, margin="1"), "margin"),
    "truth for a functional": (
        lambda: LipschitzProblem(NETWORK, DOMAIN, functional=True),
        "functional",
    ),
    "complex functional": (
        lambda: LipschitzProblem(NETWORK, DOMAIN, functional=[1j, 1]),
        "functional",
    ),
    "number for a norm": (lambda: LipschitzProblem(NETWORK, DOMAIN, output_norm=3), "norm"),
    "two radii": (lambda: ball([0, 0], [1, 2]), "radius"),
    "text for a radius": (lambda: ball([0, 0], "1", "l2"), "radius"),
    "text for a center": (lambda: ball("ab", 1.0), "center"),
    "complex box": (lambda: Box([0j], [1j]), "box"),
    "negative dimension": (lambda: Box(0, 1, -2), "dimension"),
    "no dimension": (lambda: Box(0, 1, 0), "dimension"),
    "half a dimension": (lambda: AllSpace(2.5), "dimension"),
    "text for a polytope": (lambda: Polytope("A", "b"), "A"),
    "complex weights": (lambda: Network.from_arrays([[[1j, 2]]]), "weight"),
    "complex array of weights": (lambda: Layer(np.array([[1j]]), [0]), "weight"),
    "complex bias": (lambda: Layer([[1.0]], [1j]), "bias"),
    "numbers for layers": (lambda: Network([1, 2]), "layer"),
    "nothing for layers": (lambda: Network(None), "layers"),
    "number for weights": (lambda: Network.from_arrays(3), "weights"),
    "number for a model": (lambda: solve_model(3, "highs"), "model"),
    "dict for options": (lambda: solve_model(ConcreteModel(), "highs", {"threads": 1}), "options"),
    "number for a start": (lambda: solve_model(ConcreteModel(), "highs", start=3), "start"),
    "short functional": (lambda: NETWORK.gradients(np.zeros((3, 2)), [1]), "functionals"),
    "text for a point": (lambda: NETWORK.forward("abc"), "points"),
    "ragged points": (lambda: NETWORK.forward([[1, 2], [3]]), "points"),
    "pattern of nothing": (lambda: NETWORK.jacobian([]), "pattern"),
    "short pattern": (lambda: NETWORK.jacobian([np.array([True])]), "pattern"),
    "no problem": (lambda: solve(None), "problem"),
    "a network for a problem": (lambda: solve(NETWORK), "problem"),
    "unknown method": (lambda: solve(PROBLEM, "nope"), "nope"),
    "negative seed": (lambda: solve(PROBLEM, seed=-1), "seed"),
    "truth for a seed": (lambda: solve(PROBLEM, seed=True), "seed"),
    "unknown solver": (lambda: solve(PROBLEM, solver="nope"), "nope"),
    "text for a limit": (lambda: solve(PROBLEM, time_limit="three"), "time_limit"),
    "no number for a limit": (lambda: solve(PROBLEM, time_limit=np.nan), "time_limit"),
    "text for a gap": (lambda: solve(PROBLEM, gap="0.1"), "gap"),
    "half a thread": (lambda: solve(PROBLEM, workers=1.5), "workers"),
    "no formulation": (lambda: solve(PROBLEM, formulation=None), "formulation"),
    "unknown bounds": (lambda: solve(PROBLEM, bounds="milp"), "bounds"),
    "misspelt setting": (lambda: solve(PROBLEM, timelimit=3), "time_limit"),
    "list of options": (lambda: solve(PROBLEM, options=[1]), "options"),
    "number for a callback": (lambda: solve(PROBLEM, progress=3), "progress"),
    "truth for a callback": (lambda: solve(PROBLEM, should_stop=True), "should_stop"),
    "text for a truth": (lambda: solve(PROBLEM, rational="yes"), "rational"),
    "no solvers file": (lambda: solve(PROBLEM, "mip", solvers_file="/none/s.toml"), "s.toml"),
    "dict for settings": (lambda: solve(PROBLEM, "auto", {"time_limit": 3}), "settings"),
    "matrix for a functional": (lambda: functional([[1, 2]]), "functional"),
    "text for a dual ball": (lambda: LinearOutput(vertices="a"), "vertices"),
    "number for the name of a norm": (lambda: parse_output_norm(3), "norm"),
    "nothing for a path": (lambda: load(None), "path"),
    "nothing to write": (lambda: to_onnx(None), "network"),
    "no folder to write to": (lambda: to_onnx(NETWORK, "/none/x.onnx"), "none"),
    "a number for a clip box": (lambda: ball([0, 0], 1.0, "linf", 3), "clip"),
    "a number for the box of a ball": (lambda: ball([0, 0], 1.0, "l2", 3), "clip"),
    "two dual balls": (lambda: LinearOutput(vertices=[[1, 2]], A=[[1, 2]]), "either"),
    "an odd digit for a label": (lambda: parse_output_norm("cross(\u00b2)"), "norm"),
    "a number for biases": (lambda: Network.from_arrays([[[1.0]]], 3), "biases"),
    "a number for a pattern": (lambda: NETWORK.jacobian(3), "pattern"),
    "a number for an executor": (lambda: solve(PROBLEM, executor=3), "executor"),
    "a number for a scheduler": (lambda: solve(PROBLEM, dask=3), "dask"),
    "a number for a checkpoint": (lambda: solve(PROBLEM, checkpoint=3), "checkpoint"),
    "a number for resuming": (lambda: solve(PROBLEM, resume=1), "resume"),
    "nothing to resume": (lambda: solve(PROBLEM, resume=True), "checkpoint"),
    "text for a beginning": (lambda: solve(PROBLEM, started="now"), "started"),
    "a number for problems": (lambda: sweep(3), "problems"),
    "an unknown method in a sweep": (lambda: sweep([PROBLEM], "nope"), "nope"),
    "a misspelt setting in a sweep": (lambda: sweep([PROBLEM], timelimit=3), "time_limit"),
    "a dict for settings of a sweep": (lambda: sweep([PROBLEM], settings={}), "settings"),
    "text for workers": (lambda: sweep([PROBLEM], workers="2"), "workers"),
    "a path to no classifier": (lambda: certify("net.onnx"), "net.onnx"),
    "text for inputs": (lambda: certify(inputs="abc"), "inputs"),
    "text for labels": (lambda: certify(labels=["a"]), "labels"),
    "text for the radius": (lambda: certify(radius="1"), "radius"),
    "text for the limit": (lambda: certify(time_limit="soon"), "time"),
    "a negative seed of attacks": (lambda: certify(seed=-1), "seed"),
    "a number for a methods": (lambda: certify(methods=3), "methods"),
    "a number for valid inputs": (lambda: certify(clip=3), "clip"),
    "a path to no monotone network": (lambda: monotone("net.onnx"), "net.onnx"),
    "text for rows": (lambda: monotone(inputs=[["a", 1]]), "inputs"),
    "text for half widths": (lambda: monotone(radius="x"), "radius"),
    "a number for increasing inputs": (lambda: monotone(increasing=3), "increasing"),
    "text for a functional": (lambda: monotone(functional="x"), "functional"),
    "a number for a box of inputs": (lambda: monotone(clip=3), "clip"),
    "a number for a shape": (lambda: Network(NETWORK.layers, input_shape=2), "shape"),
    "text for a shape": (lambda: Network(NETWORK.layers, output_shape="ab"), "shape"),
    "text for points of a domain": (lambda: DOMAIN.contains("x"), "points"),
    "points of another width": (lambda: DOMAIN.contains([1, 2, 3]), "points"),
    "a network for networks": (lambda: side_by_side(NETWORK), "networks"),
    "a number among networks": (lambda: side_by_side([NETWORK, 3]), "network"),
    "a short pattern of a region": (
        lambda: interior_point(NETWORK, DOMAIN, [np.ones(1, dtype=bool)]),
        "pattern",
    ),
    "a domain of another width": (
        lambda: interior_point(NETWORK, AllSpace(3), [np.ones(2, dtype=bool)]),
        "domain",
    ),
    "text for a truth of the MIP": (
        lambda: solve(PROBLEM, "mip", options={"partition": "no"}),
        "partition",
    ),
    "a number to compare": (lambda: compare(3, ["naive"]), "problem"),
    "text for jobs": (lambda: compare(PROBLEM, ["naive"], jobs="2"), "jobs"),
    "text for memory": (lambda: compare(PROBLEM, ["naive"], memory_limit="plenty"), "memory"),
    "a number for options of methods": (lambda: compare(PROBLEM, options=3), "options"),
    "no result": (lambda: Result.from_dict({}), "lower"),
    "a number for a result": (lambda: Result.from_dict(3), "result"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_named(name):
    call, word = BAD[name]
    with pytest.raises(LipyomoError) as caught:
        call()
    assert word in str(caught.value)


def test_a_setting_without_effect_is_said():
    found = solve(PROBLEM, "bnb", solver="highs", formulation="tangent")
    assert [note for note in found.warnings if note.startswith("solver was not used")]
    assert [note for note in found.warnings if note.startswith("formulation was not used")]


def test_settings_and_keywords_mean_the_same():
    settings = Settings(seed=3, gap=0.1)
    first, second = solve(PROBLEM, "bnb", settings), solve(PROBLEM, "bnb", seed=3, gap=0.1)
    assert (first.lower, first.upper) == (second.lower, second.upper)


def test_verbose_prints_the_result(capsys):
    found = solve(PROBLEM, "bnb", verbose=True)
    shown = capsys.readouterr().out
    assert found.summary() in shown
    assert lipyomo.solve(PROBLEM, "bnb").lower == found.lower


def test_a_checkpoint_may_be_named_by_text(tmp_path):
    name = str(tmp_path / "run.checkpoint")
    assert solve(PROBLEM, "bnb", checkpoint=name).is_exact
    assert Settings(checkpoint=name).checkpoint == tmp_path / "run.checkpoint"


def test_in_notebooks_progress_is_one_line(capsys, monkeypatch):
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    solve(PROBLEM, "bnb", verbose=True)
    progress, *summary = capsys.readouterr().out.split("\n")
    assert progress.count("\rlower ") == progress.count("lower ") > 0
    assert any("bnb" in line for line in summary)
