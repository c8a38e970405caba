"""A picture of the interval over time."""

from __future__ import annotations

import math
from pathlib import Path

from lipyomo.cli.parser import UsageError
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Result


def plot_history(result: Result, problem: LipschitzProblem, path: Path) -> None:
    """Draw lower and upper ends over seconds into `path`; the suffix names the format.

    Raises
    ------
    UsageError
        If the format is unknown or the file cannot be written.
    """
    from matplotlib.figure import Figure

    ends = [*result.history, (result.seconds, result.lower, result.upper)]
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for column, name in ((1, "lower"), (2, "upper")):
        points = [(row[0], row[column]) for row in ends if math.isfinite(row[column])]
        if points:
            times, values = zip(*points, strict=True)
            axes.step(times, values, where="post", marker=".", label=name)
    axes.set_xlabel("seconds")
    axes.set_ylabel(f"Lipschitz constant, {problem.describe_norms()}")
    axes.set_title(f"{problem.network.name}: {result.method}")
    if axes.lines:
        axes.legend()
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"--plot: cannot write '{path}': {error}") from None
