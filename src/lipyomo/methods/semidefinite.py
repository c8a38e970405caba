"""Semidefinite bounds of the reduced problem, shared by several methods."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipyomo.base.clock import Clock
from lipyomo.base.errors import MethodError
from lipyomo.methods.support import form_fits, joint_first, switched
from lipyomo.networks.phases import count_open
from lipyomo.problems.reductions.presolve import Presolved, presolve
from lipyomo.problems.run import Run
from lipyomo.relaxations.cascade import Cascade
from lipyomo.relaxations.linear import LayerBounds
from lipyomo.relaxations.semidefinite.chain_root import (
    ChainBounds,
    chain_bounds,
    exact_tangents,
)
from lipyomo.relaxations.semidefinite.choice import root_cost
from lipyomo.relaxations.semidefinite.root import (
    RootBounds,
    semidefinite_targets,
    tighten_root,
)
from lipyomo.relaxations.semidefinite.switched_bounds import PartBounds, SwitchedBounder
from lipyomo.search.spaces.phases.params import Params
from lipyomo.search.spaces.phases.root import switches_pay


def run_semidefinite(run: Run, cascade: Cascade, clock: Clock) -> int:
    """Run the semidefinite stages after the quick ones, and report every bound to the run.

    Parameters
    ----------
    run : Run
    cascade : Cascade
    clock : Clock
        Time of the semidefinite stages.

    Returns
    -------
    int
        Number of Newton steps.
    """
    joint_first(cascade, clock)
    steps = 0
    if (chain := deep_bounds(run, cascade.bounds, cascade)) is not None:
        chain = chain.run(clock=clock, report=run.drop_upper)
        cascade.tighten(chain.upper)
        run.drop_upper(chain.value)
        steps = chain.steps
    if chain is None or chain.untouched:
        operator_bound(run, cascade.bounds)
    if (chain is None or chain.untouched) and form_fits(run, cascade.bounds.phases):
        try:
            left, root = root_bounds(run, cascade.bounds, cascade)
        except MethodError as error:
            run.warn(f"{error}: the bound is that of cheaper methods")
        else:
            root = tighten_root(root, cascade, clock, report=run.drop_upper)
            root = _lowered_with_switches(run, left, root, cascade, clock)
            run.drop_upper(root.value)
            steps = root.steps
    cascade.run(("joint",))
    run.drop_upper(cascade.value)
    return steps


def operator_bound(run: Run, bounds: LayerBounds) -> None:
    """Report the bound by the layers' operators to a run, if it is too large for one matrix.

    Parameters
    ----------
    run : Run
    bounds : LayerBounds
        Its pre-activation bounds.
    """
    small = switched(run, bounds)
    tangents = exact_tangents(small.network, small.directions)
    if tangents is None or not tangents.hidden or small.norm == "l1" or run.expired:
        return
    try:
        targets = semidefinite_targets(small)
    except MethodError:
        return
    layers = [count_open((phases,)) for phases in bounds.phases]
    if root_cost(targets, tangents.input_dim, sum(layers), layers).fits:
        return
    if not targets.whole_ball or small.output_norm.dual_ball == "round":
        from lipyomo.relaxations.semidefinite.sparse_chain import sparse_bounds

        sparse_bounds(tangents, bounds.phases, targets, run.clock, run.drop_upper)


def deep_bounds(
    run: Run, bounds: LayerBounds, cascade: Cascade | None = None
) -> ChainBounds | None:
    """Prepare semidefinite bounds of the reduced problem layer by layer, without computing them.

    The parameters are those of `root_bounds`.  Returns None if these bounds do not apply, or are
    not much cheaper than `root_bounds`.
    """
    small = switched(run, bounds)
    try:
        targets = semidefinite_targets(small)
    except MethodError:
        return None
    known = np.full(targets.count, np.inf) if cascade is None else cascade.bounds_of(targets)
    tangents = exact_tangents(small.network, small.directions)
    return chain_bounds(tangents, small.output_norm, bounds.phases, targets, known)


def root_bounds(
    run: Run, bounds: LayerBounds, cascade: Cascade | None = None
) -> tuple[Presolved, RootBounds]:
    """Prepare semidefinite bounds of the presolved reduced problem, without computing them.

    Parameters
    ----------
    run : Run
    bounds : LayerBounds
        Its pre-activation bounds.
    cascade : Cascade, optional
        Gives initial bounds.

    Raises
    ------
    MethodError
        If the dual ball has too many vertices.
    """
    small = switched(run, bounds)
    targets = semidefinite_targets(small)
    known = None if cascade is None else cascade.bounds_of(targets)
    given = small.network, targets.functionals, small.domain, bounds.phases
    left = presolve(*given, small.directions)
    targets = replace(targets, functionals=left.functionals)
    norm = small.output_norm
    return left, RootBounds.of(left.system, targets, left.phases, known, norm, join=True)


def _lowered_with_switches(
    run: Run, left: Presolved, root: RootBounds, cascade: Cascade, clock: Clock
) -> RootBounds:
    """Lower bounds further by switches that depend on the inputs, if these pay and serve."""
    small, units, targets = run.problem.reduced.problem, root.form.units.size, root.targets
    # slopes of smooth units are not decided by the signs of pre-activations
    if small.network.smooth or not switches_pay(Params(), root.cost.full, units):
        return root
    if not SwitchedBounder.serves(left.system, targets, small.domain):
        return root
    bounder = SwitchedBounder(left.system, targets, root.bounder)
    if not bounder.fits(clock, units, targets.count):
        return root
    bounds, domain = cascade.bounds, small.domain
    known = PartBounds(
        left.restrict(np.concatenate(bounds.lower), -np.inf),
        left.restrict(np.concatenate(bounds.upper), np.inf),
        domain.lower,
        domain.upper,
        np.zeros(0, dtype=np.int64),
        np.zeros(0, dtype=bool),
    )
    every, report = range(targets.count), run.drop_upper
    found = bounder.worst_first(root.form, known, every, root.upper, 0.0, clock, {}, report)
    return root.with_known(found.bounds)
