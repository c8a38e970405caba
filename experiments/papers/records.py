"""What was run: records in a CSV file that a later run resumes from."""

from __future__ import annotations

import csv
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeAlias

from lipyomo.analyses.api import solve
from lipyomo.base.errors import LipyomoError, ProblemError
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.settings import Formulation, Relaxation, Settings

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
    formulation, bounds : str
        As in `Settings`.
    spectral : bool
        Give the method the l2 norm of the inputs and multiply its upper bound by sqrt(d), as the
        paper does with methods that know no other norm.
    """

    label: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    gap: float = 0.0
    groups: tuple[str, ...] = ()
    formulation: Formulation = "auto"
    bounds: Relaxation = "auto"
    spectral: bool = False


@dataclass(frozen=True)
class Record:
    """One method on one problem.

    Attributes
    ----------
    group, case, label : str
    x : float
    status : str
        A `Status`, or ``refused``.
    value, lower, upper : float
        NaN for a value that there is not.
    seconds, cpu : float
        Wall-clock seconds, and CPU seconds with those of child processes that ended.
    limit : float
        Seconds that the run was given.
    least : float
        Least of the pairwise constants of Table 5; NaN elsewhere.
    note : str
        First warning, or why the method refused.
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
    cpu: float
    limit: float
    least: float
    note: str

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
    remedy = "Remedy: remove it, or choose another folder"
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            reader = csv.DictReader(stream)
            if reader.fieldnames != names:
                raise ProblemError(f"'{path}' is no record of an earlier run.  {remedy}")
            # a run that was killed while it wrote leaves a short line; that run is done again
            return [_parse(row) for row in reader if None not in row.values()]
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise ProblemError(f"cannot read '{path}': {error}.  {remedy}") from None


def _parse(row: dict[str, str]) -> Record:
    texts = ("group", "case", "label", "status", "note")
    values: dict[str, Any] = {
        name: text if name in texts else float(text) for name, text in row.items()
    }
    return Record(**values)


def _append(path: Path, record: Record) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = not path.exists()
    torn = not fresh and not path.read_bytes().endswith(b"\n")
    with path.open("a", newline="", encoding="utf-8") as stream:
        if torn:  # an earlier run was killed while it wrote
            stream.write("\n")
        writer = csv.DictWriter(stream, [item.name for item in fields(Record)], lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerow(asdict(record))


def _value(result: Result) -> float:
    if result.guarantee is Guarantee.EXACT and not result.is_exact:
        return result.upper
    return result.value


def _spent() -> float:
    """CPU seconds of this process and of its children that ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def _spectral(problem: LipschitzProblem) -> LipschitzProblem:
    """The same problem in the l2 norm of the inputs."""
    return LipschitzProblem(problem.network, problem.domain, "l2", output_norm=problem.output_norm)


def _run(entry: Entry, case: Case, problem: LipschitzProblem, settings: Settings) -> Record:
    blank = Record(
        case.group,
        case.name,
        entry.label,
        case.x,
        "refused",
        math.nan,
        0.0,
        math.inf,
        seconds=math.nan,
        cpu=math.nan,
        limit=settings.time_limit,
        least=math.nan,
        note="",
    )
    began = _spent()
    try:
        asked = _spectral(problem) if entry.spectral else problem
        result = solve(asked, entry.method, settings, attain=False)
    except LipyomoError as error:
        return replace(blank, note=str(error))
    if entry.spectral:
        # root and product are rounded up, so that the product stays an upper bound
        root = math.nextafter(math.sqrt(problem.network.input_dim), math.inf)
        upper = math.nextafter(result.upper * root, math.inf)
        result = replace(result, lower=0.0, upper=upper)
    pairwise = result.details.get("values") if result.is_exact else None
    return replace(
        blank,
        status=str(result.status),
        value=_value(result),
        lower=result.lower,
        upper=result.upper,
        seconds=result.seconds,
        cpu=_spent() - began,
        least=min(pairwise) if pairwise else math.nan,
        note=result.warnings[0] if result.warnings else "",
    )


def run_cases(
    cases: Sequence[Case],
    entries: Sequence[Entry],
    path: Path,
    time_limit: float,
    tell: Tell,
    should_stop: Callable[[], bool] | None = None,
) -> list[Record]:
    """Run all entries on all cases, except for what `path` holds already.

    A run that was cut short is done again if it gets more time now.  Methods run on one thread, so
    that their times compare.

    Parameters
    ----------
    cases, entries : sequences
    path : Path
        CSV file; every record is appended as soon as it is there.
    time_limit : float
        Seconds of each run.
    tell : callable
        Called with one line of text a run.
    should_stop : callable, optional
        Polled by the methods; once it is true, the run that was going on is not kept.

    Returns
    -------
    list of Record
        Old and new, in the order of cases and entries.

    Raises
    ------
    KeyboardInterrupt
        If a run was interrupted; finished ones are in the file.
    """
    known = {
        (r.case, r.label): r
        for r in read_records(path)
        if r.status != "interrupted" and (r.status != "time_limit" or r.limit >= time_limit)
    }
    found = []
    for number, case in enumerate(cases, 1):
        wanted = [e for e in entries if not e.groups or case.group in e.groups]
        missing = [e for e in wanted if (case.name, e.label) not in known]
        problem = case.build() if missing else None
        for entry in wanted:
            record = known.get((case.name, entry.label))
            if record is None and problem is not None:
                settings = Settings(
                    time_limit=time_limit,
                    gap=entry.gap,
                    workers=1,
                    check_claims=False,
                    formulation=entry.formulation,
                    bounds=entry.bounds,
                    options=entry.options,
                    should_stop=should_stop,
                )
                record = _run(entry, case, problem, settings)
                if record.status == "interrupted" or (should_stop is not None and should_stop()):
                    raise KeyboardInterrupt
                _append(path, record)
                tell(
                    f"[{number}/{len(cases)}] {case.name}: {entry.label} {record.value:.6g} "
                    f"({record.status}, {record.cpu:.2f} CPU s)"
                )
            if record is not None:
                found.append(record)
    return found
