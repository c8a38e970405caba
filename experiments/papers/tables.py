"""From records to the rows of a table."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from experiments.papers.records import Record
from lipyomo.analyses.compare.run import error_text, joint_interval, relative_error

Printed: TypeAlias = Mapping[str, Mapping[str, str]]
"""What the paper prints, by group and label."""

HEADER = (
    "group",
    "method",
    "runs",
    "cpu_seconds",
    "std",
    "value_mean",
    "relative_error",
    "paper_seconds",
    "paper_error",
)


def intervals(records: Sequence[Record]) -> dict[str, tuple[float, float]]:
    """The best interval of each case; a point where one of the methods was exact."""
    ends: dict[str, list[tuple[float, float, bool]]] = {}
    for record in records:
        ends.setdefault(record.case, []).append((record.lower, record.upper, record.exact))
    return {case: joint_interval(found) for case, found in ends.items()}


def _mean(values: list[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return float(np.mean(finite)) if finite else math.nan


def summarise(records: Sequence[Record], printed: Printed, times: Printed) -> list[tuple[str, ...]]:
    """Mean CPU time, value and relative error of each method in each group.

    Errors are relative to the exact value of each case, or to the nearer end of the best interval:
    they are least errors then, and marked by ``*``.  An exact method that ran out of time counts
    with its upper end.

    Returns
    -------
    list of tuple of str
        Rows under `HEADER`.
    """
    best = intervals(records)
    keys = list(dict.fromkeys((record.group, record.label) for record in records))
    rows: list[tuple[str, ...]] = []
    for group, label in sorted(keys, key=lambda key: _first(records, key[0])):
        mine = [r for r in records if (r.group, r.label) == (group, label)]
        pairs = [replace(r, value=r.least, label=f"{label}, least pair") for r in mine]
        for part in (mine, [r for r in pairs if math.isfinite(r.value)]):
            if part:
                rows.append(_row(part, best, printed.get(group, {}), times.get(group, {})))
    return rows


def _row(
    mine: Sequence[Record],
    best: Mapping[str, tuple[float, float]],
    printed: Mapping[str, str],
    times: Mapping[str, str],
) -> tuple[str, ...]:
    """One row: a method in a group."""
    label = mine[0].label
    errors = [relative_error(r.value, *best[r.case]) for r in mine]
    known = [error for error in errors if error is not None]
    open_ = any(best[r.case][0] < best[r.case][1] for r in mine)
    seconds = [r.cpu for r in mine if math.isfinite(r.cpu)]
    refused = all(r.status == "refused" for r in mine)
    return (
        mine[0].group,
        label,
        str(len(mine)),
        "refused" if refused else f"{_mean(seconds):.3f}",
        "" if refused else f"{float(np.std(seconds)):.3f}",
        _number(_mean([r.value for r in mine])),
        error_text(_mean(known) if known else None, open_),
        times.get(label, ""),
        printed.get(label, ""),
    )


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"


def _first(records: Sequence[Record], group: str) -> int:
    """Where a group begins, so that its rows stay together."""
    return next(i for i, record in enumerate(records) if record.group == group)


def write_table(path: Path, rows: Sequence[tuple[str, ...]]) -> None:
    """Write the rows under `HEADER` as CSV."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(rows)
