"""What pages name can be imported, and what those of version 0.3 named as well."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import lipyomo
from lipyomo.base.modules import NOW

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOTTED = re.compile(r"(?<![\w./-])lipyomo(?:_check)?(?:\.[A-Za-z_]\w*)+(?![\w/])")
IMPORT = re.compile(r"from (lipyomo[\w.]*) import (?:\(([^)]*)\)|(.+))")
FORMER = [
    "activations",
    "activations.activation",
    "activations.branch",
    "activations.registry",
    "activations.rounding",
    "bounds",
    "compare.compare",
    "domains.vnnlib.read_vnnlib",
    "errors.ProblemError",
    "maps.Cells",
    "maps.MapSettings",
    "maps.cells_of",
    "maps.grid",
    "maps.plot_map",
    "methods.method",
    "methods.support",
    "network.Layer",
    "networks.difference",
    "networks.unroll",
    "numerics.pace",
    "onnx.check_against_runtime",
    "onnx.lower.registry",
    "onnx.to_onnx",
    "proofs.write_proof",
    "reduce.freeze.freeze",
    "reduce.merge.merge",
    "reduce.presolve",
    "regions.interior_point",
    "regions.joint_interior_point",
    "run.Clock",
    "run.Run",
    "sampling.evaluate",
    "search.engine.Engine",
    "search.protocol",
    "search.relu.context.Question",
    "search.relu.heuristics.heuristic",
    "search.relu.learnt.FEATURES",
    "search.relu.pipeline.Pipeline",
    "search.relu.score.branching_rule",
    "search.smooth",
    "semidefinite.signs",
    "solvers.adapter",
    "solvers.solve_model",
    "blocks.LipschitzBlock",
]
"""What pages of 0.3 named, without the package's own name."""


def named() -> set[str]:
    """Dotted names of all pages."""
    found: set[str] = set()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        found |= set(DOTTED.findall(text))
        for module, inside, after in IMPORT.findall(text):
            names = re.findall(r"(\w+)(?: as \w+)?(?:,|$)", (inside or after).split("#")[0].strip())
            found |= {f"{module}.{name}" for name in names}
    return found


def imported(name: str) -> object:
    """The module, or the attribute of one, of such a name."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def test_pages_name_enough() -> None:
    assert len(named()) > 60


@pytest.mark.parametrize("name", sorted(named()))
def test_what_a_page_names_can_be_imported(name: str) -> None:
    imported(name)


@pytest.mark.parametrize("name", FORMER)
def test_what_pages_of_before_named_can_be_imported(name: str) -> None:
    imported(f"lipyomo.{name}")


@pytest.mark.parametrize("name", ["context.Question", "pipeline.Pipeline"])
def test_former_names_of_classes_lead_to_these(name: str) -> None:
    found = imported(f"lipyomo.search.relu.{name}")
    assert getattr(found, "__name__", "") == f"Phase{name.partition('.')[2]}"


@pytest.mark.parametrize("name", ["solvers.Progress", "analyses.certification.Verdict"])
def test_former_names_of_packages_lead_to_these_with_a_warning(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=name):
        found = imported(f"lipyomo.{name}")
    assert getattr(found, "__name__", "") in ("SolveProgress", "RobustnessVerdict")


@pytest.mark.parametrize("former_first", [True, False])
def test_a_former_path_leads_to_the_same_module(former_first: bool) -> None:
    """Not to a copy of it, with classes and tables of its own."""
    pairs = [[f"lipyomo.{former}", f"lipyomo.{now}"] for former, now in NOW.items()]
    pairs.append(["lipyomo.onnx.lower.registry", "lipyomo.formats.onnx.lower.registry"])
    if not former_first:
        pairs = [pair[::-1] for pair in pairs]
    code = "import sys; from importlib import import_module as load; print([\n"
    code += f"load(one) is load(two) for one, two in {pairs}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == f"{[True] * len(pairs)}\n", done.stderr


def test_other_paths_are_refused_as_ever() -> None:
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        import_module("lipyomo.nowhere")
    with pytest.raises(ModuleNotFoundError):
        import_module("lipyomo.onnx.nowhere")
    assert not hasattr(lipyomo, "nowhere")


def test_a_former_path_of_a_module_does_not_hide_the_function_of_its_name() -> None:
    code = """
import importlib, inspect
import lipyomo.activations
importlib.import_module("lipyomo.activations.activation")
assert inspect.isfunction(lipyomo.activations.activation)
assert inspect.isfunction(lipyomo.activation)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
