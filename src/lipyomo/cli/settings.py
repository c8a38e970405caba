"""From options to settings, and which files of solver settings they bring in."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

from lipyomo.analyses.api import chosen_settings
from lipyomo.cli.words import UsageError
from lipyomo.problems.settings import Settings, SettingsKeywords
from lipyomo.search.engine.checkpoint import check_checkpoint

MODELS = frozenset({"lp", "mip", "mipcrosslip"})
"""Methods that give Pyomo models to solvers; the others do without Pyomo, a second of imports."""


def given(arguments: argparse.Namespace, table: type) -> dict[str, Any]:
    """Values of options that are keywords of a table, such as `SettingsKeywords`."""
    return {name: each for name, each in vars(arguments).items() if name in table.__annotations__}


def read_settings(arguments: argparse.Namespace) -> Settings:
    """The settings that options have set; a wrong solver is found before anything is run.

    Raises
    ------
    LipyomoError
        If a value is wrong, the file of solvers is, or the solver cannot be used.
    """
    settings = chosen_settings(None, given(arguments, SettingsKeywords))
    cross_check = getattr(arguments, "cross_check", None)
    named = {settings.solver, cross_check or "auto"} - {"auto"}
    asked = [arguments.method] if "method" in arguments else arguments.methods or MODELS
    if named or settings.formulation != "auto" or not MODELS.isdisjoint(asked):
        name_solver_files(settings.solvers_file)
    for name in named:
        from lipyomo.solvers.registry import get_solver

        limit = settings.time_limit
        get_solver(name, settings.solvers_file, None if math.isinf(limit) else limit)
    return settings


def check_kept(arguments: argparse.Namespace) -> None:
    """Refuse a checkpoint that cannot be used, and options about one that do not go together.

    Raises
    ------
    UsageError
        If options contradict each other.
    CheckpointError, OutputError
        As of `lipyomo.search.engine.checkpoint.check_checkpoint`.
    """
    if arguments.resume and arguments.checkpoint is None:
        raise UsageError("--resume needs to know from where.  Remedy: add --checkpoint FILE")
    if arguments.overwrite and (arguments.resume or arguments.checkpoint is None):
        raise UsageError("--overwrite is about a checkpoint, and does not go with --resume")
    if arguments.checkpoint is not None:
        check_checkpoint(arguments.checkpoint, arguments.resume, arguments.overwrite)


def name_solver_files(path: Path | None) -> None:
    """Say which files of solver settings are used, if there are any beside the packaged one."""
    from lipyomo.solvers.settings import load_settings

    files = ", ".join(map(str, load_settings(path).files))
    if files:
        print(f"lipyomo: solver settings of {files}", file=sys.stderr)
