"""Start of a command: worker processes start while modules are imported."""

from __future__ import annotations

import argparse

from lipyomo.base.system.imports import importing


def import_and_run(arguments: argparse.Namespace, began: float) -> int:
    """Run the main job; worker processes of its search start while modules are imported.

    Parameters
    ----------
    arguments : Namespace
        Arguments from `lipyomo.cli.options.main_parser`.
    began : float
        Value of ``time.monotonic()`` when the command began.
    """
    from lipyomo.base.system.parallel import (
        called_early,  # imported here, so that --help and wrong options are fast
    )

    searches = arguments.dask is None and arguments.method in ("auto", "bnb")
    with called_early(
        arguments.workers if searches else 1, "lipyomo.search.spaces.phases.pipeline"
    ):
        with importing():
            from lipyomo.cli.job import run

        return run(arguments, began)
