"""What was run: records in a CSV file that a later run resumes from."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeAlias

from lipyomo.api import solve
from lipyomo.compare.process import MethodProcess
from lipyomo.compare.worker import Task
from lipyomo.errors import ProblemError
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Guarantee, Result
from lipyomo.settings import Settings

Tell: TypeAlias = Callable[[str], None]


@dataclass(frozen=True)
class Case:
    """One problem of an experiment, built when it is needed.

    Attributes
    ----------
    group : str
        Column of a table, or line style of a figure.
    name : str
        Unique within the experiment.
    build : callable
        Makes the problem.
    x : float
        Place on a figure's axis.
    """

    group: str
    name: str
    build: Callable[[], LipschitzProblem]
    x: float = 0.0


@dataclass(frozen=True)
class Entry:
    """A method with its options: one row of a table, one line of a figure.

    Attributes
    ----------
    label : str
    method : str
    options : dict
    gap : float
        Relative gap at which an exact method may stop.
    groups : tuple of str
        Groups that it is run on; all if empty.
    here : bool
        Run in this process (for thousands of small problems).
    """

    label: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    gap: float = 0.0
    groups: tuple[str, ...] = ()
    here: bool = False


@dataclass(frozen=True)
class Record:
    """One method on one problem.

    Attributes
    ----------
    group, case, label : str
    x : float
    status : str
    value, lower, upper : float
        NaN for a value that there is not.
    seconds : float
    """

    group: str
    case: str
    label: str
    x: float
    status: str
    value: float
    lower: float
    upper: float
    seconds: float

    @property
    def exact(self) -> bool:
        """Whether the constant is known."""
        return self.status == "exact"


def read_records(path: Path) -> list[Record]:
    """Records of an earlier run; none if there is no file.

    Raises
    ------
    ProblemError
        If the file is something else.
    """
    if not path.exists():
        return []
    names = [item.name for item in fields(Record)]
    with path.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream)
        if reader.fieldnames != names:
            raise ProblemError(
                f"'{path}' is no record of an earlier run.  Remedy: remove it, or choose another "
                "folder"
            )
        return [
            Record(
                row["group"],
                row["case"],
                row["label"],
                float(row["x"]),
                row["status"],
                float(row["value"]),
                float(row["lower"]),
                float(row["upper"]),
                float(row["seconds"]),
            )
            for row in reader
        ]


def _append(path: Path, record: Record) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, [item.name for item in fields(Record)], lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerow(asdict(record))


def _value(result: Result) -> float:
    if result.guarantee is Guarantee.EXACT and not result.is_exact:
        return result.upper
    return result.value


def _run(entry: Entry, case: Case, problem: LipschitzProblem, settings: Settings) -> Record:
    blank = Record(
        case.group, case.name, entry.label, case.x, "", math.nan, 0.0, math.inf, math.nan
    )
    if entry.here:
        result: Result | None = solve(problem, entry.method, settings)
        status, seconds = "", 0.0
    else:
        outcome = MethodProcess(Task(entry.method, problem, settings)).wait()
        result, status, seconds = outcome.result, outcome.kind, outcome.seconds
        blank = replace(blank, lower=outcome.lower, upper=outcome.upper)
    if result is None:
        return replace(blank, status=status, seconds=seconds)
    return replace(
        blank,
        status=str(result.status),
        value=_value(result),
        lower=result.lower,
        upper=result.upper,
        seconds=result.seconds,
    )


def run_cases(
    cases: Sequence[Case],
    entries: Sequence[Entry],
    path: Path,
    time_limit: float,
    tell: Tell,
) -> list[Record]:
    """Run all entries on all cases, except for what `path` holds already.

    Parameters
    ----------
    cases, entries : sequences
    path : Path
        CSV file; every record is appended as soon as it is there.
    time_limit : float
        Seconds of each run.
    tell : callable
        Called with one line of text a run.

    Returns
    -------
    list of Record
        Old and new, in the order of cases and entries.
    """
    known = {(r.case, r.label): r for r in read_records(path)}
    found = []
    for number, case in enumerate(cases, 1):
        wanted = [e for e in entries if not e.groups or case.group in e.groups]
        missing = [e for e in wanted if (case.name, e.label) not in known]
        problem = case.build() if missing else None
        for entry in wanted:
            record = known.get((case.name, entry.label))
            if record is None and problem is not None:
                settings = Settings(time_limit=time_limit, gap=entry.gap, options=entry.options)
                record = _run(entry, case, problem, settings)
                _append(path, record)
                tell(
                    f"[{number}/{len(cases)}] {case.name}: {entry.label} {record.value:.6g} "
                    f"({record.status}, {record.seconds:.2f} s)"
                )
            if record is not None:
                found.append(record)
    return found
