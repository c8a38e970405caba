"""``solvers.toml``: names to back ends, common knobs, native options, limits of free licences."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from lipyomo.errors import SolverError
from lipyomo.solvers.options import KNOBS, Native, check_knob

FILE_NAME = "solvers.toml"

BACKENDS: Mapping[str, str] = {
    "highs": "lipyomo.solvers.highs:Highs",
    "gurobi": "lipyomo.solvers.gurobi:Gurobi",
    "cplex": "lipyomo.solvers.cplex:Cplex",
    "cbc": "lipyomo.solvers.cbc:Cbc",
    "scip": "lipyomo.solvers.scip:Scip",
}
"""Back ends that come with this package; any other is given as ``module:Class``."""

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
        The program, for back ends that call one.
    install : str
        The line that installs the solver.
    knobs : mapping
        Values of `SolverOptions` that hold for this solver.
    options : mapping
        Native options.
    max_rows, max_columns : int, optional
        What the solver's free licence takes; not applied if a full licence is found.
    """

    name: str
    backend: str
    executable: str | None = None
    install: str = ""
    knobs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Native] = field(default_factory=dict)
    max_rows: int | None = None
    max_columns: int | None = None

    @property
    def target(self) -> str:
        """The adapter as ``module:Class``."""
        return BACKENDS.get(self.backend, self.backend)


@dataclass(frozen=True)
class SolverSettings:
    """The content of ``solvers.toml``.

    Parameters
    ----------
    source : str
        Where it came from, for messages.
    auto : tuple of str
        The order in which ``auto`` tries solvers.
    defaults : mapping
        Knobs that hold for every solver.
    entries : mapping
        Solvers by name.
    """

    source: str
    auto: tuple[str, ...]
    defaults: Mapping[str, Any]
    entries: Mapping[str, SolverEntry]

    @property
    def names(self) -> list[str]:
        """All solvers: those of ``auto`` in its order, then the others."""
        return [*self.auto, *(name for name in self.entries if name not in self.auto)]

    def entry(self, name: str) -> SolverEntry:
        """Return the entry of a solver, or raise `SolverError` with the names there are."""
        try:
            return self.entries[name]
        except KeyError:
            known = ", ".join(sorted(self.entries))
            raise SolverError(
                f"no solver '{name}' in {self.source}; there are: auto, {known}"
            ) from None

    def knobs(self, name: str) -> dict[str, Any]:
        """Return the knobs of a solver over the common ones, and its native ``options``."""
        entry = self.entry(name)
        return {**self.defaults, **entry.knobs, "options": dict(entry.options)}


def load_settings(path: str | Path | None = None) -> SolverSettings:
    """Read the settings.

    Parameters
    ----------
    path : str or Path, optional
        A file whose tables override those of the packaged one.  If it is not given, a
        ``solvers.toml`` in the working directory does so, if there is one.

    Returns
    -------
    SolverSettings

    Raises
    ------
    SolverError
        If a file is missing, is not TOML, or holds an unknown key or a bad value; the message names
        the file and the key.
    """
    packaged = resources.files("lipyomo.solvers").joinpath(FILE_NAME).read_text("utf-8")
    empty = SolverSettings("", (), {}, {})
    settings = _merge(
        empty, _parse(packaged, "the packaged solvers.toml"), "the packaged solvers.toml"
    )
    if path is None:
        path = Path(FILE_NAME)
        if not path.is_file():
            return settings
    path = Path(path)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SolverError(f"cannot read {path}: {error}") from None
    return _merge(settings, _parse(text, str(path)), str(path))


def _parse(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SolverError(f"{source} is not valid TOML: {error}") from None


def _merge(base: SolverSettings, data: dict[str, Any], source: str) -> SolverSettings:
    """Lay the tables of one file over settings: all that it says comes first."""
    _known_keys(data, _TOP, source, "")
    common = _knobs(_table(data, "defaults", source, ""), source, "defaults")
    defaults = {**base.defaults, **common}
    entries = {
        name: replace(entry, knobs={k: v for k, v in entry.knobs.items() if k not in common})
        for name, entry in base.entries.items()
    }
    for name, table in _table(data, "solver", source, "").items():
        if name == "auto":
            raise SolverError(f"{source}: solver.auto: the name 'auto' is taken")
        if not isinstance(table, dict):
            raise SolverError(f"{source}: solver.{name} must be a table")
        entries[name] = _entry(entries.get(name), name, table, source)
    auto = data.get("auto", list(base.auto))
    if not isinstance(auto, list) or not all(isinstance(name, str) for name in auto):
        raise SolverError(f"{source}: auto must be a list of solver names")
    for name in auto:
        if name not in entries:
            known = ", ".join(sorted(entries))
            raise SolverError(f"{source}: auto: no solver '{name}'; there are: {known}")
    return SolverSettings(source, tuple(auto), defaults, entries)


def _entry(base: SolverEntry | None, name: str, table: dict[str, Any], source: str) -> SolverEntry:
    """Read one solver's table, over an entry of the same name if there is one."""
    where = f"solver.{name}"
    _known_keys(table, _ENTRY, source, where)
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
    backend = changes.get("backend", base.backend)
    if backend not in BACKENDS and backend.count(":") != 1:
        known = ", ".join(BACKENDS)
        raise SolverError(
            f"{source}: {where}.backend: '{backend}' is neither one of {known} nor 'module:Class'"
        )
    knobs = {key: value for key, value in table.items() if key in KNOBS}
    changes["knobs"] = {**base.knobs, **_knobs(knobs, source, where)}
    options = _table(table, "options", source, where)
    for key, value in options.items():
        if not isinstance(value, str | int | float | bool):
            raise SolverError(f"{source}: {where}.options.{key} must be a string or a number")
    changes["options"] = {**base.options, **options}
    limit = _table(table, "free_limit", source, where)
    _known_keys(limit, _LIMIT, source, f"{where}.free_limit")
    for key, value in limit.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise SolverError(f"{source}: {where}.free_limit.{key} must be a whole number")
        changes[f"max_{key}"] = value
    return replace(base, **changes)


def _known_keys(table: dict[str, Any], known: frozenset[str], source: str, where: str) -> None:
    for key in table:
        if key not in known:
            full = f"{where}.{key}" if where else key
            raise SolverError(
                f"{source}: unknown key '{full}'; known are: {', '.join(sorted(known))}"
            )


def _table(data: dict[str, Any], key: str, source: str, where: str) -> dict[str, Any]:
    table = data.get(key, {})
    if not isinstance(table, dict):
        full = f"{where}.{key}" if where else key
        raise SolverError(f"{source}: {full} must be a table")
    return table


def _knobs(table: dict[str, Any], source: str, where: str) -> dict[str, Any]:
    """Check common knobs."""
    _known_keys(table, frozenset(KNOBS), source, where)
    for key, value in table.items():
        try:
            check_knob(key, value)
        except SolverError as error:
            raise SolverError(f"{source}: {where}.{key}: {error}") from None
    return table
