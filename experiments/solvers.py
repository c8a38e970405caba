"""Solvers side by side: model transfer, time to optimality, gap after a while, agreement.

    python -m experiments solvers                        # 60 s a solve, all instances
    python -m experiments solvers --limit 10 --only iris residual --solvers highs scip
    python -m experiments solvers --reference ../shared/reference

Instances are local Lipschitz constants (linf to linf norms, unit box) of networks in ``models/``,
and, with ``--reference``, of the reference networks that fit the free licences.  Tables are printed
as Markdown.  Transfer is measured in CPU seconds, solving in wall-clock seconds.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyomo.environ as pyo

from experiments.reference import ROOT, load_reference
from lipyomo import Box, Network, load
from lipyomo.blocks import LipschitzBlock
from lipyomo.solvers import SolveProgress, SolverOptions, available_solvers, solve_model
from lipyomo.solvers.compilation import compile_model
from lipyomo.solvers.matrices import LinearModel

MODELS = (
    "iris",
    "random10_s0",
    "random16_s0",
    "residual",
    "plane/l2_0250",
    "plane/ce_0250",
    "synthetic10",
)
REFERENCES = (
    "chen_10_12_seed0",
    "lipbab_iris_4-5-5-3",
    "exlipbab_iris_4-6-6-3",
    "lipbab_sd_10-15-10-3",
    "lipmip_A_16-16-16-2_cube_s0",
    "lipmip_C_2-20-40-20-2_cube_s0",
)
MARKS = (10.0, 30.0, 60.0)
REPEATS = 5


@dataclass(frozen=True)
class Instance:
    """A model, as Pyomo has it and compiled."""

    name: str
    model: Any
    linear: LinearModel


def instance(name: str, network: Network, box: Box | None = None) -> Instance:
    model = pyo.ConcreteModel()
    model.lipschitz = LipschitzBlock()
    box = box or Box(0.0, 1.0, network.input_dim)
    model.lipschitz.build_formulation(network, domain=box)
    model.largest = pyo.Objective(expr=model.lipschitz.value, sense=pyo.maximize)
    return Instance(name, model, compile_model(model))


def reference(path: Path) -> Instance:
    known = load_reference(path)
    box = known.box if "lo" in known.arrays else Box(0.0, 1.0, known.network.input_dim)
    return instance(path.stem, known.network, box)


def best_of(action: Callable[[], object]) -> float:
    """CPU seconds of the fastest of some runs, in milliseconds."""
    times = []
    for _ in range(REPEATS):
        began = time.process_time()
        action()
        times.append(time.process_time() - began)
    return 1e3 * min(times)


def raw_pass_model(linear: LinearModel) -> None:
    import highspy

    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = linear.size
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = linear.cost, linear.lower, linear.upper
    lp.row_lower_, lp.row_upper_ = linear.row_lower, linear.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = linear.matrix.indptr
    lp.a_matrix_.index_ = linear.matrix.indices
    lp.a_matrix_.value_ = linear.matrix.data
    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    lp.integrality_ = [kinds[flag] for flag in linear.integer.tolist()]
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.passModel(lp)


def highs_transfer(linear: LinearModel) -> None:
    import highspy

    from lipyomo.solvers.highs import pass_model

    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    pass_model(highs, linear)


def pyomo_highs_transfer(model: Any) -> None:
    from pyomo.contrib.solver.solvers.highs import Highs

    Highs().set_instance(model)


def gurobi_transfer(linear: LinearModel) -> None:
    import gurobipy

    from lipyomo.solvers.gurobi import _environment, pass_model

    with gurobipy.Model(env=_environment(gurobipy)) as target:
        pass_model(gurobipy, target, linear)


def cplex_transfer(linear: LinearModel) -> None:
    import cplex

    from lipyomo.solvers.cplex import pass_model

    with cplex.Cplex() as target:
        pass_model(target, linear)


def mps_transfer(linear: LinearModel) -> None:
    from lipyomo.solvers.mps import write_mps

    with tempfile.TemporaryDirectory() as folder:
        write_mps(linear, Path(folder) / "model.mps")


def transfer_table(instances: Sequence[Instance]) -> None:
    usable = set(available_solvers())
    columns: dict[str, Callable[[Instance], object]] = {
        "compile": lambda case: compile_model(case.model),
        "raw passModel": lambda case: raw_pass_model(case.linear),
        "HiGHS": lambda case: highs_transfer(case.linear),
        "Gurobi": lambda case: gurobi_transfer(case.linear),
        "CPLEX": lambda case: cplex_transfer(case.linear),
        "MPS file (SCIP, CBC)": lambda case: mps_transfer(case.linear),
        "Pyomo's HiGHS": lambda case: pyomo_highs_transfer(case.model),
    }
    for name in ("Gurobi", "CPLEX"):
        if name.lower() not in usable:
            del columns[name]
    print("\nTransfer (CPU milliseconds)\n")
    print("| instance | rows | columns | entries |", " | ".join(columns), "|")
    print("|---|--:|--:|--:|" + "--:|" * len(columns))
    for case in instances:
        rows, width = case.linear.size
        times = [f"{best_of(partial(f, case)):.2f}" for f in columns.values()]
        print(
            f"| {case.name} | {rows} | {width} | {case.linear.matrix.nnz} |", " | ".join(times), "|"
        )


def gap_at(reports: list[SolveProgress], seconds: float) -> float:
    """Relative gap of the last report before a moment."""
    before = [report for report in reports if report.seconds <= seconds]
    if not before or before[-1].incumbent is None or not math.isfinite(before[-1].bound):
        return math.inf
    last = before[-1]
    assert last.incumbent is not None
    return abs(last.bound - last.incumbent) / max(abs(last.incumbent), 1e-10)


def solve_table(
    instances: Sequence[Instance], solvers: Sequence[str], limit: float, threads: int
) -> None:
    marks = [mark for mark in MARKS if mark <= limit]
    heads = [f"gap at {mark:g} s" for mark in marks]
    print(f"\nSolving ({threads} thread(s), {limit:g} s at most, relative gap 1e-6)\n")
    print(
        "| instance | solver | status | seconds | nodes | value | bound |", " | ".join(heads), "|"
    )
    print("|---|---|---|--:|--:|--:|--:|" + "--:|" * len(heads))
    for case in instances:
        values, bounds = [], []
        for name in solvers:
            reports: list[SolveProgress] = []
            options = SolverOptions(time_limit=limit, threads=threads)
            outcome = solve_model(case.model, name, options, progress=reports.append)
            done = outcome.status.proven
            gaps = [
                "-" if done and outcome.seconds <= mark else f"{100 * gap_at(reports, mark):.3g} %"
                for mark in marks
            ]
            value = "-" if outcome.incumbent is None else f"{outcome.incumbent:.8g}"
            print(
                f"| {case.name} | {outcome.solver} | {outcome.status.value} | "
                f"{outcome.seconds:.2f} | {outcome.nodes} | {value} | {outcome.bound:.8g} |",
                " | ".join(gaps),
                "|",
                flush=True,
            )
            if outcome.status.proven and outcome.incumbent is not None:
                values.append(outcome.incumbent)
            bounds.append(outcome.bound)
        spread = (max(values) - min(values)) / max(1.0, abs(values[0])) if values else math.nan
        sound = not values or min(bounds) >= max(values) * (1 - 1e-6)
        print(
            f"| {case.name} | all | {len(values)} proven | | | spread {spread:.1e} | "
            f"{'no contradiction' if sound else 'CONTRADICTION'} |" + " |" * len(heads)
        )


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments solvers",
        description=__doc__.splitlines()[0] if __doc__ else None,
    )
    parser.add_argument("--limit", type=float, default=60.0, help="seconds a solve")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="names of instances")
    parser.add_argument("--solvers", nargs="*", help="names of solvers")
    parser.add_argument("--reference", type=Path, help="folder of reference networks")
    arguments = parser.parse_args(words)
    cases = [instance(name, load(ROOT / "models" / f"{name}.onnx")) for name in MODELS]
    if arguments.reference is not None:
        cases += [reference(arguments.reference / f"{name}.npz") for name in REFERENCES]
    if arguments.only:
        cases = [case for case in cases if case.name in arguments.only]
    transfer_table(cases)
    solve_table(cases, arguments.solvers or available_solvers(), arguments.limit, arguments.threads)
