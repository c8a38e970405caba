"""Options shared by commands: a network, its outputs, a domain, and limits of the search."""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np

from lipyomo.analyses.api import chosen_settings, digests
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.decimals import interval, seconds
from lipyomo.base.system.memory import limit_memory
from lipyomo.cli.codes import Exit, worst
from lipyomo.cli.interrupt import Interruption, Leaving
from lipyomo.cli.live import live_line
from lipyomo.cli.options import add_domain, add_limits, add_options
from lipyomo.cli.parser import Parser
from lipyomo.cli.problems import read_domain
from lipyomo.cli.proving import Stop, write_beside
from lipyomo.cli.settings import check_kept, given
from lipyomo.cli.source import LEAST, NamedNetwork, network_given_by
from lipyomo.cli.streams import answer_only, warn
from lipyomo.cli.words import UsageError
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Domain
from lipyomo.problems.norms import read_functional
from lipyomo.problems.ranges import Range
from lipyomo.problems.result import ProgressCallback, Status
from lipyomo.problems.settings import Settings, SettingsKeywords
from lipyomo.search.engine.checkpoint import SearchStates, checkpoint_of

Answer = TypeVar("Answer")


def add_entries(parser: Parser, everywhere: bool) -> None:
    """Add options for a network, a choice of its outputs, a domain, and limits.

    Parameters
    ----------
    parser : Parser
    everywhere : bool
        Whether to allow all of R^d as domain.
    """
    add_options(parser, "NET", "--config", "--output-node", "--fix")
    rows = parser.add_mutually_exclusive_group()
    add_options(rows, "--entries")
    add_options(rows, "--functional", help="c.f for numbers such as 1,-1 or a .npy file")
    add_domain(parser, everywhere)
    add_limits(parser)


def read_question(
    parser: Parser, words: Sequence[str], rounds: bool = False
) -> tuple[Namespace, float, NamedNetwork, Domain]:
    """Read the arguments of a command, its network and its domain, within its limits.

    Parameters
    ----------
    parser : Parser
    words : sequence of str
    rounds : bool, optional
        Whether quantised networks are allowed.

    Returns
    -------
    arguments : Namespace
    began : float
        Value of ``time.monotonic()`` when the command began.
    named : NamedNetwork
    domain : Domain

    Raises
    ------
    LipyomoError
        If a file is refused, options or the domain are invalid, or a limit is too low.
    """
    began = time.monotonic()
    arguments = parser.parse_args(words)
    check_kept(arguments)
    memory = arguments.memory_limit
    if memory is not None:
        limit_memory(memory)
    with Leaving():
        left = Clock(arguments.time_limit, began=began).left
        named = network_given_by(arguments, max(left, LEAST), memory, rounds)
        domain = read_domain(arguments, named.input_dim)
        named.check(domain)
    return arguments, began, named, domain


def search_settings(
    arguments: Namespace,
    time_limit: float,
    should_stop: Callable[[], bool] | None = None,
    progress: ProgressCallback | None = None,
    started: float | None = None,
) -> Settings:
    """Return the settings of a search, or of one of several with a share of the time.

    Parameters
    ----------
    arguments : Namespace
        Has `workers`, `dask` and `seed`, and possibly a checkpoint.
    time_limit : float
    should_stop, progress : callable, optional
    started : float, optional
        Start of the time limit; by default the start of the search.
    """
    own = given(arguments, SettingsKeywords) | {"time_limit": time_limit}
    callbacks = {"should_stop": should_stop, "progress": progress, "started": started}
    return chosen_settings(None, own | callbacks)


def answers_in_turn(
    arguments: Namespace,
    began: float,
    questions: Sequence[str],
    ask: Callable[[str, Settings], Answer],
) -> list[Answer]:
    """Ask several questions, each with its share of the time left, and show how far each is.

    Parameters
    ----------
    arguments : Namespace
        As for `search_settings`, with `time_limit` and `quiet`.
    began : float
        Value of ``time.monotonic()`` when the command began.
    questions : sequence of str
        Their names.
    ask : callable
        Gives the answer, from the name and the settings of its search.
    """
    found: list[Answer] = []
    with answer_only(), Interruption() as interruption, live_line(arguments.quiet) as tracker:
        clock = Clock(arguments.time_limit, interruption.requested, began)
        for name in questions:
            share = max(clock.left / (len(questions) - len(found)), 1e-3)
            callbacks = interruption.requested, tracker.about(name)
            found.append(ask(name, search_settings(arguments, share, *callbacks)))
    return found


def range_cells(found: Range) -> tuple[str, str, str, str, str]:
    """Return both ends of a range, its status, nodes and time, as cells of a table."""
    spent = str(found.status), str(found.nodes), seconds(found.seconds)
    return interval(*found.low), interval(*found.high), *spent


@contextmanager
def kept_states(
    arguments: Namespace, network: Network, domain: Domain, rows: FloatArray, *further: str
) -> Iterator[SearchStates]:
    """Open the checkpoint of searches about functionals (p, m) of a network over a domain.

    `further` are other words that identify the searches.

    Raises
    ------
    CheckpointError, OutputError
        If the file cannot be used.
    """
    asked = {"network": network, "domain": domain, "row": rows, "question": " ".join(further)}
    settings = search_settings(arguments, arguments.time_limit)
    with checkpoint_of(settings, partial(digests, **asked)) as file:
        yield file


def finish(
    arguments: Namespace,
    record: dict[str, Any],
    show: Callable[[], object],
    found: Sequence[Any],
    unwritten: str,
    proof: Callable[[Stop], bool] | None = None,
) -> int:
    """Print the answers, write a proof if it is asked for, and return the exit code.

    Parameters
    ----------
    arguments : Namespace
    record : plain data
        The answers, for ``--json``.
    show : callable
        Prints them as text.
    found : sequence
        The answers, each with a `status`.
    unwritten : str
        Why the checkpoint could not be written, if so.
    proof : callable, optional
        Writes the proof until it is stopped; returns whether it proves all that was asked for.
    """
    if arguments.json:
        print(json.dumps({"network": str(arguments.network), **record}, allow_nan=False))
    else:
        show()
    code = code_of(all(one.status is Status.EXACT for one in found), unwritten)
    if proof is None or arguments.proof is None:
        return code
    sys.stdout.flush()
    return worst([code, *write_beside({"proof": proof})])


def code_of(done: bool, unwritten: str) -> Exit:
    """Return the exit code, and warn if the checkpoint could not be written."""
    if unwritten:
        warn(unwritten)
    return Exit.FAILED if unwritten else Exit.DONE if done else Exit.OPEN


def read_rows(arguments: Namespace, outputs: int) -> tuple[list[str], FloatArray]:
    """Return the names and functionals (rows, outputs) of the chosen outputs.

    Raises
    ------
    UsageError, ProblemError
        If an output does not exist, or the functional has a wrong length or is not finite.
    """
    if arguments.functional is not None:
        return ["c.f"], read_functional(arguments.functional, outputs)[None]
    chosen = np.arange(outputs)
    if arguments.entries is not None:
        try:
            chosen = np.atleast_1d(chosen[arguments.entries])
        except IndexError as error:
            text = f"--entries: the network has the outputs 0 to {outputs - 1}"
            raise UsageError(text) from error
    return [f"output {i}" for i in chosen.tolist()], np.eye(outputs)[chosen]
