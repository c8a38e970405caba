"""Imports point one way: no circle between modules, and rooms import only those listed above."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import lipyomo

ROOT = Path(lipyomo.__file__).resolve().parent

ORDER = [
    "version",
    "errors",
    "quantities",
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
    "naming",
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


def imports(path: Path, for_types: bool = False) -> set[str]:
    """Modules of the package that a file imports, also inside functions, perhaps for types only."""
    tree = ast.parse(path.read_text("utf-8"))
    left_out = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test) and not for_types
        for statement in node.body
        for inner in ast.walk(statement)
    }
    found = set()
    for node in ast.walk(tree):
        if node in left_out:
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


@pytest.mark.parametrize("for_types", [False, True])
def test_no_circles_between_modules(for_types: bool) -> None:
    graph = {name: imports(path, for_types) - {name} for name, path in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
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


@pytest.mark.parametrize(
    ("folder", "others"),
    [("experiments", {"models", "tests"}), ("src", {"experiments", "models", "tests"})],
)
def test_experiments_and_models_are_imported_one_way(folder: str, others: set[str]) -> None:
    """Scripts in `models` train with what is in `experiments`; nothing goes back."""
    repository = Path(__file__).resolve().parents[2]
    wrong = []
    for path in (repository / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [str(node.module)]
            wrong += [f"{path.name} imports {n}" for n in names if n.split(".")[0] in others]
    assert not wrong
