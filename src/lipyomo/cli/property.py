"""``lipyomo property``: whether the conditions of a VNN-LIB file can be satisfied."""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from lipyomo.analyses.certification.data import RuntimeValues
from lipyomo.analyses.questions.conjunction import satisfied
from lipyomo.analyses.questions.properties import PropertyAnswer, Verdict, check_property
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.decimals import seconds
from lipyomo.base.system.memory import limit_memory
from lipyomo.base.system.outputs import same_file
from lipyomo.cli.codes import Exit
from lipyomo.cli.entries import code_of, search_settings
from lipyomo.cli.interrupt import Interruption, Leaving
from lipyomo.cli.options import KEPT, SHOWN, add_limits, add_options
from lipyomo.cli.parser import Parser
from lipyomo.cli.settings import check_kept
from lipyomo.cli.source import LEAST, Source
from lipyomo.cli.streams import answer_only, warn
from lipyomo.cli.words import UsageError
from lipyomo.networks.network import Network
from lipyomo.problems.domains.declarations import Declared
from lipyomo.problems.domains.query import Clause, Query, read_query
from lipyomo.problems.result import Status

DESCRIPTION = """\
Whether some inputs satisfy all conditions of a VNN-LIB file (version 1 or 2, one
network or several): 'violated', with such inputs, or 'holds', or 'unknown'.
"""

EPILOG = """\
exit codes:
  0  it is decided (with --vnncomp: there is an answer)
  2  it is unknown: time limit, Ctrl-C, or rounding
  1  the input was wrong

examples:
  lipyomo property safe.vnnlib --network net.onnx
  lipyomo property same.vnnlib --network f=net.onnx --network g=int8.onnx
"""

