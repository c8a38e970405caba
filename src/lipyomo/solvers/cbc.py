"""Adapter of CBC's executable: the one of the package cbcbox, or one of the user.

The model is passed as an MPS file of a minimisation, so that no sign can be misread.  The adapter
allows for the following behaviour of CBC:

- It prints its dual bound with six digits: `cbc_log` rounds it outward.
- With a positive gap, it reports "optimal" and its incumbent as the bound although it has discarded
  better solutions within the gap, in the library as well as in the program.  So no bound is assumed
  to be closer to the incumbent than the gap.
- Without an incumbent, its solution file has the point of the relaxation, and may call it optimal.
"""

from __future__ import annotations

import functools
import math
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import SolverError
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.base.system.extras import installed
from lipyomo.base.system.processes import MOMENT
from lipyomo.solvers import cbc_log
from lipyomo.solvers.adapter import Availability, MatrixSolver, RunReport, RunRequest
from lipyomo.solvers.matrices import Feature, LinearModel
from lipyomo.solvers.mps import write_mps, write_start
from lipyomo.solvers.options import Native
from lipyomo.solvers.outcome import TOLERANCE
from lipyomo.solvers.program import Program, answer
from lipyomo.solvers.status import SolveStatus


class Cbc(MatrixSolver):
    """The CBC solver (EPL 2.0 licence), through its program.

    Parameters
    ----------
    executable : str, optional
        Path or name of the program; the one of the package ``cbcbox`` by default.
    **kwargs
        Values of `config`.
    """

    name = "cbc"
    title = "CBC"
    package = "cbcbox"
    terms = "EPL 2.0, no limits"
    takes = frozenset({Feature.ORDERED_SETS})
    executable: str | None = None
    """The program to run."""

    def __init__(self, executable: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.executable = executable

    def available(self) -> Availability:
        """Return whether the program exists, and is CBC if the user has named it."""
        found = self.program() is not None and not self.complaint()
        return Availability.FullLicense if found else Availability.NotFound

    def program(self) -> str | None:
        """Return the path of the program, or None."""
        if self.executable is not None:
            folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
            return shutil.which(
                self.executable, path=os.pathsep.join(filter(os.path.isabs, folders))
            )
        return str(self.module().cbc_bin_path()) if installed(self.package) else None

    def complaint(self) -> str:
        """Return why the program named by the user cannot be used; empty for the package's."""
        if self.executable is None:
            return ""
        program = self.program()
        if program is None:
            return f"is not installed: there is no program '{self.executable}'"
        trouble = _banner(program)[1]
        return f"cannot be used: {trouble}" if trouble else ""

    def version(self) -> tuple[int, ...] | None:
        """Return the version of the program; for a development version, that of its package."""
        program = self.program()
        if program is None:
            return None
        said = cbc_log.version(_banner(program)[0])
        if said == (0,) and self.executable is None:
            return self.version_of(self.module())
        return said

    def check_option(self, name: str, value: Native) -> None:
        """Raise `SolverError` unless the program accepts the option (without its dash)."""
        said = answer(self._need_program(), *_option(name, value))
        complaint = cbc_log.OPTION_ERROR.search(said)
        if complaint is not None:
            raise SolverError(f"CBC does not take {value!r} for '{name}': {complaint[0].strip()}")

    def run(self, model: LinearModel, request: RunRequest) -> RunReport:
        """Solve; see `MatrixSolver.run`."""
        program = self._need_program()
        minimisation, factor = _for_the_program(model)
        with tempfile.TemporaryDirectory(prefix="lipyomo-") as name:
            folder = Path(name)
            write_mps(minimisation, folder / "model.mps", with_sets=True)
            arguments = _arguments(request, factor)
            if request.start is not None and model.is_mip:
                write_start(minimisation, request.start, folder / "start.sol")
                arguments += ["-mipstart", "start.sol"]
            command = [program, "model.mps", *arguments, "-solve", "-solution", "result.sol"]
            limit = request.time_limit
            child = Program(command, folder, None if limit is None else limit + MOMENT)
            lines: list[str] = []

            def take(line: str) -> None:
                if line.endswith("\n"):  # an incomplete line may end within a number
                    lines.append(line)
                    request.supervisor.write(line)
                    row = cbc_log.progress_row(line)
                    if row is not None:
                        best, bound, nodes = row
                        best = None if best is None else best / factor
                        request.supervisor.report(best, bound / factor, nodes)

            request.supervisor.run(lambda: child.run(take), child.interrupt)
            solution = folder / "result.sol"
            text = solution.read_text("utf-8", errors="replace") if solution.exists() else ""
        return _read(minimisation, factor, child, "".join(lines), text, request)

    def _need_program(self) -> str:
        program = self.program()
        if program is None:
            raise SolverError(
                "the program cbc cannot be found (pip install cbcbox)"
                if self.executable is None
                else f"there is no program '{self.executable}'"
            )
        return program


def _for_the_program(model: LinearModel) -> tuple[LinearModel, float]:
    """Return the minimisation passed to the program, and the factor of its objective.

    The factor is a power of two, negative for a maximisation.  Clp compares reduced costs with an
    absolute 1e-7: with tiny cost coefficients every point would count as optimal, with huge ones
    none.
    """
    largest = float(np.abs(model.cost).max())
    factor = 1.0 if largest == 0.0 else 2.0 ** -round(math.log2(largest))
    factor = -factor if model.maximise else factor
    # CBC treats larger bounds as infinite in some of its steps; make that consistent.
    scaled = replace(
        model,
        lower=np.where(model.lower <= -cbc_log.Infinite.COLUMN_BOUND, -np.inf, model.lower),
        upper=np.where(model.upper >= cbc_log.Infinite.COLUMN_BOUND, np.inf, model.upper),
        cost=factor * model.cost,
        offset=factor * model.offset,
        maximise=False,
    )
    return scaled, factor


def _arguments(request: RunRequest, factor: float) -> list[str]:
    """Return the common options and the native options as arguments."""
    arguments = ["-timeMode", "elapsed", "-increment", repr(EQUAL)]
    if request.time_limit is not None:
        arguments += ["-sec", repr(float(request.time_limit))]
    if request.threads is not None and request.threads > 1:
        arguments += ["-threads", str(request.threads)]
    if request.abs_gap is not None:
        arguments += ["-allow", repr(request.abs_gap * abs(factor))]
    if request.rel_gap is not None:
        # CBC's ratio is relative to the larger of incumbent and bound.
        arguments += ["-ratio", repr(request.rel_gap / (1.0 + request.rel_gap))]
    if request.integrality_tolerance is not None:
        arguments += ["-integerT", repr(float(request.integrality_tolerance))]
    if request.node_limit is not None:
        arguments += ["-maxNodes", str(request.node_limit)]
    for name, value in request.native.items():
        arguments += _option(name, value)
    return arguments


def _option(name: str, value: Native) -> list[str]:
    """Return an option as arguments; booleans become CBC's values on and off."""
    text = ("on" if value else "off") if isinstance(value, bool) else str(value)
    return [f"-{name}", text]


def _read(
    model: LinearModel,
    factor: float,
    child: Program,
    log: str,
    solution: str,
    request: RunRequest,
) -> RunReport:
    """Read status, incumbent, bound and nodes, in units of the original objective."""
    header = solution.partition("\n")[0]
    status = cbc_log.said_ending(log, header, model.is_mip)
    message = ""
    if request.supervisor.halted and status not in (SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE):
        status = SolveStatus.INTERRUPTED
    elif child.late and status not in (SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE):
        status = SolveStatus.TIME_LIMIT
        message = "CBC did not end at its time limit, and was ended"
    elif status is SolveStatus.ERROR or child.return_code != 0:
        status = SolveStatus.ERROR
        last = log.strip().splitlines()[-1:] or ["no output"]
        message = f"CBC ended with code {child.return_code}: {last[0]}"
    found = cbc_log.has_incumbent(log, header, model.is_mip)
    x = _point(model, solution) if found else None
    if x is not None and np.abs(x).max() >= cbc_log.Infinite.VALUE:
        # CBC's simplex method has mistaken a ray for an optimum.
        x, status = None, SolveStatus.UNBOUNDED
    bound = _bound(model, status, log, x, request, abs(factor))
    nodes = cbc_log.nodes(log)
    return RunReport(status, x, None if bound is None else bound / factor, nodes, message)


def _bound(
    model: LinearModel,
    status: SolveStatus,
    log: str,
    x: FloatArray | None,
    request: RunRequest,
    scale: float,
) -> float | None:
    """Return a valid lower bound of the minimisation passed to the program."""
    printed = cbc_log.printed_bound(log)
    if x is None:
        return printed
    incumbent = model.objective(x)
    if not model.is_mip:
        return incumbent if status is SolveStatus.OPTIMAL else None
    allowed = max(
        (request.abs_gap or 0.0) * scale,
        (request.rel_gap or 0.0) * abs(incumbent),
        EQUAL,
    )
    within = incumbent - allowed
    if status is SolveStatus.OPTIMAL:
        return within
    return None if printed is None else min(printed, within)


def _point(model: LinearModel, text: str) -> FloatArray:
    """Read the columns of a solution file; missing ones are zero."""
    x = np.zeros(model.size[1])
    for line in text.splitlines()[1:]:
        words = line.replace("**", " ").split()
        if len(words) >= 3 and words[1][:1] == "C" and words[1][1:].isdigit():
            x[int(words[1][1:])] = float(words[2])
    # Round integer columns within the tolerance; larger deviations stay visible as violations.
    rounded = np.round(x)
    return np.where(model.integer & (np.abs(x - rounded) <= TOLERANCE), rounded, x)


@functools.cache
def _banner(program: str) -> tuple[str, str]:
    """Return the banner of a program, which is queried once, and why this is not CBC, if so."""
    try:
        said = answer(program, "-version")
    except SolverError as error:
        return "", str(error)
    if cbc_log.BANNER.search(said):
        return said, ""
    first = said.strip().partition("\n")[0][:60] or "nothing"
    return said, f"{program} is not CBC: asked for its version it says '{first}'"
