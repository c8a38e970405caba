"""The engine with the pipeline of a piecewise-linear network, as settings ask for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lipyomo.cascade import Cascade
from lipyomo.problem import LipschitzProblem
from lipyomo.run import Clock
from lipyomo.search.checkpoint import Checkpoint
from lipyomo.search.engine import Engine, Found, News
from lipyomo.search.relu.context import Question
from lipyomo.search.relu.node import Node
from lipyomo.search.relu.params import Params
from lipyomo.search.relu.pipeline import Pipeline
from lipyomo.search.workers import asked_for
from lipyomo.settings import Settings


def branch_and_bound(
    problem: LipschitzProblem,
    settings: Settings,
    clock: Clock | None = None,
    news: News | None = None,
    checkpoint: Checkpoint | None = None,
    cascade: Cascade | None = None,
    report: Callable[[float], object] | None = None,
    cutoff: float = 0.0,
    params: Params | None = None,
) -> tuple[Found[Node], Pipeline]:
    """Branch and bound on a problem without frozen inputs.

    Parameters
    ----------
    problem : LipschitzProblem
    settings : Settings
        Uses gap, threads (processes), executor, dask and seed; time_limit and should_stop where no
        clock is given.
    clock : Clock, optional
    news : callable, optional
        Hears of better points and bounds.
    checkpoint : Checkpoint, optional
        Where to keep the state, and from where to go on.
    cascade : Cascade, optional
        Bounds that the root starts from.
    report : callable, optional
        Called with proved bounds of the whole problem.
    cutoff : float, optional
        A bound that is to be proved: nodes with bounds up to it are fathomed, whatever is attained.
    params : Params, optional

    Returns
    -------
    Found
    Pipeline
        With what it knows in the end.
    """
    state = None if checkpoint is None else checkpoint.state
    known = None if state is None else state.get("known")
    if state is None and cascade is not None:
        known = np.concatenate([np.zeros(0, dtype=np.int8), *cascade.bounds.phases])
    question = Question(problem, settings.gap, cutoff, known, params=params or Params())
    pipeline = Pipeline(question, settings.seed, cascade)
    engine = Engine(
        pipeline,
        clock or Clock(settings.time_limit, settings.should_stop),
        workers=asked_for(settings),
        checkpoint=checkpoint,
        news=news,
        report=report,
    )
    return engine.run(), pipeline