WORDS = {Verdict.HOLDS: "unsat", Verdict.VIOLATED: "sat", Verdict.UNKNOWN: "unknown"}
"""The verdicts in the words of VNN-COMP."""


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo property`` with these arguments; return the exit code."""
    began = time.monotonic()
    parser = Parser("lipyomo property", DESCRIPTION, EPILOG)
    add_options(parser, "QUERY", "--config", "--network")
    add_limits(parser)
    add_options(parser, *KEPT, "--vnncomp", *SHOWN)
    arguments = parser.parse_args(words)
    check_kept(arguments)
    if arguments.memory_limit is not None:
        limit_memory(arguments.memory_limit)
    with Leaving():
        query = read_query(arguments.query)
        networks, confirms = _loaded(query, arguments, began)
    with answer_only(), Interruption() as interruption:
        left = max(Clock(arguments.time_limit, began=began).left, LEAST)
        settings = search_settings(arguments, left, interruption.requested)
        answer = check_property(networks, query, settings, confirms)
    if arguments.vnncomp:
        _answer_competition(query, answer)
        return Exit.DONE
    if arguments.json:
        print(json.dumps({"query": str(arguments.query), **answer.to_dict()}, allow_nan=False))
    else:
        _show(query, answer)
    return code_of(answer.status is Status.EXACT, answer.unwritten)


def _loaded(
    query: Query, arguments: Namespace, began: float
) -> tuple[dict[str, Network], Callable[[Clause, dict[str, FloatArray]], bool]]:
    """Load the networks of a query; also return the check of assignments by onnxruntime."""
    paths = _paths(query, arguments.networks)
    networks: dict[str, Network] = {}
    values: dict[str, RuntimeValues] = {}
    for said in query.networks:
        if said.name not in paths:
            continue
        source = Source(paths[said.name], _node(said), {})
        left = max(Clock(arguments.time_limit, began=began).left, LEAST)
        network = source.load(time_limit=left, memory_limit=arguments.memory_limit)
        _check_order(said, network, query)
        source.check(network, None)
        networks[said.name] = network
        values[said.name] = RuntimeValues((source.path, source.output), network.input_dim)

    def confirms(clause: Clause, assignment: dict[str, FloatArray]) -> bool:
        """Return whether the conditions hold for the outputs computed by onnxruntime."""
        found = dict(assignment)
        for said in query.networks:
            name = said.other if said.relation == "equal-to" else said.name
            inputs = [assignment[tensor.name].reshape(-1) for tensor in said.of("input")]
            outputs = values[name](np.concatenate(inputs))
            for tensor in said.of("output"):
                found[tensor.name], outputs = outputs[: tensor.size], outputs[tensor.size :]
        return satisfied(query, clause, found)

    return networks, confirms


def _paths(query: Query, given: Sequence[tuple[str | None, Path]]) -> dict[str, Path]:
    """Return the file of each network that is not declared equal to another one."""
    needed = [said.name for said in query.networks if said.relation != "equal-to"]
    names = ", ".join(needed)
    found: dict[str, Path] = {}
    for name, path in given:
        if name is None and len(needed) > 1:
            raise UsageError(
                f"--network: {query.name} declares the networks {names}.  Remedy: say which one "
                f"it is, such as --network {needed[0]}={path}"
            )
        key = needed[0] if name is None else name
        said = next((said for said in query.networks if said.name == key), None)
        if said is None:
            raise UsageError(f"--network: {query.name} declares no '{key}', but {names}")
        if key in found:
            raise UsageError(f"--network: '{key}' is given twice")
        found[key] = path
    for said in query.networks:
        if said.relation == "equal-to" and said.name in found:
            path = found.pop(said.name)
            if said.other not in found or not same_file(path, found[said.other]):
                raise UsageError(
                    f"--network: {query.name} says that '{said.name}' is equal to '{said.other}', "
                    "and was given another file.  Remedy: leave it out"
                )
    for name in needed:
        if name not in found:
            raise UsageError(
                f"{query.name} declares the network '{name}', and no file was given.  Remedy: "
                f"--network {name}=FILE"
            )
    return found


def _node(said: Declared) -> str | None:
    """Return the nodes at which to cut a file: the outputs that the query names, if it does."""
    nodes = [tensor.node for tensor in said.of("output")]
    return ",".join(map(str, nodes)) if nodes and None not in nodes else None


def _check_order(said: Declared, network: Network, query: Query) -> None:
    """Refuse inputs that are declared in another order than in the ONNX file."""
    nodes = [tensor.node for tensor in said.of("input")]
    there = list(network.input_parts)
    if len(nodes) > 1 and None not in nodes and there and nodes != there:
        raise UsageError(
            f"{query.name} declares the inputs {', '.join(map(str, nodes))} of '{said.name}', the "
            f"file has {', '.join(there)}.  Remedy: declare them in this order"
        )


def _answer_competition(query: Query, answer: PropertyAnswer) -> None:
    """Print the verdict for VNN-COMP, and an assignment in the format of the file's version."""
    word = WORDS[answer.verdict]
    if answer.verdict is Verdict.VIOLATED and answer.confirmed is False:
        warn("the inputs violate the property in exact arithmetic, but not in onnxruntime's")
        word = WORDS[Verdict.UNKNOWN]
    elif answer.status is Status.TIME_LIMIT:
        word = "timeout"
    print(word)
    if word == WORDS[Verdict.VIOLATED]:
        print("\n".join(_assignment(query, answer)))


def _assignment(query: Query, answer: PropertyAnswer) -> list[str]:
    """Return the lines of an assignment, with tensors in the order of the file."""
    assert answer.assignment is not None
    lines: list[str] = []
    for said in query.networks:
        for tensor in said.tensors:
            numbers = answer.assignment[tensor.name].reshape(-1).tolist()
            if query.version == 1:
                lines += [f"({tensor.name}_{k} {n!r})" for k, n in enumerate(numbers)]
            else:
                shape = ",".join(map(str, tensor.shape))
                lines += [f"{tensor.name} {tensor.element} [{shape}]", *map(repr, numbers)]
    if query.version == 1:
        lines[0], lines[-1] = "(" + lines[0], lines[-1] + ")"
    return lines


def _show(query: Query, answer: PropertyAnswer) -> None:
    """Print the answer as text."""
    took = f"{seconds(answer.seconds)}, {answer.nodes} nodes"
    print(f"{answer.verdict}  ({took})")
    if answer.assignment is not None:
        said = {True: "onnxruntime agrees", False: "onnxruntime's rounding hides it", None: ""}
        print(f"inputs that satisfy the conditions of {query.name}", end="")
        print(f" ({said[answer.confirmed]}):" if said[answer.confirmed] else ":")
        print("\n".join(_assignment(query, answer)))
    elif answer.verdict is Verdict.UNKNOWN:
        print(f"not decided: {answer.status}", file=sys.stderr)
