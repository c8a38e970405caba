"""Ctrl-C at any moment of the engine's book-keeping loses no node; nor does a second one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from polynomials import Part, Polynomial, PolynomialSearch, Question, Task
from test_engine import covered

from lipyomo.base.clock import Clock
from lipyomo.base.system.parallel import InlineExecutor, Workers
from lipyomo.search.engine import queue
from lipyomo.search.engine.checkpoint import Checkpoint
from lipyomo.search.engine.engine import Engine, Found
from lipyomo.search.engine.params import Params
from lipyomo.search.engine.protocol import NODES, Arrays, Outcome, Pulse

QUARTIC = Polynomial((-1.0, 0.5, 1.0), ((4,), (2,), (1,)))
SMALL = Question(QUARTIC, (-1.5,), (2.0,), gap=0.05, record=True, batch=2)
TRUTH = max(QUARTIC(np.array([x])) for x in np.linspace(-1.5, 2.0, 10_001))
NARROW = Params(queue_share=1 << 60, least_queue=4, first_improvement=4.0, improvement=4.0)


def apart(search: Callable[[], Found[Part]]) -> Found[Part]:
    """Run a search in a thread of its own.

    An exception that a tracing function raises within a handler may leave Python's record of what
    is being handled behind (`sys.exc_info`), for as long as the thread lives.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(search).result()


class Interrupts(Clock):
    """Ctrl-C before a line of `queue.py`: that one, and another one after the search has ended.

    Parameters
    ----------
    first : int
        Lines of `queue.py` that are executed before the first one.
    second : int, optional
        And from then on until the second one.
    """

    def __init__(self, first: int, second: int | None = None) -> None:
        super().__init__()
        self._left, self._next = first, second
        self.raised = 0

    def stop(self) -> None:
        super().stop()
        if self._next is not None and self.raised:
            self._left, self._next = self._next, None
            sys.settrace(self._trace)

    def run(self, search: Callable[[], Found[Part]]) -> Found[Part]:
        return apart(lambda: self._traced(search))

    def _traced(self, search: Callable[[], Found[Part]]) -> Found[Part]:
        sys.settrace(self._trace)
        try:
            return search()
        finally:
            sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != queue.__file__:
            return None
        if event == "line":
            self._left -= 1
            if self._left < 0:
                self.raised += 1
                raise KeyboardInterrupt
        return self._trace


def _search(clock: Clock, workers: bool, checkpoint: Checkpoint | None = None) -> Engine[Part, Any]:
    team = Workers[Any, Any](2, executor=InlineExecutor()) if workers else None
    return Engine(SMALL.pipeline(), clock, workers=team, checkpoint=checkpoint, params=NARROW)


def _lines(workers: bool) -> int:
    """How many lines of `queue.py` a whole search executes."""
    many = 10**9
    clock = Interrupts(many)
    assert clock.run(_search(clock, workers).run).complete
    return many - clock._left


