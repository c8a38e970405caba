"""What all decisions over data share: points, rows and reports, parallel work, onnxruntime."""

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
"""An ONNX file, maybe with the node at which it was cut, and maybe with values of inputs."""


class DataError(LipyomoError):
    """A row of a data set cannot be used."""


def data_points(inputs: npt.ArrayLike) -> FloatArray:
    """Inputs as points, shape (n, d).

    Raises
    ------
    LipyomoError
        If they are not one row a point.
    """
    points = real_numbers(inputs, "the inputs", LipyomoError, copy=False)
    if points.ndim < 2:
        raise LipyomoError(f"inputs have shape {points.shape}, expected one row a point")
    return points.reshape(len(points), math.prod(points.shape[1:]))


def class_of(label: float) -> int:
    """A label as the number of a class.

    Raises
    ------
    DataError
        If it is no whole number from 0 on.
    """
    if not (math.isfinite(label) and label == math.floor(label) and label >= 0):
        raise DataError("the row's label is missing, or no whole number from 0 on")
    return int(label)


def clip_box(clip: Clip | None, d: int) -> Box:
    """The box of valid inputs, all of R^d without one."""
    return Box(*read_clip(clip), d)


def data_point(row: npt.ArrayLike, clip: Box) -> FloatArray:
    """A row as a point of the box of valid inputs, shape (d,).

    Raises
    ------
    DataError
        If it is none.
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
    """What is known of one row of a report.

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
        """Plain data; infinities become None."""
        found: dict[str, Any] = plain(asdict(self))
        return found

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> Self:
        """The row that `to_dict` has written.

        Raises
        ------
        DataError
            If an entry is missing, or of another type; the message names it.
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
"""How the fields of rows are read, by their types."""


class Report(ABC):
    """Rows, and what they add up to.

    Attributes
    ----------
    rows : tuple
        Each with a `verdict`, None where it could not be used, and a method `to_dict`.
    """

    rows: tuple[Any, ...]

    def count(self, verdict: StrEnum) -> int:
        """Number of rows with a verdict."""
        return sum(row.verdict is verdict for row in self.rows)

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """Counts and shares, as plain data."""

    def to_dict(self) -> dict[str, Any]:
        """Summary and rows as plain data."""
        return {"summary": self.summary(), "rows": [row.to_dict() for row in self.rows]}

    def to_frame(self) -> DataFrame:
        """The rows as a pandas frame."""
        return frame_of(row.to_dict() for row in self.rows)

    def reasons(self) -> dict[str, int]:
        """Why rows could not be used, and how many of them."""
        return dict(Counter(row.error for row in self.rows if row.error is not None))


Job = TypeVar("Job")
Found = TypeVar("Found", bound=ReportRow)


class RowTask(ABC, Generic[Job, Found]):
    """What travels to a worker once, and decides rows there.

    Attributes
    ----------
    settings : Work
    """

    settings: Work

    @abstractmethod
    def blank(self, job: Job) -> Found:
        """The row of a job of which nothing is known."""

    @abstractmethod
    def decide(self, job: Job) -> Found:
        """Decide one row."""

    def __call__(self, job: Job) -> Found:
        """Decide one row, or say why it cannot be used."""
        start = time.monotonic()
        try:
            row = self.decide(job)
        except LipyomoError as error:
            row = replace(self.blank(job), error=str(error))
        return replace(row, seconds=time.monotonic() - start)

    def __getstate__(self) -> dict[str, Any]:
        """An executor stays in its process."""
        return {**vars(self), "settings": replace(self.settings, executor=None)}

    def run(self, jobs: Sequence[Job]) -> Iterator[Found]:
        """Rows as they are decided."""
        with self.settings.pool(len(jobs)) as pool:
            for position, found in pool.run(self, jobs):
                if isinstance(found, LipyomoError):
                    found = replace(self.blank(jobs[position]), error=str(found))
                logger.info("row %d: %s", found.index, found.error or found.verdict)
                yield found


class RuntimeValues:
    """Outputs by onnxruntime, of the file that a network came from as it is when this is made.

    It travels to other processes by the file's name: they read it again, and refuse another
    content.

    Parameters
    ----------
    source : path, (path, output) or (path, output, fixed)
    inputs : int
        How many the network takes.

    Raises
    ------
    LipyomoError
        If the file cannot be read or run, or is another network's.
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
        """The outputs at a point, flattened."""
        if self._runtime is None:
            self._runtime, digest = self._opened()
            if digest != self._digest:
                raise LipyomoError(
                    f"'{self._path}' was changed while its network was worked on.  Remedy: begin "
                    "again with a file that stays"
                )
        return self._runtime(point)[0]

    def __getstate__(self) -> dict[str, Any]:
        """Sessions stay in their process."""
        return vars(self) | {"_runtime": None}

    def _opened(self) -> tuple[Runner, bytes]:
        """The file in onnxruntime, and the digest of its content, external data included."""
        from lipyomo.formats.onnx.read import read_model
        from lipyomo.formats.onnx.runtime import open_runtime

        model = read_model(self._path)
        digest = hashlib.sha256(model.SerializeToString(deterministic=True)).digest()
        return open_runtime(model, self._output, self._fixed), digest
