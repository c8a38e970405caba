"""Ctrl-C as a terminal sends it, to the whole group of processes."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from lipyomo.solvers import Progress, available_solvers
from lipyomo.solvers.supervise import Supervisor

PROGRAM = """
import pyomo.environ as pyo
from lipyomo.solvers import solve_model, SolverOptions
from conformance.instances import market_split
model, _ = market_split(pyo.maximize)
said = []
def progress(report):
    if report.incumbent is not None and report.bound < 1.0 and not said:
        said.append("ready")
        print("ready", flush=True)
outcome = solve_model(model, {name!r}, SolverOptions(time_limit=60), progress=progress)
print(outcome.status.name, outcome.incumbent is not None, outcome.bound < 1.0, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals to groups are of POSIX")
@pytest.mark.parametrize("name", available_solvers())
def test_ctrl_c_in_a_terminal(name: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(name=name)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=20)
    # Gurobi says by itself that it has heard the signal.
    assert said.splitlines()[-1] == "INTERRUPTED True True"
    assert process.returncode == 0


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
    heard: list[Progress] = []
    supervisor = Supervisor(heard.append)
    for incumbent, bound in ((1e30, -1e20), (math.nan, 1e100), (2.0, 3.0)):
        supervisor.report(incumbent, bound, 1)
    supervisor.run(lambda: None, lambda: None)
    ends = [(report.incumbent, report.bound) for report in heard]
    assert ends == [(None, -math.inf), (None, math.inf), (2.0, 3.0)]
