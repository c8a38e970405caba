"""What is installed: one row a solver."""

from __future__ import annotations

from dataclasses import dataclass

from pyomo.contrib.solver.common.base import Availability

from lipyomo.solvers.adapter import MatrixSolver
from lipyomo.solvers.registry import SettingsLike, make_solver, resolve_settings
from lipyomo.solvers.settings import SolverEntry


@dataclass(frozen=True)
class SolverRow:
    """One solver as ``lipyomo solvers`` shows it.

    Parameters
    ----------
    name : str
        The name in ``solvers.toml``.
    title : str
        The solver's own name.
    installed : bool
        Whether it is there (a licence may still be missing).
    usable : bool
        Whether it can solve.
    version : str
        Empty if it is not installed.
    licence : str
    size_limit : str
        What applies here; empty for none.
    auto : int or None
        Its rank among the solvers that ``auto`` tries, from 1.
    install : str
        The line that installs it.
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
    rows = []
    for name in settings.names:
        rank = settings.auto.index(name) + 1 if name in settings.auto else None
        rows.append(_row(settings.entries[name], settings.source, rank))
    return rows


def _row(entry: SolverEntry, source: str, rank: int | None) -> SolverRow:
    solver = make_solver(entry, source)
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
    )


def _size_limit(entry: SolverEntry) -> str:
    limits = []
    if entry.max_rows is not None:
        limits.append(f"{entry.max_rows} rows")
    if entry.max_columns is not None:
        limits.append(f"{entry.max_columns} columns")
    return ", ".join(limits)
