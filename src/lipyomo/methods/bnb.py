"""Branch and bound with semidefinite node bounds: exact, for every pair of norms and any domain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lipyomo.base.arrays import FloatArray, dense
from lipyomo.base.digest import array_digest
from lipyomo.base.errors import MethodError
from lipyomo.base.kept import Kept
from lipyomo.base.numerics.rounding import close_enough
from lipyomo.base.system.memory import ARRAYS, LARGE
from lipyomo.methods.registry import STARVED, TAKES_ALL, method
from lipyomo.methods.support import (
    form_seconds,
    joint_first,
    run_cascade,
    search_bytes,
)
from lipyomo.networks.digest import network_digest
from lipyomo.primal.regions.witness import witness_near
from lipyomo.problems.domains.base import domain_digest
from lipyomo.problems.problem import LOOKS, LipschitzProblem
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.run import Run
from lipyomo.problems.targets import targets_of
from lipyomo.relaxations.cascade import QUICK, STAGES
from lipyomo.search.engine import protocol
from lipyomo.search.engine.checkpoint import Checkpoint, Known
from lipyomo.search.engine.engine import Engine, Found
from lipyomo.search.engine.protocol import NODES, N, T


def why_not(problem: LipschitzProblem, memory: float, way: str) -> str | None:
    """Return why a reduced problem cannot be searched with this much memory, or None."""
    try:
        targets_of(problem)
    except MethodError as error:
        return str(error)
    return f"the network is too large to {way} in memory" if memory > LARGE else None


@method(
    "bnb",
    "branch and bound, semidefinite",
    Guarantee.EXACT,
    "this project (node bounds: semidefinite multipliers, Cauchy-Schwarz; affine for smooth units)",
    **TAKES_ALL,
)
def run(run: Run) -> Result:
    """Search activation patterns and input boxes until the interval closes.

    Parameters
    ----------
    run : Run

    Returns
    -------
    Result
    """
    settings, reduced = run.settings, run.problem.reduced

    def known() -> Known:
        witness = run.witness  # read once, as this is also called from another thread
        point = None if witness is None else reduced.reduce_point(witness.point)
        return Known(point, run.upper)

    if not isinstance(settings.checkpoint, Path):
        return search(run, checkpoint=settings.checkpoint)
    file, resume, overwrite = settings.checkpoint, settings.resume, settings.overwrite
    owner = owner_of(run.problem)
    checkpoint = Checkpoint(file, owner, resume, overwrite, known)
    before = checkpoint.before
    if before is not None:
        run.drop_upper(before.upper)
        if before.best is not None:
            run.raise_lower(witness_near(run.problem, before.best))
    try:
        with checkpoint:
            result = search(run, checkpoint=checkpoint)
    except KeyboardInterrupt:
        run.clock.stop()
        result = run.result(done=False)
    if checkpoint.trouble is not None:
        result = result.noting(checkpoint.trouble, unwritten=checkpoint.trouble)
    return result


def owner_of(problem: LipschitzProblem) -> dict[str, str]:
    """Digests of the parts of a problem: the network, the domain, the two norms, the directions.

    Frozen inputs are part of the network, since they are absorbed into its first layer.
    """
    small = problem.reduced.problem
    vertices = () if small.dual_vertices is None else small.dual_vertices
    along = () if small.directions is None else dense(small.directions)
    still = " (or value of an input that cannot move)" if problem.domain.frozen.any() else ""
    return {
        f"network{still}": network_digest(small.network),
        "domain": domain_digest(small.domain),
        "input norm": small.norm,
        "output norm": f"{small.output_norm.name} {array_digest(vertices)}",
        "directions": array_digest(along),
    }


def search(
    run: Run,
    cutoff: float = 0.0,
    checkpoint: Kept | None = None,
    slack: float | None = None,
) -> Result:
    """Search until the interval closes, or the constant is proved to be at most `cutoff`.

    Parameters
    ----------
    run : Run
    cutoff : float, optional
        Nodes with bounds up to it are closed, whatever value is attained.  If the search ends with
        all nodes closed, `run.upper` is at most the cutoff, or the incumbent exceeds it.
    checkpoint : Kept, optional
        Where to keep the state.
    slack : float, optional
        Relative distance from the incumbent at which a bound counts as met; by default that of the
        search.

    Returns
    -------
    Result
    """
    if run.problem.reduced.problem.network.smooth:
        return search_smooth(run, cutoff, checkpoint, slack)
    return search_phases(run, cutoff, checkpoint, slack)


def search_phases(
    run: Run, cutoff: float, checkpoint: Kept | None, slack: float | None = None
) -> Result:
    """Run `search` on a piecewise-linear network: over activation patterns, and possibly boxes."""
    from lipyomo.primal.heuristics.local_search import quick_incumbent, search_incumbent
    from lipyomo.search.spaces.phases.params import Params
    from lipyomo.search.spaces.phases.pipeline import pipeline_for
    from lipyomo.search.spaces.phases.statistics import COUNTERS

    problem, reduced = run.problem, run.problem.reduced
    rng = np.random.default_rng(run.settings.seed)
    cascade = run_cascade(run, QUICK)
    joint_first(cascade, run.clock)
    phases = cascade.bounds.phases
    reason = why_not(reduced.problem, search_bytes(reduced.problem, phases), "branch")
    if reason is not None:
        from lipyomo.methods.semidefinite import run_semidefinite

        run.warn(f"{reason}: there is no search, and bounds are those of method sdp")
        run.raise_lower(quick_incumbent(problem, run.settings.seed, run.clock, phases))
        run_semidefinite(run, cascade, run.clock.part())
    if reason is not None or not run.clock.fits(form_seconds(reduced.problem, phases)):
        cascade.run(("joint",))
        run.drop_upper(cascade.value)
        if run.witness is None or not run.expired:
            run.raise_lower(search_incumbent(problem, rng, None, run.clock, phases))
        return run.result(False)
    params = None if slack is None else Params(slack=slack)
    pipeline = pipeline_for(reduced.problem, run.settings, checkpoint, cascade, cutoff, params)
    from lipyomo.search.spaces.joint.context import JointContext
    from lipyomo.search.spaces.joint.pipeline import JointPipeline

    whole: Any = pipeline
    if (context := JointContext.of(reduced.problem)) is not None:  # boxes may be bisected as well
        whole = JointPipeline(pipeline, context, cascade)
    found = explore(run, whole, checkpoint)
    if run.witness is None:  # the constant is zero, which any interior point attains
        for x in reduced.problem.domain.sample(rng, LOOKS):
            if run.raise_lower(witness_near(problem, x)):
                break
    counters = {name: found.counters.get(name, 0) for name in COUNTERS}
    if counters["unresolved"]:
        run.warn(
            f"{counters['unresolved']} regions are too thin to decide whether they have interior"
        )
    run.record(**counters)
    done = close_enough(found.best.value, found.upper) or not run.expired
    ahead = reduced.units.lift(pipeline.look_ahead)
    return run.result(done, unstable=pipeline.unstable_units, look_ahead=ahead)


def search_smooth(
    run: Run, cutoff: float, checkpoint: Kept | None, slack: float | None = None
) -> Result:
    """Run `search` on a network with smooth units: over boxes instead of activation patterns."""
    from lipyomo.search.spaces.boxes.ascent import smooth_incumbent
    from lipyomo.search.spaces.boxes.context import BoxQuestion, box_bytes
    from lipyomo.search.spaces.boxes.norm import Norm
    from lipyomo.search.spaces.boxes.params import Params
    from lipyomo.search.spaces.boxes.pipeline import STUCK, BoxPipeline

    problem, reduced = run.problem, run.problem.reduced
    if problem.is_constant:  # bounds of boxes would be above zero by rounding
        run.raise_lower(witness_near(problem, reduced.problem.domain.center))
        run.drop_upper(0.0)
        return run.result(True)
    memory = ARRAYS * box_bytes(reduced.problem)
    reason = why_not(reduced.problem, memory, "be cut into boxes")
    if reason is not None:
        from lipyomo.methods.semidefinite import run_semidefinite

        run.warn(f"{reason}: there is no search, and bounds are those of method sdp")
        rng = np.random.default_rng(run.settings.seed)
        run_semidefinite(run, run_cascade(run, QUICK), run.clock.part())
        run.raise_lower(smooth_incumbent(problem, rng, None, run.clock))
        return run.result(False)
    run_cascade(run, STAGES)
    params = Params() if slack is None else Params(slack=slack)
    question = BoxQuestion(reduced.problem, run.settings.gap, cutoff, params)
    found = explore(run, BoxPipeline(Norm(question), run.settings.seed), checkpoint)
    stuck = found.counters.get(STUCK, 0)
    run.record(stuck=stuck)
    done = close_enough(found.best.value, found.upper) or not run.expired
    return run.result(done, precise=not stuck)


def explore(run: Run, pipeline: protocol.Pipeline[N, T], checkpoint: Kept | None) -> Found[N]:
    """Run the engine, and pass all results, intermediate and final, to the run."""

    def on_progress(point: FloatArray | None, upper: float, nodes: int, message: str) -> None:
        if point is not None:
            run.raise_lower(witness_near(run.problem, point))
        run.show(upper, nodes, message)

    engine = Engine(
        pipeline,
        run.clock,
        workers=run.settings.workers_within(run.clock),
        checkpoint=checkpoint,
        on_progress=on_progress,
        report=run.drop_upper,
    )
    found = engine.run()
    if found.best.point is not None:
        run.raise_lower(witness_near(run.problem, found.best.point))
    run.drop_upper(found.upper)
    if found.starved:
        run.warn(STARVED)
    run.count(found.counters.get(NODES, 0))
    run.record(root_bound=found.root)
    return found
