"""The start of a command: its workers start while its modules are imported."""

from __future__ import annotations

import argparse

from lipyomo.base.system.imports import importing


def import_and_run(arguments: argparse.Namespace, began: float) -> int:
    """Run the main job; workers of its search start while its modules are imported.

    Parameters
    ----------
    arguments : Namespace
        Of `lipyomo.cli.options.main_parser`.
    began : float
        Value of ``time.monotonic()`` when the command began.
    """
    from lipyomo.base.system.parallel import (
        called_early,  # only now: --help and wrong options answer at once
    )

    searches = arguments.dask is None and arguments.method in ("auto", "bnb")
    with called_early(
        arguments.workers if searches else 1, "lipyomo.search.spaces.phases.pipeline"
    ):
        with importing():
            from lipyomo.cli.job import run

        return run(arguments, began)