@pytest.mark.parametrize("workers", [False, True], ids=["alone", "workers"])
def test_at_every_operation_of_the_queue(tmp_path: Path, workers: bool) -> None:
    points = np.random.default_rng(0).uniform(SMALL.low, SMALL.high, (60, 1))
    lines, went_on = _lines(workers), 0
    assert lines > 500
    for first in range(0, lines, 1 + lines // 50):
        clock = Interrupts(first)
        checkpoint_path = tmp_path / str(first)
        checkpoint = Checkpoint(checkpoint_path, {"problem": "polynomial"})
        found = clock.run(_search(clock, workers, checkpoint).run)
        assert clock.raised == 1
        assert found.upper >= TRUTH
        if not checkpoint_path.exists():  # the root was not known yet
            assert not found.counters
            continue
        went_on += 1
        resumed = Checkpoint(checkpoint_path, {"problem": "polynomial"}, resume=True)
        engine = Engine(SMALL.pipeline(), Clock(), checkpoint=resumed, params=NARROW)
        rest = engine.run()
        assert rest.complete
        assert TRUTH <= rest.upper <= rest.best.value + SMALL.gap
        parts = [part for part, _ in [*found.fathomed, *rest.fathomed]]
        assert covered(points, parts)
    assert went_on > 30


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_search_of_which_only_proofs_are_left_says_what_they_prove() -> None:
    """Ctrl-C comes when all nodes are below the cutoff, and none was settled yet."""
    easy = replace(SMALL, start=1e6)
    found = Engine(easy.pipeline(), Clock(), on_progress=_interrupt).run()
    assert not found.complete
    assert TRUTH <= found.upper <= QUARTIC.bound(*map(np.array, (SMALL.low, SMALL.high))) + 1e-6


class _Interrupted(Checkpoint):
    """Ctrl-C comes whenever it is written."""

    def save(self, state: Arrays) -> None:
        raise KeyboardInterrupt


def test_two_of_them_after_the_last_node_leave_what_was_fathomed(tmp_path: Path) -> None:
    checkpoint = _Interrupted(tmp_path / "state", {"problem": "polynomial"})
    params = NARROW._replace(checkpoint_seconds=1e9)
    easy = replace(SMALL, start=1e6)  # no node is split, and the end is the first to be written
    found = Engine(easy.pipeline(), Clock(), checkpoint=checkpoint, params=params).run()
    assert found.complete
    assert TRUTH <= found.upper < np.inf


def test_an_interrupted_search_is_saved_as_it_stands(tmp_path: Path) -> None:
    path, left = tmp_path / "state", iter([False] * 7)

    def hear(*_: object) -> None:
        if next(left, True):
            raise KeyboardInterrupt

    params = NARROW._replace(checkpoint_seconds=1e9)  # but for the first batch's
    owner = {"problem": "polynomial"}
    engine = Engine(
        SMALL.pipeline(),
        Clock(),
        checkpoint=Checkpoint(path, owner),
        on_progress=hear,
        params=params,
    )
    found = engine.run()
    assert not found.complete
    stopped = Clock(should_stop=lambda: True)
    resumed = Checkpoint(path, owner, resume=True)
    again = Engine(SMALL.pipeline(), stopped, checkpoint=resumed, params=params).run()
    assert again.counters == found.counters
    assert again.counters[NODES] > 2


@pytest.mark.parametrize("workers", [False, True], ids=["alone", "workers"])
def test_and_once_more_while_the_first_one_is_seen_to(workers: bool) -> None:
    lines = _lines(workers)
    twice = 0
    for first in range(0, lines, 1 + lines // 12):
        for second in range(0, 40, 4):
            clock = Interrupts(first, second)
            found = clock.run(_search(clock, workers).run)
            assert found.upper >= TRUTH
            twice += clock.raised == 2
    assert twice > 12


ROOM = Path(queue.__file__).parent


class Twice:
    """Ctrl-C at some piece of on_progress, and again so many lines of the engine's room later."""

    def __init__(self, on_progress: int, lines: int) -> None:
        self._on_progress, self._lines, self.raised = on_progress, lines, 0

    def hear(self, *_: object) -> None:
        self._on_progress -= 1
        if self._on_progress != 0:
            return
        self.raised = 1
        sys.settrace(self._trace)
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            if Path(frame.f_code.co_filename).parent == ROOM:
                frame.f_trace = self._trace
            frame = frame.f_back
        raise KeyboardInterrupt

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if Path(frame.f_code.co_filename).parent == ROOM and event == "line":
            self._lines -= 1
            if self._lines < 0:
                self.raised = 2
                raise KeyboardInterrupt
        return self._trace


@pytest.mark.parametrize("workers", [False, True], ids=["alone", "workers"])
@pytest.mark.parametrize("on_progress", [2, 9])
def test_the_second_one_may_come_at_any_line_after_the_first(
    on_progress: int, workers: bool
) -> None:
    twice = 0
    for lines in range(0, 120, 3):
        interrupts = Twice(on_progress, lines)
        team = Workers[Any, Any](2, executor=InlineExecutor()) if workers else None
        engine = Engine(
            SMALL.pipeline(), Clock(), workers=team, on_progress=interrupts.hear, params=NARROW
        )
        found = apart(engine.run)
        assert found.upper >= TRUTH
        assert not found.complete
        twice += interrupts.raised == 2
    assert twice > 13


class _Hungry(PolynomialSearch):
    """Memory runs out after some tasks."""

    def process(self, task: Task, clock: Clock, pulse: Pulse) -> Outcome[Part]:
        if len(self.improvements) > 2:
            raise MemoryError
        return super().process(task, clock, pulse)


def test_memory_that_runs_out_keeps_the_interval() -> None:
    found = Engine(_Hungry(SMALL), Clock(), params=NARROW).run()
    assert found.starved
    assert not found.complete
    assert found.best.value <= TRUTH <= found.upper < found.root
