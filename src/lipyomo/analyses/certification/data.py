"""Common parts of all decisions on data: points, rows and reports, parallel work, onnxruntime."""

from __future__ import annotations

import hashlib
import logging
import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, MISSING, asdict, dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt

from lipyomo.analyses.certification.columns import Columns
from lipyomo.base.arguments import real_numbers
from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import LipyomoError
from lipyomo.base.system.plain import PlainEntries, plain
from lipyomo.problems.domains import Box
from lipyomo.problems.domains.base import read_clip
from lipyomo.problems.result import frame_of
from lipyomo.problems.settings import Work

if TYPE_CHECKING:
    from pandas import DataFrame

    from lipyomo.formats.onnx.runtime import Runner

logger = logging.getLogger(__name__)

Clip = tuple[float | FloatArray, float | FloatArray]

OnnxSource = str | Path | tuple[Any, ...]
"""An ONNX file, optionally with the node at which it was cut and with values of inputs."""


class DataError(LipyomoError):
    """A row of a data set cannot be used."""


def data_points(inputs: npt.ArrayLike) -> FloatArray:
    """Return inputs as points, shape (n, d).

    Raises
    ------
    LipyomoError
        If they do not have one row for each point.
    """
    points = real_numbers(inputs, "the inputs", LipyomoError, copy=False)
    if points.ndim < 2:
        raise LipyomoError(f"inputs have shape {points.shape}, expected one row a point")
    return points.reshape(len(points), math.prod(points.shape[1:]))


def class_of(label: float) -> int:
    """Return a label as the index of a class.

    Raises
    ------
    DataError
        If it is not a whole number from 0 on.
    """
    if not (math.isfinite(label) and label == math.floor(label) and label >= 0):
        raise DataError("the row's label is missing, or no whole number from 0 on")
    return int(label)


def clip_box(clip: Clip | None, d: int) -> Box:
    """Return the box of valid inputs, or all of R^d by default."""
    return Box(*read_clip(clip), d)


def data_point(row: npt.ArrayLike, clip: Box) -> FloatArray:
    """Return a row as a point of the box of valid inputs, shape (d,).

    Raises
    ------
    DataError
        If it is not one.
    """
    point = np.asarray(row, dtype=np.float64).reshape(-1)
    if point.size != clip.dimension:
        raise DataError(
            f"the row has {point.size} entries, the network takes {clip.dimension} inputs"
        )
    if not np.isfinite(point).all():
        raise DataError(
            "the row holds NaN or infinite entries (cells that are missing, or no numbers, are NaN)"
        )
    if not clip.contains(point):
        raise DataError("the row lies outside the box of valid inputs (--clip)")
    return point


