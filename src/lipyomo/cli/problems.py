"""From options to domains and problems."""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.system.outputs import shown
from lipyomo.cli.streams import warn
from lipyomo.cli.words import UsageError
from lipyomo.networks.network import Network
from lipyomo.problems.domains import AllSpace, Box, Domain, Polytope, ball
from lipyomo.problems.problem import LipschitzProblem


def problem_on(arguments: argparse.Namespace, network: Network, domain: Domain) -> LipschitzProblem:
    """Build the problem that the options describe, on a domain."""
    return LipschitzProblem(
        network,
        domain,
        arguments.norm,
        arguments.output_norm,
        arguments.functional,
        arguments.margin,
        directions=arguments.directions,
        wrt=arguments.wrt,
        weights=arguments.weights,
    )


def read_domain(arguments: argparse.Namespace, dimension: int) -> Domain:
    """Read the single domain that the options describe, for a network with `dimension` inputs.

    Raises
    ------
    LipyomoError
        If options exclude each other, the domain is invalid, or it has several parts.
    """
    domains = read_domains(arguments, dimension)
    if len(domains) > 1:
        raise UsageError(
            f"--vnnlib: {shown(arguments.vnnlib.path)} has {len(domains)} parts, and one is needed "
            "here.  Remedy: choose one, for example --part 0"
        )
    for note in read_notes(arguments):
        warn(note)
    return domains[0]


def read_domains(arguments: argparse.Namespace, dimension: int) -> list[Domain]:
    """Read the domain that the options describe, or all parts of one in a VNN-LIB file.

    Parameters
    ----------
    arguments : Namespace
    dimension : int
        Number of the network's inputs.

    Raises
    ------
    LipyomoError
        If options exclude each other, or the domain is invalid.
    """
    _check_companions(arguments)
    if arguments.vnnlib is not None:
        return _parts(arguments, dimension)
    if arguments.box is not None:
        low, high = arguments.box
        box = Box(low, high, dimension)
        ends = np.concatenate([box.lower, box.upper])
        return [AllSpace(dimension) if np.isinf(ends).all() else box]
    if arguments.everywhere:
        return [AllSpace(dimension)]
    if arguments.ball is not None:
        center = arguments.ball
        if isinstance(center, float):
            center = np.full(dimension, center)
        if center.size != dimension:
            raise UsageError(
                f"--ball: the center has {center.size} entries, the network takes {dimension} "
                "inputs"
            )
        return [ball(center, arguments.radius, arguments.ball_norm or "linf", arguments.clip)]
    return [Polytope(*arguments.polytope, *(arguments.clip or (-np.inf, np.inf)))]


def _parts(arguments: argparse.Namespace, dimension: int) -> list[Domain]:
    """Return the chosen parts of a VNN-LIB file."""
    name = f"--vnnlib: {shown(arguments.vnnlib.path)}"
    parts = arguments.vnnlib.query.parts
    if parts[0].dimension != dimension:
        raise UsageError(
            f"{name} is about {parts[0].dimension} inputs, the network takes {dimension}"
        )
    if arguments.part is None:
        return list(parts)
    if arguments.part >= len(parts):
        raise UsageError(f"--part: {name} has the parts 0 to {len(parts) - 1}")
    return [parts[arguments.part]]


def read_notes(arguments: argparse.Namespace) -> list[str]:
    """Return notes on the options, to be shown with the result."""
    if arguments.vnnlib is None:
        return []
    name, query = shown(arguments.vnnlib.path), arguments.vnnlib.query
    notes = []
    if query.ignored:
        notes.append(
            f"{query.ignored} condition{'s' * (query.ignored > 1)} of {name} on outputs or hidden "
            "tensors ignored: the domain is one of all inputs"
        )
    if not all(part.is_bounded for part in query.parts):
        notes.append(f"{name} leaves an input without a bound: the domain is unbounded")
    return notes


def _check_companions(arguments: argparse.Namespace) -> None:
    kinds = (arguments.box, arguments.ball, arguments.polytope, arguments.vnnlib)
    if all(kind is None for kind in kinds) and not arguments.everywhere:
        ways = ["--box LO,HI", "--ball CENTER.npy --radius R", "--polytope FILE.npz"]
        ways += ["--vnnlib FILE", *(["--everywhere"] * (arguments.everywhere is not None))]
        raise UsageError(f"no domain was given.  Remedy: {', '.join(ways[:-1])} or {ways[-1]}")
    if arguments.ball is None:
        for name in ("radius", "ball_norm"):
            if getattr(arguments, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} needs --ball")
    elif arguments.radius is None:
        raise UsageError("--ball needs --radius R")
    if arguments.clip is not None and arguments.ball is None and arguments.polytope is None:
        raise UsageError("--clip cuts a ball or a polytope; there is neither")
    if arguments.part is not None and arguments.vnnlib is None:
        raise UsageError("--part chooses one of a VNN-LIB file.  Remedy: add --vnnlib FILE")


class SeveralDomains(NamedTuple):
    """Several domains, from which points are sampled in equal shares."""

    domains: tuple[Domain, ...]

    def sample(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Return random points, shape (count, d)."""
        shares = np.array_split(np.arange(count), min(count, len(self.domains)))
        pairs = zip(self.domains, shares, strict=False)
        return np.concatenate([domain.sample(rng, share.size) for domain, share in pairs])
