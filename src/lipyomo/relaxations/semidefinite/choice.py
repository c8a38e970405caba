"""Choice of the cheapest kernel for a form, and predicted costs of the bounds at the root.

Costs are the floating-point operations of one Newton step, to leading order, plus a constant
overhead of the calls of a step.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
from scipy.linalg import qr

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import seconds_of
from lipyomo.base.numerics.rounding import UNIT
from lipyomo.base.system.memory import LARGE
from lipyomo.base.system.threads import blas_threads, usable_cores
from lipyomo.problems.targets import Targets
from lipyomo.relaxations.semidefinite.dense import DenseKernel
from lipyomo.relaxations.semidefinite.ellipsoids import closed_form_cost
from lipyomo.relaxations.semidefinite.kernel import Kernel
from lipyomo.relaxations.semidefinite.params import PARAMS
from lipyomo.relaxations.semidefinite.spectral import SpectralKernel
from lipyomo.relaxations.semidefinite.wide import WideKernel

Ball = Literal["vertices", "l2", "l1"]

_CALLS = {"dense": 1e6, "wide": 6e6}
"""Overhead of the calls of a step on tiny matrices, in operations of equal time."""


@cache
def step_costs(
    inputs: int, units: int, outputs: int = 0, euclidean: bool = False
) -> dict[str, float]:
    """Return the operations of one Newton step for each kernel.

    Parameters
    ----------
    inputs, units : int
        d and F.
    outputs : int, optional
        Number of functionals of a ball; 0 for a single functional.
    euclidean : bool, optional
        Whether the ball of inputs is Euclidean.
    """
    d, F = float(inputs), float(units)
    n = d + F + outputs
    cubes = 4.0 if not outputs and d > F else 6.0  # the inputs' block of an inverse is cheap
    costs = {"dense": cubes * n**3 + _CALLS["dense"]}
    if not outputs and not euclidean:
        blocks = 10.0 * d * F**2 + 6.0 * F**3 + 2.0 * d**2 * F
        costs["wide"] = blocks + n**3 / 3.0 + _CALLS["wide"]
    return costs


def kernel_for(
    rows: FloatArray,
    objectives: FloatArray,
    inputs: int,
    euclidean: bool,
    ball: Ball = "vertices",
    seen: float = math.inf,
) -> Kernel:
    """Return the cheapest kernel for a form.

    Parameters
    ----------
    rows : ndarray, shape (F, d + F)
    objectives : ndarray, shape (k, d + F)
        One row for ``ball='vertices'``.
    inputs : int
    euclidean : bool
    ball : {'vertices', 'l2', 'l1'}, optional
        The ball of functionals.
    seen : float, optional
        Largest possible rank of the units and functionals as functions of the inputs.
    """
    if euclidean and inputs > min(len(rows) + len(objectives), seen):
        rows, objectives, inputs = rotated(rows, objectives, inputs)
    if ball != "vertices":
        return SpectralKernel(rows, objectives, inputs, euclidean, separate=ball == "l1")
    costs = step_costs(inputs, len(rows), 0, euclidean)
    if min(costs, key=lambda kind: costs[kind]) == "dense":
        return DenseKernel(rows, objectives[0], inputs, euclidean)
    return WideKernel(rows, objectives[0], inputs)


def rotated(
    rows: FloatArray, objectives: FloatArray, inputs: int
) -> tuple[FloatArray, FloatArray, int]:
    """Rotate the inputs of a Euclidean ball into the span of rows and objectives."""
    seen = np.vstack([rows[:, :inputs], objectives[:, :inputs]])
    triangle, order = qr(seen.T, mode="r", pivoting=True)
    sizes = np.abs(np.diagonal(triangle))
    rank = max(int(np.count_nonzero(sizes > len(seen) * UNIT * sizes[0])), 1)
    few = np.empty((len(seen), rank))
    few[order] = triangle[:rank].T
    count = len(rows)
    return (
        np.hstack([few[:count], rows[:, inputs:]]),
        np.hstack([few[count:], objectives[:, inputs:]]),
        rank,
    )


@contextmanager
def threads_for(seconds: float) -> Iterator[None]:
    """Use several threads of the linear algebra if a step takes long enough."""
    if seconds < PARAMS.long_step:
        yield
        return
    given = [os.environ.get(name) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")]
    asked = [int(number) for number in given if number is not None and number.isdigit()]
    with blas_threads(min([PARAMS.threads, usable_cores(), *asked])):
        yield


class RootCost(NamedTuple):
    """Predicted costs of the semidefinite bounds at the root.

    Attributes
    ----------
    closed, proof, approach, step, full : float
        Seconds on one idle core: of bounds in closed form, of a proof, of one of the first steps of
        a descent, of one of its Newton steps, and of a whole target.
    bytes : float
        Memory of the matrices.
    """

    closed: float
    proof: float
    approach: float
    step: float
    full: float
    bytes: float

    @property
    def fits(self) -> bool:
        """Whether the matrices fit into memory."""
        return self.bytes <= LARGE


def root_cost(
    targets: Targets, inputs: int, units: int, layers: Sequence[int] | None = None
) -> RootCost:
    """Predict the cost of semidefinite bounds with `inputs` inputs and `units` unstable units.

    Parameters
    ----------
    targets : Targets
    inputs, units : int
    layers : sequence of int, optional
        Numbers of units by layer; by default all are in one layer.
    """
    functionals = len(targets.functionals) if targets.whole_ball else 1
    euclidean = targets.norm == "l2" or targets.by_column
    closed = seconds_of(closed_form_cost(inputs, [units] if layers is None else layers))
    proof = seconds_of(4.0 * inputs * units**2 + 3.0 * units**3)
    d = 1 if targets.by_column else inputs
    # six matrices at a time
    size = 48.0 * (d + units + functionals) ** 2
    if euclidean:  # the ball is rotated to the span of all rows
        d = min(d, units + functionals)
    outputs = functionals if targets.whole_ball else 0
    step = seconds_of(min(step_costs(d, units, outputs, euclidean).values()))
    full = PARAMS.usual_steps * step
    return RootCost(closed, proof, step / PARAMS.newton, step, full, size)


def wide_kernel(kernel: Kernel, seen: int) -> WideKernel | None:
    """Return the kernel of nodes with fixed proportions of zeta; None where that does not pay.

    Parameters
    ----------
    kernel : Kernel
    seen : int
        Largest possible rank of the units as functions of the inputs.
    """
    if not isinstance(kernel, WideKernel | DenseKernel) or kernel.euclidean:
        return None
    units = len(kernel.rows)
    ball = step_costs(min(kernel.inputs, seen, units + 1), units, euclidean=True)["dense"]
    if PARAMS.proportional * ball >= min(step_costs(kernel.inputs, units).values()):
        return None
    if isinstance(kernel, WideKernel):
        return kernel
    return WideKernel(kernel.rows, kernel.objective, kernel.inputs)
