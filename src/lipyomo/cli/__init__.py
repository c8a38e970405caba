"""The command line: parse options, call the library, show the result."""

from __future__ import annotations

__all__ = ["entry_point"]


def entry_point() -> None:
    """Run the command line of this process and leave with its exit code."""
    from lipyomo.cli.interrupt import Leaving  # before all slow imports

    with Leaving():
        from lipyomo.cli.main import run_process
    run_process()
