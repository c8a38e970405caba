"""The engine with the pipeline of smooth networks, as settings ask for it."""

from __future__ import annotations

from collections.abc import Callable

from lipyomo.problem import LipschitzProblem
from lipyomo.run import Clock
from lipyomo.search.checkpoint import Checkpoint
from lipyomo.search.engine import Engine, Found, News
from lipyomo.search.smooth.boxes import Boxes
from lipyomo.search.smooth.context import Question
from lipyomo.search.smooth.params import Params
from lipyomo.search.smooth.pipeline import Pipeline
from lipyomo.search.workers import asked_for
from lipyomo.settings import Settings


def smooth_search(
    problem: LipschitzProblem,
    settings: Settings,
    clock: Clock | None = None,
    news: News | None = None,
    checkpoint: Checkpoint | None = None,
    report: Callable[[float], object] | None = None,
    cutoff: float = 0.0,
    params: Params | None = None,
) -> Found[Boxes]:
    """Branch and bound on a problem with smooth units, without frozen inputs.

    Parameters
    ----------
    problem : LipschitzProblem
        On a bounded domain.
    settings : Settings
        Uses gap, threads (processes), executor, dask and seed; time_limit and should_stop where no
        clock is given.
    clock : Clock, optional
    news : callable, optional
        Hears of better points and bounds.
    checkpoint : Checkpoint, optional
        Where to keep the state, and from where to go on.
    report : callable, optional
        Called with proved bounds of the whole problem.
    cutoff : float, optional
        A bound that is to be proved: boxes with bounds up to it are fathomed, whatever is attained.
    params : Params, optional

    Returns
    -------
    Found
    """
    question = Question(problem, settings.gap, cutoff, params or Params())
    engine = Engine(
        Pipeline(question, settings.seed),
        clock or Clock(settings.time_limit, settings.should_stop),
        workers=asked_for(settings),
        checkpoint=checkpoint,
        news=news,
        report=report,
    )
    return engine.run()
