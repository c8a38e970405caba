"""Imports point one way: no circle between modules, and a wing imports only those before it."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import lipyomo

ROOT = Path(lipyomo.__file__).resolve().parent
REPOSITORY = Path(__file__).resolve().parents[2]

WINGS = [
    "base",
    "networks",
    "problems",
    "formats",
    "relaxations",
    "primal",
    "search",
    "solvers",
    "blocks",
    "mip",
    "proofs",
    "methods",
    "analyses",
    "cli",
]
"""Folders of the package; each imports only from those before it."""

OTHERS = ["lipyomo_check", "experiments", "models"]
"""Packages beside this one in the repository."""


def name_of(path: Path) -> str:
    parts = ("lipyomo", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}
NAMES = frozenset(MODULES)


@cache
def import_statements(path: Path) -> list[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Those of a file, also inside functions, and whether they are for type checkers only."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    only_for_types = {
        inner
        for node in nodes
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    return [
        (node, node in only_for_types)
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]


@cache
def imports(path: Path, for_types: bool = False) -> set[str]:
    """Modules of the package that a file imports, also inside functions, perhaps for types only."""
    found = set()
    for node, only_for_types in import_statements(path):
        if only_for_types and not for_types:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif node.module is not None and node.level == 0:
            inner_modules = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner_modules & NAMES
            if not inner_modules <= NAMES:
                found.add(node.module)
    return found & NAMES


def wing_of(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


@pytest.mark.parametrize("for_types", [False, True])
def test_no_circles_between_modules(for_types: bool) -> None:
    graph = {name: imports(path, for_types) - {name} for name, path in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        pytest.fail(f"modules import each other: {' <- '.join(circle.args[1])}")


def test_the_package_has_few_entries() -> None:
    """What `ls` shows of it."""
    shown = [path for path in ROOT.iterdir() if path.name != "__pycache__"]
    folders = {path.name for path in shown if path.is_dir()}
    assert folders == set(WINGS)
    assert len(folders) <= 14
    assert len(shown) - len(folders) <= 8


@pytest.mark.parametrize("wing", WINGS)
def test_a_wing_imports_only_from_wings_before_it(wing: str) -> None:
    """Names for type checkers count, too."""
    allowed = {"version", *WINGS[: WINGS.index(wing) + 1]}
    wrong = [
        f"{name} imports {other}"
        for name, path in MODULES.items()
        if wing_of(name) == wing
        for other in sorted(imports(path, for_types=True))
        if wing_of(other) not in allowed
    ]
    assert any(wing_of(name) == wing for name in MODULES)
    assert not wrong


def _entries() -> dict[str, set[str]]:
    """What each entry imports: wings and files of the package, and the packages beside it."""
    places = {"lipyomo": ROOT} | {
        name: (REPOSITORY / "src" / name if name == "lipyomo_check" else REPOSITORY / name)
        for name in OTHERS
    }
    graph: dict[str, set[str]] = {}
    for package, folder in places.items():
        for path in folder.rglob("*.py"):
            inner = path.relative_to(folder).parts[0].removesuffix(".py")
            entry = inner if package == "lipyomo" else package
            found = graph.setdefault(entry, set())
            for node, _ in import_statements(path):
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif node.level == 0 and node.module:
                    names = [f"{node.module}.{alias.name}" for alias in node.names]
                else:
                    continue
                for name in names:
                    first, _, rest = name.partition(".")
                    if first == "lipyomo":
                        second = rest.split(".")[0]
                        known = second in WINGS or (ROOT / f"{second}.py").exists()
                        found.add(second if known else "__init__")
                    elif first in OTHERS:
                        found.add(first)
    return {entry: found - {entry} for entry, found in graph.items()}


def test_the_whole_is_easy_to_survey() -> None:
    """Few entries on few floors (each stands above all that it imports), with few arrows."""
    graph = _entries()
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError at a circle
    floors: dict[str, int] = {}
    for entry in order:
        floors[entry] = 1 + max((floors[other] for other in graph[entry]), default=0)
    assert len(order) <= 20
    assert max(floors.values()) <= 12
    assert 50 < sum(map(len, graph.values())) <= 100


def test_the_engine_of_searches_knows_no_networks() -> None:
    """Every file of it imports `lipyomo.base` and its own folder alone, for types as well."""
    own = "lipyomo.search.engine"
    engine = [name for name in MODULES if name == own or name.startswith(f"{own}.")]
    wrong = [
        f"{name} imports {other}"
        for name in engine
        for other in sorted(imports(MODULES[name], for_types=True))
        if wing_of(other) != "base" and other != own and not other.startswith(f"{own}.")
    ]
    assert len(engine) > 6
    assert not wrong


@pytest.mark.parametrize(
    ("folder", "others"),
    [("experiments", {"models", "tests"}), ("src", {"experiments", "models", "tests"})],
)
def test_experiments_and_models_are_imported_one_way(folder: str, others: set[str]) -> None:
    """Scripts in `models` train with what is in `experiments`; nothing goes back."""
    wrong = []
    for path in (REPOSITORY / folder).rglob("*.py"):
        for node, _ in import_statements(path):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [str(node.module)]
            wrong += [f"{path.name} imports {n}" for n in names if n.split(".")[0] in others]
    assert not wrong