@dataclass(frozen=True)
class ReportRow:
    """The result for one row of a report.

    Attributes
    ----------
    index : int
    verdict : StrEnum or None
        One of `verdicts`; None if the row could not be used.
    seconds : float
    error : str or None
        Why the row could not be used.
    """

    verdicts: ClassVar[type[StrEnum]]

    index: int
    _: KW_ONLY
    verdict: StrEnum | None = None
    seconds: float = 0.0
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; infinities become None."""
        found: dict[str, Any] = plain(asdict(self))
        return found

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> Self:
        """Return the row that `to_dict` has written.

        Raises
        ------
        DataError
            If an entry is missing or has another type; the message names it.
        """
        entries = PlainEntries(row, "the row", DataError)
        known: dict[str, Any] = {}
        for each in fields(cls):
            if row.get(each.name) is None and each.default is not MISSING:
                continue
            kind = str(each.type).removesuffix(" | None")
            if each.name == "verdict":
                known[each.name] = entries.member(each.name, cls.verdicts)
            else:
                known[each.name] = _READERS[kind](entries, each.name)
        return cls(**known)


_READERS: dict[str, Callable[[PlainEntries, str], Any]] = {
    "int": PlainEntries.count,
    "float": PlainEntries.number,
    "bool": PlainEntries.truth,
    "str": PlainEntries.text,
    "list[float]": lambda entries, name: entries.vector(name).tolist(),
}
"""The functions that read fields of rows, by their types."""


class Report(ABC):
    """Rows and their summary.

    Attributes
    ----------
    rows : tuple
        Each has a `verdict`, which is None if the row could not be used, and a method `to_dict`.
    columns : Columns or None
        How the columns of a table were interpreted.
    """

    rows: tuple[Any, ...]
    columns: Columns | None

    def count(self, verdict: StrEnum) -> int:
        """Return the number of rows with a verdict."""
        return sum(row.verdict is verdict for row in self.rows)

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """Return counts and shares, as plain data."""

    def to_dict(self) -> dict[str, Any]:
        """Return columns, the summary and rows as plain data."""
        data = None if self.columns is None else self.columns.to_dict()
        rows = [row.to_dict() for row in self.rows]
        return {"data": data, "summary": self.summary(), "rows": rows}

    def to_frame(self) -> DataFrame:
        """Return the rows as a pandas frame."""
        return frame_of(row.to_dict() for row in self.rows)

    def reasons(self) -> dict[str, int]:
        """Return the reasons why rows could not be used, with counts."""
        return dict(Counter(row.error for row in self.rows if row.error is not None))


Job = TypeVar("Job")
Found = TypeVar("Found", bound=ReportRow)


class RowTask(ABC, Generic[Job, Found]):
    """A task that is sent to each worker once, and decides rows there.

    Attributes
    ----------
    settings : Work
    """

    settings: Work

    @abstractmethod
    def blank(self, job: Job) -> Found:
        """Return the row of a job without results."""

    @abstractmethod
    def decide(self, job: Job) -> Found:
        """Decide one row."""

    def __call__(self, job: Job) -> Found:
        """Decide one row, or record why it cannot be used."""
        start = time.monotonic()
        try:
            row = self.decide(job)
        except LipyomoError as error:
            row = replace(self.blank(job), error=str(error))
        return replace(row, seconds=time.monotonic() - start)

    def __getstate__(self) -> dict[str, Any]:
        """Drop the executor, which stays in its process."""
        return {**vars(self), "settings": replace(self.settings, executor=None)}

    def run(self, jobs: Sequence[Job]) -> Iterator[Found]:
        """Yield rows as they are decided."""
        with self.settings.pool(len(jobs)) as pool:
            for position, found in pool.run(self, jobs):
                if isinstance(found, LipyomoError):
                    found = replace(self.blank(jobs[position]), error=str(found))
                logger.info("row %d: %s", found.index, found.error or found.verdict)
                yield found


class RuntimeValues:
    """Outputs by onnxruntime, of the file that a network was loaded from.

    Other processes receive the file's name and read it again; they reject it if its content has
    changed since this object was created.

    Parameters
    ----------
    source : path, (path, output) or (path, output, fixed)
    inputs : int
        The number of inputs of the network.

    Raises
    ------
    LipyomoError
        If the file cannot be read or run, or belongs to another network.
    """

    def __init__(self, source: OnnxSource, inputs: int) -> None:
        parts = source if isinstance(source, tuple) else (source,)
        path, self._output, self._fixed = (*parts, None, None)[:3]
        self._path = Path(path).absolute()
        runtime, self._digest = self._opened()
        if runtime.size != inputs:
            raise LipyomoError(
                f"'{self._path}' takes {runtime.size} inputs, the network {inputs}.  Remedy: give "
                "the file that the network came from"
            )
        self._runtime: Runner | None = runtime

    def __call__(self, point: FloatArray) -> FloatArray:
        """Evaluate the outputs at a point, flattened."""
        if self._runtime is None:
            self._runtime, digest = self._opened()
            if digest != self._digest:
                raise LipyomoError(
                    f"'{self._path}' was changed while its network was worked on.  Remedy: begin "
                    "again with a file that stays"
                )
        return self._runtime(point)

    def __getstate__(self) -> dict[str, Any]:
        """Drop the session, which stays in its process."""
        return vars(self) | {"_runtime": None}

    def _opened(self) -> tuple[Runner, bytes]:
        """Open the file in onnxruntime; also return a digest of its content with external data."""
        from lipyomo.formats.onnx.read import read_model
        from lipyomo.formats.onnx.runtime import open_runtime

        model = read_model(self._path)
        digest = hashlib.sha256(model.SerializeToString(deterministic=True)).digest()
        return open_runtime(model, self._output, self._fixed), digest
