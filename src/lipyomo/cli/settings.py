"""From options to settings, including files of solver settings."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from lipyomo.analyses.api import chosen_settings
from lipyomo.cli.words import UsageError
from lipyomo.problems.settings import Settings, SettingsKeywords
from lipyomo.search.engine.checkpoint import check_checkpoint

MODELS = frozenset({"lp", "mip", "mipcrosslip"})
"""Methods that use Pyomo models; the others save importing Pyomo, which takes a second."""


def given(arguments: argparse.Namespace, table: type) -> dict[str, Any]:
    """Return the values of options that are keywords of a table, such as `SettingsKeywords`."""
    return {name: each for name, each in vars(arguments).items() if name in table.__annotations__}


def read_settings(arguments: argparse.Namespace) -> Settings:
    """Read the settings from options; check the solver before anything is run.

    Raises
    ------
    LipyomoError
        If a value or the file of solvers is wrong, or the solver cannot be used.
    """
    settings = chosen_settings(None, given(arguments, SettingsKeywords))
    cross_check = getattr(arguments, "cross_check", None)
    named = {settings.solver, cross_check or "auto"} - {"auto"}
    asked = [arguments.method] if "method" in arguments else arguments.methods or MODELS
    if named or settings.formulation != "auto" or not MODELS.isdisjoint(asked):
        name_solver_files(settings.solvers_file)
    for name in named:
        from lipyomo.solvers.registry import get_solver

        get_solver(name, settings.solvers_file)
    return settings


def check_kept(arguments: argparse.Namespace) -> None:
    """Refuse a checkpoint that cannot be used, and its options if they exclude each other.

    Raises
    ------
    UsageError
        If options exclude each other.
    CheckpointError, OutputError
        See `lipyomo.search.engine.checkpoint.check_checkpoint`.
    """
    if "checkpoint" not in arguments:
        return
    if arguments.resume and arguments.checkpoint is None:
        raise UsageError("--resume needs to know from where.  Remedy: add --checkpoint FILE")
    if arguments.overwrite and arguments.checkpoint is None:
        raise UsageError("--overwrite replaces a checkpoint.  Remedy: add --checkpoint FILE")
    if arguments.overwrite and arguments.resume:
        raise UsageError("--overwrite and --resume exclude each other.  Remedy: leave one out")
    if arguments.checkpoint is not None:
        check_checkpoint(arguments.checkpoint, arguments.resume, arguments.overwrite)


def name_solver_files(path: Path | None) -> None:
    """Print which files of solver settings are used, apart from the one in the package."""
    from lipyomo.solvers.settings import load_settings

    files = ", ".join(map(str, load_settings(path).files))
    if files:
        print(f"lipyomo: solver settings of {files}", file=sys.stderr)
