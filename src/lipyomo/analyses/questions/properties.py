"""Properties of networks in VNN-LIB files: whether some inputs satisfy all conditions.

A conjunction is satisfied somewhere if the minimum of its largest excess is not positive.  The
excess is expressed as a network of the inputs of all networks, whose least value is searched.  If
this is within 1e-6 of the size of the values, the answer stays unknown.  Pairs of equal networks
under an order of their inputs are first examined by slopes (`pairs`).
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from lipyomo.analyses.api import question_settings
from lipyomo.analyses.questions.conjunction import Conjunction
from lipyomo.analyses.questions.pairs import excluded_by_slopes
from lipyomo.analyses.questions.several import shared
from lipyomo.analyses.questions.values import least_value
from lipyomo.base.arguments import instance
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import ProblemError
from lipyomo.networks.digest import network_digest
from lipyomo.networks.network import Network, check_network
from lipyomo.problems.domains.query import Clause, Query, read_query
from lipyomo.problems.ranges import why_open
from lipyomo.problems.result import Point, Status
from lipyomo.problems.settings import Settings, SettingsKeywords, takes
from lipyomo.search.engine.checkpoint import SearchStates, checkpoint_of
from lipyomo.search.objectives.few import FewPipeline

Confirm = Callable[[Clause, dict[str, FloatArray]], bool]
"""Whether an assignment that satisfies a conjunction is also confirmed by a second evaluator."""

SAMPLES = 256
"""Number of points that are sampled first."""

FEW = 8
"""Number of these if there are conditions on inputs only."""

SLICE = 1.0
"""Seconds of the first run of each kind of search."""

GLANCES = 64
"""Number of conjunctions for which points are tried before any of them is searched."""


class Verdict(StrEnum):
    """The verdict on a property."""

    HOLDS = "holds"
    """No inputs satisfy the conditions."""
    VIOLATED = "violated"
    """Some inputs satisfy the conditions."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, eq=False)
class PropertyAnswer:
    """The answer whether some inputs satisfy the conditions of a VNN-LIB file.

    Attributes
    ----------
    verdict : Verdict
        The conditions describe a violation: ``holds`` if no inputs satisfy them.
    assignment : dict of str to ndarray, or None
        Tensors that satisfy them: inputs for which this is proved in exact arithmetic (in ball
        arithmetic for smooth units), and outputs rounded to float64.
    confirmed : bool or None
        Whether `confirm` agrees; None if it was not given, or there is no assignment.
    status : Status
        ``exact`` if it is decided, else why it is not.
    parts : tuple of float
        For each conjunction, a lower bound of its largest excess: the property holds for it if
        this is positive.
    seconds : float
    nodes : int
    unwritten : str
        Why the checkpoint could not be written; empty if it could.
    """

    verdict: Verdict
    assignment: dict[str, FloatArray] | None
    confirmed: bool | None
    status: Status
    parts: tuple[float, ...]
    seconds: float
    nodes: int
    unwritten: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        at = self.assignment
        return {
            "verdict": str(self.verdict),
            "assignment": at and {name: values.tolist() for name, values in at.items()},
            "confirmed": self.confirmed,
            "status": str(self.status),
            "parts": [end if np.isfinite(end) else None for end in self.parts],
            "seconds": self.seconds,
            "nodes": self.nodes,
        }


