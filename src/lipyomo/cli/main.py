"""Dispatch to the main job or a subcommand; every failure is reported in one sentence."""

from __future__ import annotations

import gc
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from lipyomo.base.errors import ImportNote, LipyomoError, nearest_name
from lipyomo.base.system.imports import importing
from lipyomo.base.system.outputs import shown, why
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.cli.codes import Exit
from lipyomo.cli.interrupt import Leaving
from lipyomo.cli.parser import asked_words, main_parser
from lipyomo.cli.streams import StreamClosed, answer_is_written, open_streams, warn
from lipyomo.cli.words import UsageError
from lipyomo.version import __version__

SUBCOMMANDS = {
    "solvers": "lipyomo.cli.tables:print_solvers",
    "methods": "lipyomo.cli.tables:print_methods",
    "difference": "lipyomo.cli.variants:run_difference",
    "compare": "lipyomo.cli.compare:run",
    "certify": "lipyomo.cli.certify:run",
    "sweep": "lipyomo.cli.sweep:run",
    "map": "lipyomo.cli.map:run",
    "range": "lipyomo.cli.ranges:of_values",
    "jacobian": "lipyomo.cli.jacobian:run",
    "smoothness": "lipyomo.cli.smoothness:run",
    "residual": "lipyomo.cli.ranges:of_residuals",
    "lyapunov": "lipyomo.cli.ranges:of_derivatives",
    "monotone": "lipyomo.cli.monotone:run",
    "property": "lipyomo.cli.property:run",
    "info": "lipyomo.cli.info:run",
    "demo": "lipyomo.cli.variants:run_demo",
    "verify": "lipyomo.cli.verify:run",
}
"""Name of each subcommand, and the location of its function ``(arguments) -> exit code``."""

REPORT_TO = "the issue tracker of lipyomo"


def main(arguments: Sequence[str] | None = None, began: float | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        Words after the program's name; by default those of the process.
    began : float, optional
        Value of ``time.monotonic()`` at which time limits start; by default the current one.

    Returns
    -------
    int
        Exit code: 0 for a result as asked for, 1 for a failure, 2 for bounds only.
    """
    began = time.monotonic() if began is None else began
    asked = asked_words()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if asked is not None:  # a completion request; the words are in the environment
        words = [word for word in asked[:1] if word in SUBCOMMANDS]
    return guarded(lambda given: _dispatch(given, began), words)


def guarded(run: Callable[[list[str]], int], words: list[str]) -> int:
    """Run a command; every expected failure is reported in one sentence and an exit code.

    Parameters
    ----------
    run : callable
        Takes the words, returns the exit code.
    words : list of str
        The words of the command line.

    Returns
    -------
    int
        The exit code of `run`, 1 for an error, 2 after Ctrl-C.
    """
    open_streams()
    try:
        with answer_is_written(), _notes_in_words():
            code = run(words)
            sys.stdout.flush()
        return code
    except SystemExit as leave:  # --help and --version
        return leave.code if isinstance(leave.code, int) else Exit.FAILED
    except StreamClosed:
        return Exit.FAILED
    except LipyomoError as error:
        _print_error(str(error), words)
        return Exit.FAILED
    except OSError as error:
        if error.filename is None:
            raise
        _print_error(
            f"{shown(error.filename)} cannot be used: {why(error)}.  Remedy: check the name", words
        )
        return Exit.FAILED
    except KeyboardInterrupt:
        _say("interrupted")
        return Exit.OPEN
    except MemoryError:
        _print_error(
            "the memory does not suffice.  Remedy: raise --memory-limit if it is set, or take a "
            "method with smaller models (see 'lipyomo methods'), a smaller domain, or "
            "--bounds interval",
            words,
        )
        return Exit.FAILED


@with_one_blas_thread
def _dispatch(words: list[str], began: float) -> int:
    name = words[0] if words else ""
    if name in SUBCOMMANDS:
        module, _, function = SUBCOMMANDS[name].partition(":")
        with Leaving(), importing():
            run_it = getattr(import_module(module), function)
        return int(run_it(words[1:]))
    with Leaving():
        with importing():
            parser = main_parser()
            parser.first_words = tuple(SUBCOMMANDS)
            _check_first(name)
            arguments = parser.parse_args(words)
            from lipyomo.cli.job import run  # only here, so that --help and wrong options are fast

        return run(arguments, began)


def _check_first(name: str) -> None:
    """Suggest a subcommand for a mistyped first word.

    Raises
    ------
    UsageError
        If the word is similar to a subcommand, and no file.
    """
    remedy = nearest_name(name, SUBCOMMANDS, "", "'lipyomo {}'", likeness=0.7)
    if remedy and "." not in name and not os.path.exists(name):
        raise UsageError(f"there is no file or subcommand '{name}'.  Remedy: {remedy}")


@contextmanager
def _notes_in_words() -> Iterator[None]:
    """Print import notes without their location in the source."""
    with warnings.catch_warnings():
        other = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, ImportNote):
                warn(str(message))
            else:
                other(message, category, *place, **more)

        warnings.showwarning = show
        yield


def _print_error(message: str, words: Sequence[str]) -> None:
    """Print an error, after its traceback if --debug is given."""
    if "--debug" in words:
        traceback.print_exc()
    _say(f"error: {message}")


def _say(message: str) -> None:
    print(f"lipyomo: {message}", file=sys.stderr, flush=True)


def _report_defect(kind: type[BaseException], error: BaseException, trace: object) -> None:
    """Report an unexpected exception as a defect of lipyomo; used as ``sys.excepthook``."""
    if issubclass(kind, KeyboardInterrupt):
        _say("interrupted")
        return
    if "--debug" in sys.argv:
        sys.__excepthook__(kind, error, error.__traceback__)
    _say(
        f"error: unexpected {kind.__name__}: {error}\n"
        f"  This is a defect of lipyomo {__version__}, not of your input.  Remedy: run the command "
        f"again with --debug and report what it prints to {REPORT_TO}"
    )


def run_process() -> None:
    """Run the command line of this process and exit with its exit code."""
    sys.excepthook = _report_defect
    try:
        code = main(began=time.monotonic() - time.process_time())  # includes Python's start
    except KeyboardInterrupt:  # between two handlers
        _say("interrupted")
        code = Exit.OPEN
    gc.freeze()  # saves a garbage collection at exit: a tenth of a second
    sys.exit(code)
