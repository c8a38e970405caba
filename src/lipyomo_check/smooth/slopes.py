"""Upper ends of networks with smooth units by the ranges of their slopes alone, without any split.

The Jacobian at a point is a product of weights and of the units' slopes there.  Each slope lies in
a range: that of its unit over all of R (`Kind.slopes`), and on a bounded domain that of `bound` on
the domain's box.  So every Jacobian is one of those that a network of two-slope units with the ends
of these ranges as slopes has if its switches are any numbers a_k in [0, 1], whatever the
pre-activations.  The multipliers of `lipyomo_check.semidefinite` prove a bound for all of these:
with ``s_k = a_k u_k``

    s_k (u_k - s_k) = a_k (1 - a_k) u_k^2 >= 0,

which is all that is used of a switch that is open.  What pre-activations say (bounds, refutations,
sides that are excluded) has no place here; so a proof is a list of `close`, or `layers`, and
an `end`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from flint import ctx

from lipyomo_check.errors import ProofError
from lipyomo_check.formats import Edition
from lipyomo_check.parts import BITS, INFINITE, Box, Domain, Layer
from lipyomo_check.reading import listed
from lipyomo_check.smooth.balls import in_balls
from lipyomo_check.smooth.definitions import units_of
from lipyomo_check.smooth.levels import hidden_of
from lipyomo_check.smooth.strict import ChainInBalls, boxes_in_balls
from lipyomo_check.smooth.tree import Question
from lipyomo_check.statement import Statement
from lipyomo_check.tree import Case, Tree

Ranges = list[tuple[float, float]]
"""The ranges of the slopes of a layer's units."""


def between(statement: Statement, strict: bool = False) -> Statement:
    """Do the same with two-slope units between the ends of all ranges, no biases and no limits.

    Parameters
    ----------
    statement : Statement
    strict : bool, optional
        Compute the ranges on a box once more, in Arb.

    Raises
    ------
    ProofError
        If there are no such ranges, or Arb does not confirm them.
    """
    box, hidden = statement.domain.box, statement.hidden
    unbounded = any(unit.kind.inside for layer in hidden for unit in units_of(layer))
    if unbounded or statement.edition is Edition.PRODUCTS:
        raise ProofError("slopes alone prove nothing about products, or units without bounds")
    ranges = [[unit.kind.slopes for unit in units_of(layer)] for layer in hidden]
    if statement.domain.is_bounded and hidden:
        on_box = _on_box(statement, strict)[-len(hidden) :]
        ranges = [
            [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(all_over, here, strict=True)]
            for all_over, here in zip(ranges, on_box, strict=True)
        ]
    ends = [
        (low, high) if low == high else (-INFINITE, INFINITE)
        for low, high in zip(box.lower, box.upper, strict=True)
    ]
    anywhere = Box([low for low, _ in ends], [high for _, high in ends])
    layers = [_between(layer, own) for layer, own in zip(hidden, ranges, strict=True)]
    domain = Domain(anywhere, [], [], None)
    return replace(statement, layers=[*layers, statement.layers[-1]], domain=domain, edition=None)


def _between(layer: Layer, ranges: Ranges) -> Layer:
    left, right = ([ends[side] for ends in ranges] for side in (0, 1))
    return Layer(layer.rows, [0.0] * layer.units, left, right)


def _on_box(statement: Statement, strict: bool) -> list[Ranges]:
    """Return ranges on the domain's box; directions do not matter."""
    question = Question.of(statement)
    chain = question.chain
    none = np.zeros((1, chain.levels[0].tangents.shape[1]))
    box = question.first.boxes.part(slice(0, 1))._replace(v_low=none, v_high=none)
    functional = np.zeros((1, len(chain.head)))
    found = chain.bound(functional, box)
    ranges = [
        list(
            zip(
                np.nextafter(layer.d - layer.d_reach, -np.inf)[0].tolist(),
                np.nextafter(layer.d + layer.d_reach, np.inf)[0].tolist(),
                strict=True,
            )
        )
        for layer in found.layers
    ]
    if strict:
        with ctx.workprec(BITS):
            exact = ChainInBalls(chain, hidden_of(statement))
            again = exact.bound(in_balls(functional), boxes_in_balls(box), known=found)
            for layer, own in zip(again.layers, ranges, strict=True):
                low, high = np.array(own).T
                inside = (layer.d - layer.d_reach >= low) & (layer.d + layer.d_reach <= high)
                if not inside.all():
                    raise ProofError("ball arithmetic does not confirm a range of slopes")
    return ranges


def check_slopes(statement: Statement, steps: Iterator[Any], strict: bool = False) -> int:
    """Check the steps of a proof; returns how many cases it has: one.

    Raises
    ------
    ProofError
        If they do not prove the upper end.
    """
    given = next(steps, None)
    words = [listed(step, "a step")[:1] for step in listed(given, "the steps")]
    if not all(word in (["close"], ["layers"], ["end"]) for word in words):
        raise ProofError("slopes alone can only close targets")
    tree = Tree(between(statement, strict))
    tree.apply(Case(tree.linear.root(), set(range(len(tree.targets)))), given)
    return tree.nodes
