"""The installed package: metadata, files, cheap imports, documentation of public names."""

from __future__ import annotations

import ast
import configparser
import importlib
import importlib.metadata
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import lipyomo

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "lipyomo"
INSTALLED = Path(lipyomo.__file__).resolve().parent
OPTIONAL = {"torch", "sklearn", "dask", "distributed", "omlt", "matplotlib"}
HEAVY = ("cvxpy", "onnx", "onnxruntime", "pyomo", "highspy", "scipy.optimize", "matplotlib", "rich")


def test_metadata() -> None:
    found = importlib.metadata.metadata("lipyomo")
    assert found["Version"] == lipyomo.__version__
    assert found["Requires-Python"] == ">=3.11"
    assert "BSD-3-Clause" in (found.get("License-Expression"), found.get("License"))
    extras = set(found.get_all("Provides-Extra") or [])
    assert extras >= {"gurobi", "cplex", "cbc", "scip", "plot", "test", "docs", "torch"}


def test_the_command_is_installed() -> None:
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="lipyomo")
    assert callable(entry.load())


def test_every_source_file_is_installed() -> None:
    missing = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and not (INSTALLED / path.relative_to(SOURCE)).is_file()
    ]
    assert not missing, missing


def test_data_files_are_declared() -> None:
    """A file that is no module reaches the wheel only if setup.cfg names it."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    patterns = setup["options.package_data"]["lipyomo"].split()
    declared = {path for pattern in patterns for path in SOURCE.glob(pattern)}
    data = {
        path for path in SOURCE.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert data == declared
    assert SOURCE / "py.typed" in declared
    assert SOURCE / "solvers" / "solvers.toml" in declared


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for path in SOURCE.rglob("*.py")}
    assert all((folder / "__init__.py").exists() for folder in folders)


def _loaded_by(statement: str) -> set[str]:
    code = f"import json, sys; {statement}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "statement",
    [
        "import lipyomo",
        "import lipyomo.cli",
        "from lipyomo import Box, LipschitzProblem, Network, Settings, solve",
        "from lipyomo.methods import methods; methods()",
    ],
)
def test_imports_stay_cheap(statement: str) -> None:
    assert not _loaded_by(statement) & set(HEAVY)


def _modules() -> list[ModuleType]:
    """All modules of the package, but those of extras that are not installed."""
    found = [lipyomo]
    for info in pkgutil.walk_packages(lipyomo.__path__, "lipyomo."):
        if info.name == "lipyomo.__main__":
            continue
        try:
            found.append(importlib.import_module(info.name))
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] not in OPTIONAL:
                raise
    return found


def _public(module: ModuleType) -> list[tuple[str, object]]:
    """Functions and classes that a module defines under a public name, and their members."""
    found: list[tuple[str, object]] = []
    for name, thing in vars(module).items():
        if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(thing) or inspect.isclass(thing):
            found.append((f"{module.__name__}.{name}", thing))
        if inspect.isclass(thing):
            for member, value in vars(thing).items():
                if member.startswith("_"):
                    continue
                if isinstance(value, classmethod | staticmethod):
                    value = value.__func__
                if inspect.isfunction(value) or isinstance(value, property):
                    found.append((f"{module.__name__}.{name}.{member}", value))
    return found


def test_every_public_name_has_a_docstring() -> None:
    bare = [module.__name__ for module in _modules() if not (module.__doc__ or "").strip()]
    for module in _modules():
        bare += [name for name, thing in _public(module) if not _documented(thing)]
    assert not bare, bare


def _documented(thing: object) -> bool:
    """Whether `thing` has a docstring that was written, not made by ``@dataclass``."""
    text = inspect.getdoc(thing) or ""
    return bool(text.strip()) and not text.startswith(f"{getattr(thing, '__name__', '')}(")


@pytest.mark.parametrize("name", sorted(set(lipyomo.__all__) - {"__version__"}))
def test_parameters_of_the_main_names_are_documented(name: str) -> None:
    thing = getattr(lipyomo, name)
    if not (inspect.isfunction(thing) or inspect.isclass(thing)):
        return
    try:
        signature = inspect.signature(thing)
    except ValueError:
        return
    if inspect.isclass(thing) and issubclass(thing, str | Exception):
        return
    text = inspect.getdoc(thing) or ""
    missing = [
        parameter
        for parameter in signature.parameters
        if not re.search(rf"\b{re.escape(parameter)}\b", text)
    ]
    assert not missing, f"{name}: {missing}"


def test_all_names_can_be_imported() -> None:
    for name in lipyomo.__all__:
        assert getattr(lipyomo, name) is not None
    assert set(lipyomo.__all__) <= set(dir(lipyomo))
    with pytest.raises(AttributeError):
        _ = lipyomo.no_such_name


def test_names_that_are_imported_when_used_are_those_of_no_module() -> None:
    """A module that has been imported would stand where a function of its name is looked for."""
    for package in _modules():
        if "__getattr__" in vars(package):
            assert set(package.__all__) <= set(dir(package))
            for name in package.__all__:
                found = getattr(package, name)
                assert not inspect.ismodule(found) or package is lipyomo, (package, name)


SHARED = {"of every folder": {"Params"}}
"""Names of several public classes, which are the same part of different things."""


@cache
def _defined() -> list[tuple[type[ast.AST], str]]:
    """Kinds and names of what stands at the top of the package's files."""
    return [
        (type(node), node.name)
        for path in SOURCE.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    ]


def repeated(kind: type[ast.ClassDef | ast.FunctionDef]) -> set[str]:
    """Names of several public classes, or functions, of the package."""
    names = [name for own, name in _defined() if own is kind and not name.startswith("_")]
    return {name for name in names if names.count(name) > 1}


def test_classes_have_names_of_their_own() -> None:
    assert repeated(ast.ClassDef) == set().union(*SHARED.values())


SAME = {
    "what a command, or a method, does": {"run"},
    "why a method is not for a problem": {"refuses"},
    "hands a model to a solver": {"pass_model"},
    "of a search space": {"split"},
    "public in two wings": {"register"},
}
"""Names of several public functions, which do the same for different things."""


def test_functions_have_names_of_their_own() -> None:
    assert repeated(ast.FunctionDef) == set().union(*SAME.values())


SET_UP = {"blocks/base.py", "solvers/gurobi.py", "solvers/highs.py"}
"""Files that set attributes of Pyomo's objects, and of solvers'."""


def test_functions_set_no_attributes_of_what_they_are_given() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        suspect = re.search(r"^ +(?!self\.)\w+[.\[][^=\n]*= |(set|del)attr", text, re.M)
        for function in ast.walk(ast.parse(text)) if suspect else ():  # few are worth parsing
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                taken = function.args
                every = taken.posonlyargs + taken.args + taken.kwonlyargs
                given = {one.arg for one in every} - {"self", "cls"}
                if any(name in given for name in _with_set_attributes(function)):
                    found.add(path.relative_to(SOURCE).as_posix())
    assert found == SET_UP


SETTERS = {"setattr", "delattr", "object.__setattr__", "object.__delattr__"}


def _with_set_attributes(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Names of things of which a function sets or deletes attributes."""
    for node in ast.walk(function):
        thing: ast.expr | None = None
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            thing = node.value
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in SETTERS:
            thing = node.args[0]
        while isinstance(thing, ast.Attribute | ast.Subscript):
            thing = thing.value
        if isinstance(thing, ast.Name):
            yield thing.id