@takes(SettingsKeywords)
def check_property(
    networks: Network | Mapping[str, Network],
    query: str | os.PathLike[str] | Query,
    settings: Settings | None = None,
    confirm: Confirm | None = None,
    **changes: Unpack[SettingsKeywords],
) -> PropertyAnswer:
    """Decide whether some inputs satisfy the conditions of a VNN-LIB file.

    Parameters
    ----------
    networks : Network or mapping of str to Network
        By the names declared in the file, without networks that are ``equal-to`` others.  A single
        network is allowed for files that need only one.
    query : str, path-like or Query
        The file, of version 1 or 2, with any number of networks.
    settings, **changes : optional
        See `lipyomo.derivative_range`; conjunctions share the time.  A checkpoint is possible.
    confirm : callable, optional
        Takes a conjunction and an assignment that satisfies it, and returns whether a second
        evaluator, such as onnxruntime, agrees; the search goes on until it does.

    Returns
    -------
    PropertyAnswer

    Raises
    ------
    DomainError
        If the file cannot be read, or has conditions that are not supported.
    ProblemError
        If the networks do not match the file, or an input has no bounds.

    Examples
    --------
    >>> import lipyomo
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "small.vnnlib")
    >>> _ = file.write_text('''(vnnlib-version <2.0>)
    ... (declare-network f (declare-input X real [1]) (declare-output Y real [1]))
    ... (assert (and (>= X[0] -1) (<= X[0] 1) (>= Y[0] 2.5)))''')
    >>> network = lipyomo.Network.from_arrays([[[1.0], [-1.0]], [[2.0, 1.0]]])
    >>> str(lipyomo.check_property(network, file).verdict)
    'holds'
    """
    given = query if isinstance(query, Query) else read_query(query)
    parts = _matched(networks, given)
    chosen = question_settings(settings, changes)
    clock = Clock(chosen.time_limit, chosen.should_stop, chosen.started)
    searches = [
        ConjunctionSearch(Conjunction.of(given, parts, k), confirm, chosen.seed)
        for k in range(len(given.clauses))
    ]
    for search in searches[:GLANCES]:  # before the first one takes its time
        search.glance()
        if search.done or clock.expired:
            break
    found = next((search for search in searches if search.done), None)
    ends: list[float] = []
    nodes = 0
    with checkpoint_of(chosen, lambda: _owner(given, parts)) as file:
        for k, search in enumerate(searches if found is None else ()):
            own = shared(chosen, clock, len(searches) - k, file.part(str(k)))
            end, count = search.run(own)
            ends.append(end)
            nodes += count
            if search.done:
                found = search
                break
    found = found or next((search for search in searches if search.point is not None), None)
    ends = [*ends, *[-np.inf] * (len(searches) - len(ends))]
    at, agreed, verdict = None, None, Verdict.UNKNOWN
    if found is not None and found.point is not None:
        at, agreed = found.conjunction.assignment(found.point), found.confirmed
        verdict = Verdict.VIOLATED
    elif all(end == np.inf for end in ends):
        verdict = Verdict.HOLDS
    status = why_open(clock) if verdict is Verdict.UNKNOWN else Status.EXACT
    return PropertyAnswer(
        verdict, at, agreed, status, tuple(ends), clock.seconds, nodes, file.trouble
    )


def _owner(query: Query, networks: tuple[Network, ...]) -> dict[str, str]:
    """Return digests of the query and its networks."""
    rows = repr(query.clauses).encode()
    return {
        "network": " ".join(network_digest(network) for network in networks),
        "query": hashlib.sha256(rows).hexdigest(),
    }


def _matched(networks: Network | Mapping[str, Network], query: Query) -> tuple[Network, ...]:
    """Return the networks in the order of a query.

    Raises
    ------
    ProblemError
        If one is missing, is not declared, or its numbers of inputs or outputs do not match.
    """
    instance(networks, (Network, Mapping), "the networks", ProblemError, "map names to networks")
    needed = [said.name for said in query.networks if said.relation != "equal-to"]
    given: dict[str, Network]
    if isinstance(networks, Network):
        if len(needed) != 1:
            raise ProblemError(
                f"{query.name} declares the networks {', '.join(needed)}, and one was given.  "
                "Remedy: give each by its name"
            )
        given = {needed[0]: networks}
    else:
        given = dict(networks)
    for name in given:
        if name not in needed:
            known = ", ".join(needed)
            raise ProblemError(f"{query.name} needs no network '{name}'.  Remedy: it needs {known}")
    for said in query.networks:
        source = said.other if said.relation == "equal-to" else said.name
        if source not in given:
            raise ProblemError(
                f"{query.name} declares the network '{said.name}', and none was given for it"
            )
        network = given[said.name] = given[source]
        check_network(network, ProblemError)
        for kind, size, own in (
            ("inputs", said.inputs, network.input_dim),
            ("outputs", said.outputs, network.output_dim),
        ):
            if size != own:
                raise ProblemError(
                    f"{query.name} declares {size} {kind} of '{said.name}', the network has {own}"
                )
    return tuple(given[said.name] for said in query.networks)


