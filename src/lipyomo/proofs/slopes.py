"""Proofs about smooth networks without any split: multipliers for the ranges of all slopes.

The upper end is that of a network of two-slope units whose slopes are the ends of each unit's range
(`lipyomo.search.spaces.boxes.ranges`): what there is on unbounded domains, and what is left where
there are too many inputs for a tree of boxes.  Its multipliers are found, rounded and proved like
those of any root; nothing is split, since pre-activations say nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipyomo.base.clock import Clock
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.domains import Box
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.proofs.accept import undivided
from lipyomo.proofs.case import Case, Step
from lipyomo.proofs.context import Recording
from lipyomo.proofs.layers import layer_steps
from lipyomo.proofs.params import PARAMS
from lipyomo.search.spaces.phases.bound import bound_targets
from lipyomo_check.smooth.slopes import between
from lipyomo_check.statement import Statement


def slope_steps(
    problem: LipschitzProblem, statement: Statement, clock: Clock
) -> tuple[float, list[Step]] | None:
    """The upper end that ranges of slopes prove, at least the stated one, and its steps.

    None if there was not enough time.

    Raises
    ------
    ProofError
        If the statement is one about other targets.
    """
    known = between(statement)
    hidden = [
        Layer(layer.weight, np.zeros(layer.units), own.left, own.right)
        for layer, own in zip(problem.network.hidden, known.hidden, strict=True)
    ]
    head, box = problem.network.head, known.domain.box
    anywhere = LipschitzProblem(
        Network([*hidden, Layer(head.weight, np.zeros(head.units))]),
        Box(np.array(box.lower), np.array(box.upper)),
        problem.norm,
        problem.output_norm,
        directions=problem.directions,
    )
    recording = Recording.of(anywhere, known, clock, PARAMS)
    node = recording.linear.root()
    case = Case(node, recording.search.whole(recording.points.count)).at(recording, node)
    case = replace(case, form=recording.search.system.form(case.ours.phases))
    layered = layer_steps(recording, case)
    if layered is not None:
        return layered
    unknown = np.full(case.ours.targets.size, np.inf)
    ours = case.ours.but(proved=unknown, target_bounds=unknown)
    found = bound_targets(recording.search, ours, case.known_form, None, 0.0, clock)
    return undivided(recording, replace(case, ours=found.node))
