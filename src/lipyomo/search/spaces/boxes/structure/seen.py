"""Which combinations of inputs nonlinear functions depend on, and networks of features of these.

Layers may pass inputs on, like residual connections around attention.  Inputs that reach the
outputs only in this way do not affect where the Jacobian is large.  A row is C x plus terms of
nonlinear functions, where C is known if layers pass values on.  M consists of C for all rows that
are arguments of nonlinear functions.

As functions of features ``y = B (x - c)``, the first rows are ``A y + (W c + b)``, with A = W B^T.
A row of a later layer then differs from the true one by ``C' (W - A B) (x - c)``, with C' its
coefficients of the first rows, and by rounding.  This error is `Stage.off`; it is tiny if C is a
sum of rows of B.  Rows that are not arguments may differ from those of the network, but are not
used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.numerics.rounding import gamma
from lipyomo.search.spaces.boxes.structure.closed_forms import passed_outputs
from lipyomo.search.spaces.boxes.structure.features import Features
from lipyomo.search.spaces.boxes.structure.stage import Stage


def rows_seen(stages: Sequence[Stage]) -> FloatArray:
    """Return M, the linear parts of the arguments of nonlinear functions, shape (n, d)."""
    rows = stages[0].weight
    found = [rows[_arguments(stages[0])]]
    for before, stage in pairwise(stages):
        passed = np.flatnonzero(passed_outputs(before))
        if not passed.size:
            break
        rows = stage.weight[:, passed] @ rows[passed]
        found.append(rows[_arguments(stage)])
    whole = np.concatenate(found)
    return whole[whole.any(axis=1)]


def of_features(stages: Sequence[Stage], features: Features, unit: float) -> tuple[Stage, ...]:
    """Return the layers as functions of features instead of the inputs.

    Parameters
    ----------
    stages : sequence of Stage
    features : Features
    unit : float
        The factor that `Stage.off` is multiplied by.
    """
    first, basis, away = stages[0], features.basis, features.away
    A = first.weight @ basis.T
    size = np.abs(A) @ np.abs(basis)
    rest, error = first.weight - A @ basis, gamma(len(basis) + 2) * (first.sizes + size)
    d = len(away)
    lost = gamma(d + 2) * (first.sizes @ np.abs(features.center) + np.abs(first.bias))
    offs = [(np.abs(rest) + error) @ away + lost]
    for before, stage in pairwise(stages):
        passed = np.flatnonzero(passed_outputs(before))
        weight, sizes = stage.weight[:, passed], stage.sizes[:, passed]
        error = sizes @ (error[passed] + gamma(passed.size + 2) * np.abs(rest[passed]))
        rest, lost = weight @ rest[passed], sizes @ lost[passed]
        offs.append((np.abs(rest) + error) @ away + lost)
    found = [first.with_inputs(A, first.weight @ features.center + first.bias, first.off)]
    found += stages[1:]
    grown = (1.0 + gamma(d + len(stages) * max(stage.weight.shape[1] for stage in stages))) / unit
    for k, (which, off) in enumerate(zip(_needed(stages), offs, strict=True)):
        found[k] = replace(found[k], off=found[k].off + np.where(which, off, 0.0) * grown)
    return tuple(found)


def _arguments(stage: Stage) -> BoolArray:
    """Return which rows of a stage are arguments of units that are not passed on, or factors."""
    units = stage.units_of(stage.bias).size
    found = np.ones(stage.bias.size, dtype=bool)
    found[:units] = ~passed_outputs(stage)[:units]
    if stage.products is not None:
        found[stage.products.left] = found[stage.products.right] = True
    return found


def _needed(stages: Sequence[Stage]) -> list[BoolArray]:
    """Return which rows are arguments, or rows that arguments are computed from as multiples."""
    found = [_arguments(stage) for stage in stages]
    for k in range(len(stages) - 1, 0, -1):
        copies = stages[k].copies
        if copies is not None:
            source, count = copies.source[found[k]], copies.fresh.size
            found[k][copies.fresh[source[source < count]]] = True
            found[k - 1][source[source >= count] - count] = True
    return found
