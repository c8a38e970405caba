"""The file ``solvers.toml``: back ends, common and native options, limits of free licences.

Files in the user's configuration folder, and those named by the user, may specify which programs
and modules are run.  A file that is merely found in the current folder is not trusted: it may only
set the order of solvers, tolerances, threads and limits.
"""

from __future__ import annotations

import math
import os
import sys
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from lipyomo.base.arguments import whole_number
from lipyomo.base.errors import SolverError
from lipyomo.base.system.outputs import shown, why
from lipyomo.solvers.options import KNOBS, Native, check_knob

FILE_NAME = "solvers.toml"
VARIABLE = "LIPYOMO_SOLVERS"
"""Environment variable with the path of a settings file."""

BACKENDS: Mapping[str, str] = {
    "highs": "lipyomo.solvers.highs:Highs",
    "gurobi": "lipyomo.solvers.gurobi:Gurobi",
    "cplex": "lipyomo.solvers.cplex:Cplex",
    "cbc": "lipyomo.solvers.cbc:Cbc",
    "scip": "lipyomo.solvers.scip:Scip",
}
"""Back ends of this package; others are given as ``module:Class``."""

_TOP = frozenset({"auto", "defaults", "solver"})
_ENTRY = frozenset({"backend", "executable", "install", "options", "free_limit", *KNOBS})
_LIMIT = frozenset({"rows", "columns"})


@dataclass(frozen=True)
class SolverEntry:
    """One ``[solver.NAME]`` table.

    Parameters
    ----------
    name : str
    backend : str
        A key of `BACKENDS`, or ``module:Class`` for any adapter of Pyomo's ``contrib.solver``.
    executable : str, optional
        The program, for back ends that run one: its path, or a name to be searched on the PATH.
    install : str
        The command that installs the solver.
    knobs : mapping
        Values of `SolverOptions` for this solver.
    options : mapping
        Native options.
    max_rows, max_columns : float
        Size limits of the free licence; not applied if a full licence is found.
    """

    name: str
    backend: str
    executable: str | None = None
    install: str = ""
    knobs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Native] = field(default_factory=dict)
    max_rows: float = math.inf
    max_columns: float = math.inf


@dataclass(frozen=True)
class SolverSettings:
    """The content of ``solvers.toml``.

    Parameters
    ----------
    source : str
        Origin of the settings, for messages.
    auto : tuple of str
        The order in which ``auto`` tries solvers.
    defaults : mapping
        Values of `SolverOptions` for every solver.
    entries : mapping
        Solvers by name.
    files : tuple of Path
        The files that were read in addition to the packaged one, without empty ones.
    """

    source: str
    auto: tuple[str, ...]
    defaults: Mapping[str, Any]
    entries: Mapping[str, SolverEntry]
    files: tuple[Path, ...] = ()

    @property
    def names(self) -> list[str]:
        """All solvers: those of ``auto`` in its order, then the others."""
        return [*self.auto, *(name for name in self.entries if name not in self.auto)]

    def entry(self, name: str) -> SolverEntry:
        """Return the entry of a solver, or raise `SolverError` with the known names."""
        try:
            return self.entries[name]
        except KeyError:
            known = ", ".join(sorted(self.entries))
            raise SolverError(
                f"no solver '{name}' in {self.source}; there are: auto, {known}"
            ) from None

    def knobs(self, name: str) -> dict[str, Any]:
        """Return the options of a solver merged with the defaults."""
        return {**self.defaults, **self.entry(name).knobs}


def user_file() -> Path | None:
    r"""Return the path of the user's ``solvers.toml``, which may not exist; None without a home.

    That is ``$XDG_CONFIG_HOME/lipyomo`` (``~/.config/lipyomo``), on macOS ``~/Library/Application
    Support/lipyomo``, on Windows ``%APPDATA%\lipyomo``.
    """
    variable = "APPDATA" if sys.platform == "win32" else "XDG_CONFIG_HOME"
    configured = Path(os.environ.get(variable, ""))
    if configured.is_absolute() and sys.platform != "darwin":
        return configured / "lipyomo" / FILE_NAME
    try:
        home = Path.home()
    except RuntimeError:
        return None
    places = {"darwin": "Library/Application Support", "win32": "AppData/Roaming"}
    return home / places.get(sys.platform, ".config") / "lipyomo" / FILE_NAME


def load_settings(path: str | Path | None = None) -> SolverSettings:
    """Read the settings.

    The packaged file is overridden by that of the user's configuration folder, and both by `path`.
    If that is not given, by the file named in the environment variable ``LIPYOMO_SOLVERS``,
    otherwise by ``solvers.toml`` in the current folder, which must not name programs or modules.

    Parameters
    ----------
    path : str or Path, optional

    Returns
    -------
    SolverSettings

    Raises
    ------
    SolverError
        If a file is missing, is not TOML, or has an unknown key or an invalid value, or if that of
        the current folder names a program; the message names the file and the key.
    """
    packaged = resources.files("lipyomo.solvers").joinpath(FILE_NAME).read_text("utf-8")
    empty, source = SolverSettings("", (), {}, {}), "the packaged solvers.toml"
    settings = _merge(empty, _parse(packaged, source), source, Path())
    own, here = user_file(), Path(FILE_NAME)
    if own is not None and not os.path.isfile(own):
        own = None
    if own is not None:
        settings = _laid_over(settings, own, str(own))
    named = os.environ.get(VARIABLE)
    if path is not None:
        return _laid_over(settings, Path(path), shown(path)[1:-1])
    if named:
        return _laid_over(settings, Path(named), f"{named} (of {VARIABLE})")
    if here.is_file() and not (own is not None and here.samefile(own)):
        return _laid_over(settings, here, f"./{here}", found=True)
    return settings


