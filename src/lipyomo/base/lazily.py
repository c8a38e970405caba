"""Names of a package that are imported when they are first used."""

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
