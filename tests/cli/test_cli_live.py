"""The line that is shown while a method runs."""

from __future__ import annotations

import math

from lipyomo.cli.live import Tracker
from lipyomo.problems.result import Progress


def test_an_interval_only_shrinks() -> None:
    tracker = Tracker()
    for lower, upper in ((1.0, 4.0), (0.5, 3.0), (2.0, 5.0)):
        tracker.update(Progress(0.0, lower, upper))
    assert (tracker.now.lower, tracker.now.upper) == (2.0, 3.0)


def test_intervals_of_several_questions_are_not_mixed() -> None:
    tracker = Tracker()
    tracker.about("output 0")(Progress(0.0, 2.0, 3.0, 5))
    tracker.about("output 1")(Progress(0.0, 0.5, 1.0, 2))
    assert (tracker.now.lower, tracker.now.upper, tracker.now.nodes) == (0.5, 1.0, 2)
    assert str(tracker.now).startswith("output 1:")


def test_an_end_may_be_negative_and_alone() -> None:
    tracker = Tracker()
    tracker.about("")(Progress(0.0, -math.inf, -0.25, question="largest value"))
    line = str(tracker.now)
    assert line.startswith("largest value:")
    assert "upper -0.25" in line
    assert "lower" not in line
