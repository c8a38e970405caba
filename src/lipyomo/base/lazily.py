"""Names and modules of a package that are imported when they are first used."""

# Only what Python itself has loaded is imported: this comes first (see `lipyomo/__init__.py`).
import sys
from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any


def imported_when_used(
    package: str, homes: "Mapping[str, Sequence[str]]"
) -> "tuple[Callable[[str], Any], Callable[[], list[str]]]":
    """The functions ``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : mapping
        From modules, as `import_module` takes them for this package, to the public names that
        are found there.
    """
    home = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> "Any":
        if name not in home:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(home[name], package), name)

    def listed() -> "list[str]":
        return sorted({*vars(sys.modules[package]), *home})

    return get, listed


def module_names(package: str) -> "list[str]":
    """Names of the modules of a package, none of which is imported for it."""
    from pkgutil import iter_modules

    return [module.name for module in iter_modules(import_module(package).__path__)]


def import_modules(package: str) -> None:
    """Import all modules of a package, so that each has entered what it has in a table."""
    for name in module_names(package):
        import_module(f"{package}.{name}")
