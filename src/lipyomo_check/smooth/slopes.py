"""Upper ends of networks with smooth units on unbounded domains: by ranges of slopes alone.

The Jacobian at a point is a product of weights and of the units' slopes there.  Each slope lies
between the ends of its range over all of R (`Kind.slopes`), so every Jacobian is one of those that
a network of two-slope units with these ends as slopes has if its switches are any numbers a_k in
[0, 1], whatever the pre-activations.  The multipliers of `lipyomo_check.semidefinite` prove a bound
for all of these: with ``s_k = a_k u_k``

    s_k (u_k - s_k) = a_k (1 - a_k) u_k^2 >= 0,

which is all that is used of a switch that is open.  What pre-activations say (bounds, refutations,
sides that are excluded) has no place here; so a proof is a list of `close` and an `end`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from lipyomo_check.errors import ProofError
from lipyomo_check.reading import listed
from lipyomo_check.smooth.kinds import kind_of, two_slopes
from lipyomo_check.statement import INFINITE, Box, Domain, Layer, Statement
from lipyomo_check.tree import Case, Tree


def between(statement: Statement) -> Statement:
    """The same with two-slope units between the ends of all ranges, no biases and no limits."""
    box = statement.domain.box
    ends = [
        (low, high) if low == high else (-INFINITE, INFINITE)
        for low, high in zip(box.lower, box.upper, strict=True)
    ]
    anywhere = Box([low for low, _ in ends], [high for _, high in ends])
    layers = [*map(_between, statement.hidden), statement.layers[-1]]
    return replace(statement, layers=layers, domain=Domain(anywhere, [], [], None), edition=None)


def _between(layer: Layer) -> Layer:
    names = {k: name for name, units in layer.curves for k in units}
    slopes = [
        (kind_of(names[k]) if k in names else two_slopes(left, right)).slopes
        for k, (left, right) in enumerate(zip(layer.left, layer.right, strict=True))
    ]
    left, right = ([ends[side] for ends in slopes] for side in (0, 1))
    return Layer(layer.rows, [0.0] * layer.units, left, right)


def check_slopes(statement: Statement, steps: Iterator[Any]) -> int:
    """Check the steps of a proof about an unbounded domain; returns how many cases it has: one.

    Raises
    ------
    ProofError
        If they do not prove the upper end.
    """
    given = next(steps, None)
    words = [listed(step, "a step")[:1] for step in listed(given, "the steps")]
    if not all(word in (["close"], ["end"]) for word in words):
        raise ProofError("slopes alone can only close targets")
    tree = Tree(between(statement))
    tree.settle(Case(tree.linear.root(), set(range(len(tree.targets)))), given)
    return tree.nodes