def _laid_over(
    settings: SolverSettings, path: Path, source: str, found: bool = False
) -> SolverSettings:
    """Override settings by those of a file; `found` if the user has not named it."""
    try:
        data = _parse(path.read_text("utf-8"), source)
    except (OSError, UnicodeDecodeError) as error:
        raise SolverError(f"cannot read {source}: {why(error)}") from None
    if not data:
        return settings
    merged = _merge(settings, data, source, path.absolute().parent)
    if found:
        _refuse_programs(data, source)
    return replace(merged, files=(*settings.files, path))


def _refuse_programs(data: dict[str, Any], source: str) -> None:
    """Refuse programs, modules and names of files in a file that the user has not named."""
    for name, table in data.get("solver", {}).items():
        options = table.get("options", {})
        wrong = [key for key in ("executable", "install") if key in table]
        wrong += ["backend"] * (table.get("backend", "cbc") not in BACKENDS)
        wrong += [f"options.{key}" for key, value in options.items() if isinstance(value, str)]
        if wrong:
            own = user_file()
            move = "" if own is None else f", or move it to {own}"
            raise SolverError(
                f"{source}: solver.{name}.{wrong[0]}: a file that lies in the current folder may "
                "not say which programs, modules or files are used.  Remedy: if you trust it, "
                f"name it (--solvers-file {FILE_NAME}, or {VARIABLE}={FILE_NAME}){move}; else "
                "remove it"
            )


def _parse(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SolverError(f"{source} is not valid TOML: {error}") from None


def _merge(base: SolverSettings, data: dict[str, Any], source: str, folder: Path) -> SolverSettings:
    """Override settings by the tables of one file, which take precedence."""
    _table(data, "", source, _TOP)
    common = _table(data.get("defaults", {}), "defaults", source, KNOBS)
    _check_knobs(common, "defaults", source)
    entries = {
        name: replace(entry, knobs={k: v for k, v in entry.knobs.items() if k not in common})
        for name, entry in base.entries.items()
    }
    for name, table in _table(data.get("solver", {}), "solver", source).items():
        if name == "auto":
            raise SolverError(f"{source}: solver.auto: the name 'auto' is taken")
        entries[name] = _entry(entries.get(name), name, table, source, folder)
    auto = data.get("auto", list(base.auto))
    if not isinstance(auto, list) or not all(isinstance(name, str) for name in auto):
        raise SolverError(f"{source}: auto must be a list of solver names")
    for name in auto:
        if name not in entries:
            known = ", ".join(sorted(entries))
            raise SolverError(f"{source}: auto: no solver '{name}'; there are: {known}")
    return SolverSettings(source, tuple(auto), {**base.defaults, **common}, entries, base.files)


def _entry(
    base: SolverEntry | None, name: str, given: Any, source: str, folder: Path
) -> SolverEntry:
    """Read one solver's table, which overrides an entry of the same name if there is one."""
    where = f"solver.{name}"
    table = _table(given, where, source, _ENTRY)
    if base is None:
        if "backend" not in table:
            raise SolverError(f"{source}: {where}.backend is missing")
        base = SolverEntry(name, "")
    changes: dict[str, Any] = {}
    for key in ("backend", "executable", "install"):
        if key in table:
            if not isinstance(table[key], str) or not table[key]:
                raise SolverError(f"{source}: {where}.{key} must be a non-empty string")
            changes[key] = table[key]
    if "executable" in changes:  # relative to the file's folder, absolute, or on the PATH
        text = changes["executable"]
        place = folder / os.path.expanduser(text)
        changes["executable"] = str(place) if len(Path(text).parts) > 1 or place.is_file() else text
        changes.setdefault("install", "")  # the old command would install another program
    backend = changes.get("backend", base.backend)
    if backend not in BACKENDS and backend.count(":") != 1:
        known = ", ".join(BACKENDS)
        raise SolverError(
            f"{source}: {where}.backend: '{backend}' is neither one of {known} nor 'module:Class'"
        )
    knobs = {key: value for key, value in table.items() if key in KNOBS}
    _check_knobs(knobs, where, source)
    changes["knobs"] = {**base.knobs, **knobs}
    options = _table(table.get("options", {}), f"{where}.options", source)
    for key, value in options.items():
        if not isinstance(value, str | int | float | bool):
            raise SolverError(f"{source}: {where}.options.{key} must be a string or a number")
    changes["options"] = {**base.options, **options}
    limit = _table(table.get("free_limit", {}), f"{where}.free_limit", source, _LIMIT)
    for key, value in limit.items():
        what = f"{source}: {where}.free_limit.{key}"
        changes[f"max_{key}"] = whole_number(value, what, SolverError)
    return replace(base, **changes)


def _table(
    value: Any, where: str, source: str, known: Collection[str] | None = None
) -> dict[str, Any]:
    """Check that a value is a table, with `known` keys only."""
    if not isinstance(value, dict):
        raise SolverError(f"{source}: {where} must be a table")
    for key in value:
        if known is not None and key not in known:
            full = f"{where}.{key}" if where else key
            raise SolverError(
                f"{source}: unknown key '{full}'; known are: {', '.join(sorted(known))}"
            )
    return value


def _check_knobs(table: Mapping[str, Any], where: str, source: str) -> None:
    for key, value in table.items():
        try:
            check_knob(key, value)
        except SolverError as error:
            raise SolverError(f"{source}: {where}.{key}: {error}") from None