class ConjunctionSearch:
    """The search of one conjunction; keeps the best point so far.

    Parameters
    ----------
    conjunction : Conjunction
    confirm : callable, optional
    seed : int

    Attributes
    ----------
    point : ndarray or None
        Values of the variables that satisfy all rows.
    confirmed : bool or None
    """

    def __init__(self, conjunction: Conjunction, confirm: Confirm | None, seed: int) -> None:
        self.conjunction, self._confirm, self._seed = conjunction, confirm, seed
        self._glanced = False
        self.point: FloatArray | None = None
        self.confirmed: bool | None = None

    def glance(self) -> None:
        """Try some sampled points."""
        if self._glanced or self.conjunction.contradictory:
            return
        self._glanced = True
        some = self.conjunction.domain.sample(np.random.default_rng(self._seed), SAMPLES)
        points = np.concatenate([self.conjunction.domain.center[None], some])
        if self.conjunction.mixed:
            points = points[[np.argmin(self.conjunction.excess.forward(points)[:, 0])]]
        for x in points[:FEW]:
            self.sample(Point(x))

    def run(self, settings: Settings) -> tuple[float, int]:
        """Search; return a lower bound of the largest excess, and the number of nodes.

        The bound is infinite if it is proved that no point satisfies the conjunction.

        Parameters
        ----------
        settings : Settings
            Settings of this search; its checkpoint is a part of another.
        """
        conjunction = self.conjunction
        if conjunction.contradictory:
            return np.inf, 0
        clock = Clock(settings.time_limit, settings.should_stop, settings.started)
        self.glance()
        if self.done or not conjunction.mixed:
            return -np.inf, 0
        if excluded_by_slopes(conjunction, clock):
            return np.inf, 0
        return self._searched(settings, clock)

    def _searched(self, settings: Settings, clock: Clock) -> tuple[float, int]:
        """Do the search of `run` over phases or boxes, whichever has the better bound at first."""
        network = self.conjunction.excess
        assert not isinstance(settings.checkpoint, Path)
        states = SearchStates(settings.checkpoint)
        few = FewPipeline.suits(network)
        # excess zero satisfies all rows only if one of them is not strict; ulp(0) is the least
        # positive number
        above = 0.0 if self.conjunction.strict else math.ulp(0.0)
        left = [False, True] if few else [False]  # whether to search over boxes
        end, seconds = -np.inf, SLICE if few else np.inf
        counts = dict.fromkeys(left, 0)
        while True:
            bounds = []
            for boxes in left:
                kept = states.part("boxes" if boxes else "phases")
                part = clock.within(seconds)
                own = replace(
                    settings,
                    time_limit=max(part.left, 1e-3),
                    started=None,
                    should_stop=lambda: self.done or clock.interrupted,
                )
                found, count = least_value(
                    network, self.conjunction.domain, own, above, self.sample, boxes, kept
                )
                end = max(end, found)
                counts[boxes] = count if kept is not None else counts[boxes] + count
                if end >= above:
                    return np.inf, sum(counts.values())
                if self.done or clock.expired or not part.expired:
                    return end, sum(counts.values())
                bounds.append(found)
            seconds *= 2.0
            if len(left) > 1 and bounds[0] != bounds[1]:
                left, seconds = [bounds[1] > bounds[0]], np.inf

    @property
    def done(self) -> bool:
        """Whether a point satisfies all rows, and was not rejected by the second evaluator."""
        return self.point is not None and self.confirmed is not False

    def sample(self, at: Point) -> None:
        """Try a point with a small excess."""
        if at.rest is not None or self.done:
            return
        x = at.x
        if self.conjunction.mixed and float(self.conjunction.excess.forward(x)[0]) > 1e-6:
            return
        if not self.conjunction.holds(x):
            return
        agreed = None
        if self._confirm is not None:
            clause = self.conjunction.query.clauses[self.conjunction.part]
            agreed = self._confirm(clause, self.conjunction.assignment(x))
        if self.point is None or agreed:
            self.point, self.confirmed = x, agreed
