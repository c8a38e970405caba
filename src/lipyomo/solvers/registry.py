"""Solvers by name: known and available ones, and the choice of one that supports a model."""

from __future__ import annotations

import importlib
import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyomo.contrib.solver.common.base import Availability, SolverBase

from lipyomo.base.errors import SolverError
from lipyomo.solvers.adapter import MatrixSolver
from lipyomo.solvers.compilation import compile_model
from lipyomo.solvers.matrices import LinearModel
from lipyomo.solvers.settings import BACKENDS, SolverEntry, SolverSettings, load_settings

logger = logging.getLogger("lipyomo.solvers")

SettingsLike = SolverSettings | str | Path | None
AUTO = "auto"


@dataclass(frozen=True)
class Choice:
    """A solver that supports a model.

    Parameters
    ----------
    name : str
        The registered name.
    solver : SolverBase
    notes : tuple of str
        Why solvers of higher priority were skipped.
    """

    name: str
    solver: Any
    notes: tuple[str, ...] = ()


def resolve_settings(settings: SettingsLike) -> SolverSettings:
    """Return given settings, or read them from a file; see `load_settings`."""
    return settings if isinstance(settings, SolverSettings) else load_settings(settings)


def make_solver(entry: SolverEntry, source: str) -> Any:
    """Instantiate the adapter of an entry, installed or not.

    Raises
    ------
    SolverError
        If the back end cannot be imported or is not a ``contrib.solver`` adapter.
    """
    target = BACKENDS.get(entry.backend, entry.backend)
    module, _, attribute = target.partition(":")
    try:
        kind = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SolverError(
            f"{source}: solver.{entry.name}.backend: cannot import '{target}': {error}"
        ) from None
    if not (isinstance(kind, type) and issubclass(kind, SolverBase)):
        raise SolverError(
            f"{source}: solver.{entry.name}.backend: '{target}' is no adapter of Pyomo's "
            "contrib.solver (a subclass of SolverBase)"
        )
    return kind(**program_of(kind, entry, source))


def program_of(kind: type, entry: SolverEntry, source: str) -> dict[str, str]:
    """Return an entry's program as a keyword of the adapter's class; empty if it has none.

    Raises
    ------
    SolverError
        If the adapter does not run a program.
    """
    if entry.executable is None:
        return {}
    if not hasattr(kind, "executable"):
        raise SolverError(
            f"{source}: solver.{entry.name}.executable: the back end '{entry.backend}' "
            "calls no program"
        )
    return {"executable": entry.executable}


def get_solver(name: str, settings: SettingsLike = None, time_limit: float | None = None) -> Any:
    """Return a solver by name, available and configured according to ``solvers.toml``.

    Parameters
    ----------
    name : str
        A name in ``solvers.toml``; ``auto`` stands for the first available one.
    settings : SolverSettings or path, optional
    time_limit : float, optional
        Seconds of each of its solves; by default that of the settings.

    Returns
    -------
    SolverBase
        Of Pyomo's ``contrib.solver``: ``get_solver("highs").solve(model)``.

    Raises
    ------
    SolverError
        If the solver is unknown, not installed or has no licence, or if it refuses an option of its
        entry; the message has a remedy.
    """
    settings = resolve_settings(settings)
    if name == AUTO:
        usable = available_solvers(settings)
        if not usable:
            raise SolverError(_nothing_usable(settings))
        name = usable[0]
    entry = settings.entry(name)
    solver = make_solver(entry, settings.source)
    found = solver.available()
    if found is Availability.BadLicense:
        raise SolverError(
            f"{entry.name} is installed but has no usable licence; see the vendor's instructions, "
            "or choose another solver"
        )
    if not found:
        why = solver.complaint() if isinstance(solver, MatrixSolver) else ""
        how = f"; install it with: {entry.install}" if entry.install else ""
        raise SolverError(f"{entry.name} {why or 'is not installed'}{how}")
    configure(solver, entry, settings)
    if time_limit is not None and "time_limit" in solver.config:
        solver.config["time_limit"] = time_limit
    return solver


def configure(solver: Any, entry: SolverEntry, settings: SolverSettings) -> None:
    """Configure a solver according to the settings.

    Raises
    ------
    SolverError
        If the solver refuses a native option of the entry.
    """
    for option, value in entry.options.items():
        try:
            if isinstance(solver, MatrixSolver):
                solver.check_option(option, value)
        except SolverError as error:
            key = f"solver.{entry.name}.options.{option}"
            raise SolverError(f"{settings.source}: {key}: {error}") from None
        solver.config.solver_options[option] = value
    for knob, value in settings.knobs(entry.name).items():
        name = "tee" if knob == "log" else knob
        if name in solver.config:
            solver.config[name] = value


def available_solvers(settings: SettingsLike = None) -> list[str]:
    """Return the names of available solvers: those of ``auto`` in its order, then the others."""
    settings = resolve_settings(settings)
    return [
        name
        for name in settings.names
        if make_solver(settings.entries[name], settings.source).available()
    ]


