"""Imports point one way: no circle between modules, and rooms import only those listed above."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import lipyomo
from lipyomo.domains import Domain
from lipyomo.norms import OutputNorm

ROOT = Path(lipyomo.__file__).resolve().parent

ORDER = [
    "version",
    "errors",
    "arguments",
    "system",
    "pictures",
    "data",
    "frozen",
    "arrays",
    "numerics",
    "activations",
    "layer",
    "fusing",
    "network",
    "networks",
    "digest",
    "phases",
    "decimals",
    "norms",
    "operator_norm",
    "domains",
    "directions",
    "magnitudes",
    "affine",
    "reduce",
    "problem",
    "history",
    "result",
    "settings",
    "run",
    "ranges",
    "onnx",
    "importers",
    "bounds",
    "regions",
    "sampling",
    "targets",
    "cascade",
    "semidefinite",
    "search",
    "solvers",
    "blocks",
    "mip",
    "methods",
    "proofs",
    "api",
    "maps",
    "questions",
    "quick",
    "compare",
    "sweeps",
    "certification",
    "cli",
    "__main__",
]
"""The rooms; each may import from those before it.  The package's own `__init__` imports lazily."""


def name_of(path: Path) -> str:
    parts = ("lipyomo", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}


def imports(path: Path) -> set[str]:
    """Modules of the package that a file imports, also inside functions, but not for types only."""
    tree = ast.parse(path.read_text("utf-8"))
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    found = set()
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            inner_modules = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner_modules & set(MODULES)
            if not inner_modules <= set(MODULES):
                found.add(node.module)
    return found & set(MODULES)


GRAPH = {name: imports(path) - {name} for name, path in MODULES.items()}


def room_of(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


def test_no_circles_between_modules():
    try:
        TopologicalSorter(GRAPH).prepare()
    except CycleError as circle:
        pytest.fail(f"modules import each other: {' <- '.join(circle.args[1])}")


def test_every_room_has_its_place():
    rooms = {room_of(name) for name in MODULES} - {""}
    assert rooms == set(ORDER)


@pytest.mark.parametrize("room", ORDER)
def test_a_room_imports_only_from_rooms_before_it(room):
    place = ORDER.index(room)
    wrong = [
        f"{name} imports {other}"
        for name, others in GRAPH.items()
        if room_of(name) == room
        for other in sorted(others)
        if room_of(other) and ORDER.index(room_of(other)) > place
    ]
    assert not wrong


def test_the_engine_of_searches_knows_no_networks() -> None:
    """What searches is told by a pipeline: the engine itself imports nothing that comes later."""
    place = ORDER.index("run")
    engine = [name for name in MODULES if name.count(".") == 2 and room_of(name) == "search"]
    wrong = [
        f"{name} imports {other}"
        for name in engine
        for other in sorted(GRAPH[name] - set(engine))
        if other != "lipyomo.search" and ORDER.index(room_of(other)) > place
    ]
    assert engine
    assert not wrong


def test_nobody_asks_what_kind_of_domain_or_norm_it_has() -> None:
    """Domains and output norms are told apart by their operations, in their own rooms only."""
    kinds = {kind.__name__ for base in (Domain, OutputNorm) for kind in _below(base)}
    asked = []
    for path in ROOT.rglob("*.py"):
        if path.parent.name == "domains" or path.name == "norms.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "type"):
                names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
                asked += [f"{path.name}:{node.lineno} asks for {n}" for n in names & kinds]
    assert len(kinds) >= 9
    assert asked == []


def _below(base: type) -> Iterator[type]:
    for kind in base.__subclasses__():
        yield kind
        yield from _below(kind)
