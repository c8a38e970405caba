"""However often a search is interrupted, and wherever, its upper end stays one."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem, Settings
from lipyomo.bnb import driver
from lipyomo.bnb.driver import Search
from networks import random_network


class Interrupts:
    """Ctrl-C after so many nodes, and again some lines later, while workers' nodes are put back."""

    def __init__(self, nodes: int, lines: int) -> None:
        self.nodes, self.lines, self.sent = nodes, lines, 0

    def tell(self, point: object, upper: float, nodes: int, message: str) -> None:
        if self.sent or nodes < self.nodes:
            return
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_code.co_name != "_search_together":
            frame = frame.f_back
        if frame is not None:
            self.sent = 1
            sys.settrace(self.trace)
            frame.f_trace = self.trace
            raise KeyboardInterrupt

    def trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename == driver.__file__ and event == "line":
            self.lines -= 1
            if self.lines == 0:
                self.sent = 2
                raise KeyboardInterrupt
        return self.trace


@pytest.fixture(scope="module")
def problem() -> LipschitzProblem:
    return LipschitzProblem(random_network(3, (6, 12, 12, 1)), Box(-1, 1, 6))


@pytest.mark.parametrize("lines", [1, 2, 3, 5, 8])
def test_a_second_interrupt_loses_no_node(problem: LipschitzProblem, lines: int) -> None:
    truth = lipyomo.solve(problem)
    interrupts = Interrupts(20, lines)
    search = Search(problem.reduced.problem, Settings(threads=2), tell=interrupts.tell)
    before = sys.gettrace()
    try:
        found = search.run()
    finally:
        sys.settrace(before)
    assert interrupts.sent == 2
    assert truth.lower <= found.upper < np.inf
    assert found.lower <= truth.upper