def choose_solver(
    model: Any, solver: str = AUTO, settings: SettingsLike = None, fallback: bool = True
) -> Choice:
    """Choose a solver that supports a model's features and size, before the model is passed to it.

    Parameters
    ----------
    model : BlockData or LinearModel
    solver : str
        A name, or ``auto``.
    settings : SolverSettings or path, optional
    fallback : bool
        Whether to use the next solver of ``auto`` if the model is too large for the named one.
        Otherwise the named one is returned, which will answer with `SolveStatus.SIZE_LIMIT`.

    Returns
    -------
    Choice

    Raises
    ------
    SolverError
        If no solver is left, or the named one does not support the model's features; the message
        says why each was skipped.
    """
    linear = model if isinstance(model, LinearModel) else compile_model(model)
    return next(capable_solvers(linear, solver, resolve_settings(settings), fallback))


def capable_solvers(
    model: LinearModel, solver: str, settings: SolverSettings, fallback: bool
) -> Iterator[Choice]:
    """Yield the solvers that support a model, by decreasing priority; see `choose_solver`.

    Raises
    ------
    SolverError
        If there is none.
    """
    notes: list[str] = []
    found = False
    names = list(settings.auto)
    if solver != AUTO:
        names = [solver, *(name for name in names if name != solver and fallback)]
    for name in names:
        entry = settings.entry(name)
        if name != solver and not make_solver(entry, settings.source).available():
            continue
        candidate = get_solver(name, settings)
        refused = candidate.refusal(model) if isinstance(candidate, MatrixSolver) else None
        if refused is not None and name == solver:
            # The user has named this solver, so no other one is tried.
            raise SolverError(f"{refused}.  Remedy: choose another solver, or 'auto'")
        note = refused or too_large(entry, candidate, model)
        if note is None or (name == solver and not fallback):
            yield Choice(name, candidate, tuple(notes))
            found, notes = True, []
            continue
        notes.append(note)
        logger.log(logging.WARNING if name == solver else logging.INFO, note)
    if not found:
        raise SolverError("; ".join([*notes, _nothing_usable(settings)]))


def too_large(entry: SolverEntry, solver: Any, model: LinearModel) -> str | None:
    """Return why a model exceeds the free licence of a solver, or None if it does not."""
    rows, columns = model.size
    fits = rows <= entry.max_rows and columns <= entry.max_columns
    if fits or solver.available() is not Availability.LimitedLicense:
        return None
    return (
        f"{entry.name}: the model has {rows} rows and {columns} columns, the free licence takes "
        f"{_size_limit(entry)}"
    )


def _nothing_usable(settings: SolverSettings) -> str:
    names = ", ".join(settings.auto) or "none"
    return (
        f"no other solver can be used here (auto in {settings.source}: {names}); "
        "`python -m lipyomo solvers` shows how to install them"
    )


@dataclass(frozen=True)
class SolverRow:
    """One row of the table of ``lipyomo solvers``.

    Parameters
    ----------
    name : str
        The name in ``solvers.toml``.
    title : str
        The solver's own name.
    installed : bool
        Whether it is installed (a licence may be missing).
    usable : bool
        Whether it is installed and licensed.
    version : str
        Empty if it is not installed.
    licence : str
    size_limit : str
        Size limit of the licence found; empty if there is none.
    auto : int or None
        Its rank among the solvers of ``auto``, from 1.
    install : str
        The command that installs it.
    trouble : str
        Why an existing installation cannot be used.
    """

    name: str
    title: str
    installed: bool
    usable: bool
    version: str
    licence: str
    size_limit: str
    auto: int | None
    install: str
    trouble: str = ""


def solver_table(settings: SettingsLike = None) -> list[SolverRow]:
    """Return a row for every solver of ``solvers.toml``, those of ``auto`` first.

    Parameters
    ----------
    settings : SolverSettings or path, optional

    Returns
    -------
    list of SolverRow
    """
    settings = resolve_settings(settings)
    rank = {name: k for k, name in enumerate(settings.auto, 1)}
    return [
        _row(settings.entries[name], settings.source, rank.get(name)) for name in settings.names
    ]


def _row(entry: SolverEntry, source: str, rank: int | None) -> SolverRow:
    try:
        solver = make_solver(entry, source)
    except SolverError as error:  # of this one alone
        name, how = entry.name, entry.install
        return SolverRow(name, name, False, False, "", "", "", rank, how, str(error))
    found = solver.available()
    there = found is not Availability.NotFound
    version = solver.version() if there else None
    return SolverRow(
        name=entry.name,
        title=solver.title if isinstance(solver, MatrixSolver) else entry.name,
        installed=there,
        usable=bool(found),
        version=".".join(str(part) for part in version or ()),
        licence=solver.licence() if there and isinstance(solver, MatrixSolver) else "",
        size_limit=_size_limit(entry) if found is Availability.LimitedLicense else "",
        auto=rank,
        install=entry.install,
        trouble=solver.complaint() if isinstance(solver, MatrixSolver) else "",
    )


def _size_limit(entry: SolverEntry) -> str:
    limits = {"rows": entry.max_rows, "columns": entry.max_columns}
    return ", ".join(f"{most} {what}" for what, most in limits.items() if math.isfinite(most))
