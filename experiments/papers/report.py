"""Make one table or figure again: run, resume, summarise, draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.papers.cases import Scope
from experiments.papers.experiments import EXPERIMENTS
from experiments.papers.figures import draw
from experiments.papers.records import Record, Tell, run_cases
from experiments.papers.sources import models_folder
from experiments.papers.tables import HEADER, summarise, write_table
from lipyomo.base.errors import ProblemError
from lipyomo.base.pictures import new_figure
from lipyomo.base.system.plain import finite

NAMES = tuple(EXPERIMENTS)
"""What can be made again, by its name in the paper."""


@dataclass(frozen=True)
class Report:
    """What was made.

    Attributes
    ----------
    name, title : str
    header : tuple of str
    rows : list of tuple of str
        The table; for a figure, the means of its series.
    records : list of Record
        Every run.
    files : list of Path
        What was written.
    """

    name: str
    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    records: list[Record]
    files: list[Path]

    def to_dict(self) -> dict[str, object]:
        """Plain data for JSON; what is no finite number becomes None."""
        records = [
            {
                key: finite(value) if isinstance(value, float) else value
                for key, value in asdict(record).items()
            }
            for record in self.records
        ]
        return {
            "name": self.name,
            "title": self.title,
            "table": [dict(zip(self.header, row, strict=True)) for row in self.rows],
            "records": records,
            "files": [str(path) for path in self.files],
        }


def _quiet(line: str) -> None:
    """Say nothing."""


def reproduce(
    name: str,
    quick: bool = False,
    output_dir: str | Path = "reproduced",
    progress: Tell | None = None,
    trials: int | None = None,
    mnist: str | Path | None = None,
    time_limit: float | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Report:
    """Make a table or figure of the LipMIP paper again.

    Every run is appended to ``NAME-runs.csv`` at once; a second call skips what is there.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    quick : bool, optional
        Few and small problems, for minutes; written beside the full run under ``NAME-quick``.
    output_dir : str or Path, optional
    progress : callable, optional
        Called with one line of text a run.
    trials : int, optional
        Repetitions (networks, balls, points); see `Scope`.
    mnist : str or Path, optional
        Folder of MNIST's idx files, to train new MNIST networks.
    time_limit : float, optional
        Seconds of each run, instead of the experiment's own.
    should_stop : callable, optional
        As of `Settings`; what was finished stays in the file.

    Returns
    -------
    Report

    Raises
    ------
    ProblemError
        If the name is unknown, a number is not positive, or the project's networks are missing.
    MissingExtra
        If networks have to be trained without PyTorch, or a figure drawn without matplotlib.
    """
    if name not in EXPERIMENTS:
        raise ProblemError(
            f"there is no '{name}' to make again.  Remedy: use one of {', '.join(NAMES)}"
        )
    if trials is not None and trials < 1:
        raise ProblemError(f"at least one trial is needed, not {trials}")
    experiment, folder = EXPERIMENTS[name], Path(output_dir)
    scope = Scope(quick, trials, None if mnist is None else Path(mnist))
    if name.startswith("figure"):
        new_figure(1.0, 1.0)  # without matplotlib, say so before anything is computed
    models_folder()  # outside a clone, say so before anything is written
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ProblemError(f"cannot write to '{folder}': {error.strerror}") from None
    stem = f"{name}-quick" if quick else name
    runs, table = folder / f"{stem}-runs.csv", folder / f"{stem}.csv"
    records = run_cases(
        experiment.cases(scope),
        experiment.entries(quick),
        runs,
        experiment.seconds[0 if quick else 1] if time_limit is None else time_limit,
        progress or _quiet,
        should_stop,
    )
    rows = summarise(records, experiment.printed, experiment.times)
    write_table(table, rows)
    files = [runs, table]
    if name.startswith("figure"):
        picture = folder / f"{stem}.png"
        draw(name, records, picture)
        files.append(picture)
    return Report(name, experiment.title, HEADER, rows, records, files)
