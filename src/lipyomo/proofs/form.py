"""The kind of a proof: by phases with integer certificates, or by boxes in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from lipyomo.base.errors import LipyomoError
from lipyomo.networks.activations import Confined, Derivative, Unbounded
from lipyomo.problems.domains import Domain
from lipyomo.problems.operator_norm import product_of_norms
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Result
from lipyomo.problems.targets import targets_of
from lipyomo.proofs.records import has_products
from lipyomo.search.engine.params import HALVED
from lipyomo.search.spaces.joint.bound import bounded_pairs
from lipyomo.search.spaces.joint.context import PARAMS, JointContext
from lipyomo_check.errors import ProofError as CheckError
from lipyomo_check.formats import DIRECTED_FORMAT, FORMAT, Edition
from lipyomo_check.pairs.tree import MOST_PAIRS
from lipyomo_check.smooth.witness import check_smooth_witness
from lipyomo_check.statement import read_statement


def calls_for_boxes(problem: LipschitzProblem, result: Result) -> bool:
    """Return whether a piecewise-linear network should be proved by boxes.

    This is so for few inputs and domains so wide that bounds of the whole domain are useless; then
    the search bisects boxes as well.
    """
    small = problem.reduced.problem
    if not may_end(small.domain):
        return False
    hopeless = PARAMS.hopeless * result.upper
    if product_of_norms(small.tangent_network, small.norm, small.output_norm) <= hopeless:
        return False
    try:
        context = JointContext.of(small)
    except LipyomoError:  # the dual ball has too many vertices
        return False
    if context is None:
        return False
    whole = bounded_pairs(context, context.whole(), 0.0).boxes.bounds[0]
    return bool(whole > hopeless)


def is_shown(statement: dict[str, Any]) -> bool:
    """Return whether the checker of boxes accepts the witness in a proof's first line."""
    try:
        check_smooth_witness(read_statement(statement), statement["witness"])
    except CheckError:
        return False
    return True


def may_end(domain: Domain) -> bool:
    """Return whether a tree of boxes may be finite: for few inputs on a bounded domain."""
    return domain.is_bounded and int(np.count_nonzero(~domain.frozen)) < HALVED


def takes_pairs(problem: LipschitzProblem) -> bool:
    """Return whether boxes bound all pairs of a direction and a functional together.

    The network must be piecewise linear.
    """
    if not problem.domain.is_bounded or problem.norm == "l2":
        return False
    try:
        targets = targets_of(problem)
    except LipyomoError:  # the dual ball has too many vertices
        return False
    free = int(np.count_nonzero(~problem.domain.frozen))
    inputs = free if problem.directions is None else problem.directions.shape[1]
    count = inputs if problem.norm == "l1" else 1 << max(inputs - 1, 0)
    return not targets.whole_ball and 2 * len(targets.functionals) * count <= MOST_PAIRS


def format_of(problem: LipschitzProblem, boxes: bool) -> str:
    """Return the oldest format that has all features the proof needs."""
    network, domain = problem.network, problem.domain
    if not boxes:
        return FORMAT if problem.directions is None else DIRECTED_FORMAT
    tree = domain.is_bounded
    if network.smooth:
        tree = tree and may_end(domain)
    elif takes_pairs(problem):
        return Edition.PAIRS.value
    kinds = [curve.activation for layer in network.layers for curve in layer.curves]
    newer = any(isinstance(kind, Confined | Unbounded | Derivative) for kind in kinds)
    newer = newer or (tree and (has_products(network) or bool(network.kinked_units)))
    edition = Edition.PRODUCTS if newer else Edition.SMOOTH
    return str(edition.value)
