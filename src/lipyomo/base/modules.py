"""Lazy imports, and imports by former paths.

The module paths documented up to version 0.3 still lead to the same modules.
"""

# Imports only what Python has loaded at start-up: this is imported first (`lipyomo/__init__.py`).
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False  # as type checkers know it
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.abc import Loader
    from types import ModuleType
    from typing import Any
else:
    Loader = object


def imported_when_used(
    package: str, homes: "Mapping[str, Sequence[str]]"
) -> "tuple[Callable[[str], Any], Callable[[], list[str]]]":
    """Return ``__getattr__`` and ``__dir__`` of a package that imports names at first use.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : mapping
        From modules, as `import_module` takes them for this package, to their public names; to
        no names if the module itself is public.
    """
    home = {name: module for module, names in homes.items() for name in names}
    modules = {module.rpartition(".")[2]: module for module, names in homes.items() if not names}

    def get(name: str) -> "Any":
        if name in modules:
            return import_module(modules[name], package)
        if name not in home:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        found = getattr(import_module(home[name], package), name)
        vars(sys.modules[package])[name] = found
        return found

    def listed() -> "list[str]":
        return sorted({*vars(sys.modules[package]), *home})

    return get, listed


def module_names(package: str) -> "list[str]":
    """Return the names of a package's modules without importing them."""
    from pkgutil import iter_modules

    return [module.name for module in iter_modules(import_module(package).__path__)]


def import_modules(package: str) -> None:
    """Import all modules of a package, so that each one registers its contents."""
    for name in module_names(package):
        import_module(f"{package}.{name}")


NOW = {
    "activations": "networks.activations",
    "activations.registry": "networks.activations.activation",
    "bounds": "relaxations.linear",
    "compare": "analyses.compare",
    "domains": "problems.domains",
    "errors": "base.errors",
    "maps": "analyses.maps",
    "network": "networks.network",
    "numerics": "base.numerics",
    "numerics.pace": "base.clock",
    "onnx": "formats.onnx",
    "reduce": "problems.reductions",
    "reduce.freeze": "problems.reductions.merge",
    "regions": "primal.regions",
    "run": "problems.run",
    "sampling": "primal.heuristics",
    "search.protocol": "search.engine.protocol",
    "search.relu": "search.spaces.phases",
    "search.relu.learnt": "search.spaces.phases.statistics",
    "search.smooth": "search.spaces.boxes",
    "semidefinite": "relaxations.semidefinite",
}
"""Current paths of modules by former paths; a package's modules have moved along with it."""


def present_path(path: str) -> str | None:
    """Return the current path of a former one; None for any other path."""
    package, _, rest = path.partition(".")
    parts = rest.split(".")
    for count in (3, 1, 2) if package == "lipyomo" else ():
        now = NOW.get(".".join(parts[:count]))
        if now is not None:
            return ".".join(["lipyomo", now, *parts[count:]])
    return None


class FormerPaths(Loader):
    """Finder and loader of modules by former paths: the same modules, not copies."""

    def find_spec(
        self, path: str, places: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> ModuleSpec | None:
        """Return a spec if the path is a former one."""
        return None if present_path(path) is None else ModuleSpec(path, self)

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None, which selects the default module object."""

    def exec_module(self, module: "ModuleType") -> None:
        """Replace the module of the former path by that of the current path."""
        now = present_path(module.__name__)
        assert now is not None
        sys.modules[module.__name__] = import_module(now)
        # Register its loaded submodules too: a submodule that is loaded again would replace the
        # function of the same name in the package (`activations.activation`).
        for name, part in list(sys.modules.items()):
            if name.startswith(now + "."):
                sys.modules.setdefault(module.__name__ + name[len(now) :], part)


def know_former_paths() -> None:
    """Enable imports by former paths; no module is loaded by this."""
    sys.meta_path.insert(0, FormerPaths())
