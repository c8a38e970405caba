"""Imports at the start of a command: without the garbage collector, and beside its workers."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """A block in which modules are imported.

    The garbage collector finds nothing there and takes a sixth of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def import_and_run(arguments: argparse.Namespace, began: float) -> int:
    """Run the main job; workers of its search start while its modules are imported.

    Parameters
    ----------
    arguments : Namespace
        Of `lipyomo.cli.options.main_parser`.
    began : float
        Value of ``time.monotonic()`` when the command began.
    """
    from lipyomo.parallel import called_early  # only now: --help and wrong options answer at once

    searches = arguments.dask is None and arguments.method in ("auto", "bnb")
    with called_early(arguments.threads if searches else 1, "lipyomo.search.relu.pipeline"):
        with importing():
            from lipyomo.cli.job import run

        return run(arguments, began)
