"""NaiveUB: the product of the layers' operator norms."""

from __future__ import annotations

import math

import numpy as np

from lipyomo.base.clock import dense_entries, seconds_of
from lipyomo.base.numerics.rounding import rounded_up
from lipyomo.methods.options import choice
from lipyomo.methods.registry import TAKES_ALL, method
from lipyomo.networks.network import Layer
from lipyomo.problems.norms import InputNorm, L1Output, L2Output, LinfOutput, OutputNorm
from lipyomo.problems.operator_norm import operator_norm
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.run import Run

_SAME: dict[str, OutputNorm] = {"l1": L1Output(), "l2": L2Output(), "linf": LinfOutput()}

SINGULAR_ORDER = 2000
"""Rows or columns up to which singular values are computed, which cannot be interrupted."""


def layer_norm(layer: Layer, norm_in: InputNorm, norm_out: OutputNorm) -> float:
    """Largest operator norm of a layer, over all slopes of its units.

    For l1, l2 and linf outputs a unit cannot stretch its coordinate by more than its steeper
    slope, so the steepest slopes decide; other output norms are used on affine layers only.  The
    spectral norm of a large convolution is at most the root of its l1 norm times its linf norm.
    """
    steepest = layer.steepest
    if norm_out.kind == norm_in and not isinstance(layer.weight, np.ndarray):
        sizes = layer.sizes  # large ones are never written out
        column = float((sizes.T @ steepest).max())
        row = float((steepest * sizes.sum(axis=1)).max())
        if norm_in != "l2" or min(sizes.shape) > SINGULAR_ORDER:
            size = {"l1": column, "linf": row, "l2": math.sqrt(column) * math.sqrt(row)}[norm_in]
            return rounded_up(size, 8 * sum(sizes.shape))
    found = operator_norm(steepest[:, None] * layer.dense_weight, norm_in, norm_out)
    return rounded_up(found.upper, 8 * sum(layer.dense_weight.shape))


def norm_seconds(problem: LipschitzProblem) -> float:
    """About how long the norms of all layers take: singular values where these are asked for."""
    found = 0.0
    for layer in problem.tangent_network.layers:
        found += 8.0 * dense_entries(layer.weight)
        dense_or_small = (
            isinstance(layer.weight, np.ndarray) or min(layer.weight.shape) <= SINGULAR_ORDER
        )
        if problem.norm == "l2" and dense_or_small:
            found += 10.0 * float(layer.weight.size) * min(layer.weight.shape)
    return seconds_of(found)


@method(
    "naive",
    "NaiveUB",
    Guarantee.UPPER,
    "Jordan and Dimakis (NeurIPS 2020), appendix F.2; Szegedy et al. (2013)",
    options={"norms": "asked"},
    **TAKES_ALL,
)
def run(run: Run) -> Result:
    """Multiply the layers' norms.

    Options
    -------
    norms : {'asked', 'paper'}
        ``asked`` measures each hidden layer in the input norm asked for and the last one from it
        to the output norm.  ``paper`` multiplies spectral norms (the last one from l2 to the output
        norm) and scales by sqrt(d) for l1 and linf inputs, as the LipMIP paper does (appendix F.2).
    """
    form = choice(run, "norms", ("asked", "paper"))
    small = run.problem.reduced.problem
    norm: InputNorm = small.norm if form == "asked" else "l2"
    factors = norms_of_layers(small, norm)
    if form == "paper" and small.norm != "l2":
        factors.insert(0, rounded_up(float(np.sqrt(small.tangent_network.input_dim)), 1))
    run.record(factors=factors, norms=form)
    run.drop_upper(rounded_up(float(np.prod(factors)), len(factors)))
    return run.result()


def norms_of_layers(small: LipschitzProblem, norm: InputNorm) -> list[float]:
    """Operator norms of all layers, hidden ones in `norm`; their product bounds the constant.

    Parameters
    ----------
    small : LipschitzProblem
        Without frozen inputs.
    norm : str
    """
    network = small.tangent_network
    factors = [layer_norm(layer, norm, _SAME[norm]) for layer in network.hidden]
    return [*factors, layer_norm(network.head, norm, small.output_norm)]


def product_of_norms(small: LipschitzProblem) -> float:
    """A bound of the constant by the norms of the layers, in the norm of the inputs."""
    factors = norms_of_layers(small, small.norm)
    return rounded_up(float(np.prod(factors)), len(factors))
