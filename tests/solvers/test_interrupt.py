"""Ctrl-C as a terminal sends it, to the whole group of processes."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from lipyomo.solvers import SolveProgress, available_solvers
from lipyomo.solvers.supervise import Supervisor

SERVER = """
import os, signal, sys
import pyomo.environ as pyo
from lipyomo.solvers import solve_model, SolverOptions
from conformance.instances import market_split

def run(name):
    os.setsid()
    signal.alarm(60)
    print(os.getpid(), flush=True)
    model, _ = market_split(pyo.maximize)
    said = []
    def progress(report):
        if report.incumbent is not None and report.bound < 1.0 and not said:
            said.append("ready")
            print("ready", flush=True)
    outcome = solve_model(model, name, SolverOptions(time_limit=60), progress=progress)
    print(outcome.status.name, outcome.incumbent is not None, outcome.bound < 1.0, flush=True)

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        run(line.strip())
        os._exit(0)
    print("exit", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Each solve is a fork with a group of its own: to import takes longer than to solve."""


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))},
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()  # which ends it


@pytest.mark.skipif(sys.platform == "win32", reason="signals to groups are of POSIX")
@pytest.mark.parametrize("name", available_solvers())
def test_ctrl_c_in_a_terminal(server: subprocess.Popen[str], name: str) -> None:
    assert server.stdin is not None
    assert server.stdout is not None
    print(name, file=server.stdin, flush=True)
    group = int(server.stdout.readline())
    assert server.stdout.readline() == "ready\n"
    time.sleep(0.2)
    os.killpg(group, signal.SIGINT)
    said = []
    while not (said and said[-1].startswith("exit")):
        said.append(server.stdout.readline())
        assert said[-1], "the server has ended"
    # Gurobi says by itself that it has heard the signal.
    assert said[-2:] == ["INTERRUPTED True True\n", "exit 0\n"]


def test_a_second_ctrl_c_is_raised_when_the_solver_has_ended() -> None:
    released, ended = threading.Event(), threading.Event()

    def work() -> None:
        released.wait(10)
        ended.set()

    def press() -> None:
        for _ in range(2):
            time.sleep(0.2)
            signal.raise_signal(signal.SIGINT)
        time.sleep(0.2)
        released.set()

    # Signals are handled in the main thread, wherever they are raised.
    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        Supervisor().run(work, lambda: None)
    assert ended.is_set()


def test_what_a_solver_raises_reaches_the_caller() -> None:
    def fail() -> None:
        raise ArithmeticError("inside the solver")

    with pytest.raises(ArithmeticError, match="inside"):
        Supervisor().run(fail, lambda: None)


def test_huge_numbers_of_a_report_are_infinite() -> None:
    heard: list[SolveProgress] = []
    supervisor = Supervisor(heard.append)
    for incumbent, bound in ((1e30, -1e20), (math.nan, 1e100), (2.0, 3.0)):
        supervisor.report(incumbent, bound, 1)
    supervisor.run(lambda: None, lambda: None)
    ends = [(report.incumbent, report.bound) for report in heard]
    assert ends == [(None, -math.inf), (None, math.inf), (2.0, 3.0)]
