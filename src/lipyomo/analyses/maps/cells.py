"""Cells: the boxes of a map, on a grid or arbitrary."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lipyomo.base.arguments import real_numbers, whole_number
from lipyomo.base.arrays import FloatArray, middles, read_only
from lipyomo.base.errors import DomainError
from lipyomo.base.system.archives import read_arrays
from lipyomo.base.system.memory import ARRAYS, machine_memory, memory_limit
from lipyomo.base.system.outputs import shown, why
from lipyomo.networks.naming import by_name
from lipyomo.problems.domains import Box, Domain
from lipyomo.problems.domains.base import read_vector


@dataclass(frozen=True, eq=False)
class Grid:
    """The grid on which cells lie.

    Attributes
    ----------
    axes : tuple of int
        The inputs that are divided.
    edges : tuple of ndarray, shapes (n_k + 1,)
        Grid lines along each of these, increasing.  The index of cells runs fastest along the last
        axis.
    """

    axes: tuple[int, ...]
    edges: tuple[FloatArray, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells along each axis."""
        return tuple(edges.size - 1 for edges in self.edges)


@dataclass(frozen=True, eq=False)
class Cells:
    """Closed boxes ``lower <= x <= upper`` in R^d.

    Neighbours on a grid share exactly the float64 numbers of their common face.

    Attributes
    ----------
    lower, upper : ndarray, shape (n, d)
        Read-only.  Inputs may be fixed (equal ends), but not all inputs of a cell.
    grid : Grid or None
        Their grid, if they are on one.
    """

    lower: FloatArray
    upper: FloatArray
    grid: Grid | None = None

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            ends = np.array(real_numbers(getattr(self, name), "the cells", DomainError), ndmin=2)
            object.__setattr__(self, name, read_only(ends))
        if self.lower.shape != self.upper.shape or self.lower.ndim != 2 or not self.lower.size:
            raise DomainError(
                f"cells have lower ends {self.lower.shape} and upper ends {self.upper.shape}, "
                "expected both (cells, inputs)"
            )
        if not (np.isfinite(self.lower).all() and np.isfinite(self.upper).all()):
            raise DomainError("the cells hold NaN or infinite ends.  Remedy: bounded boxes")
        wrong = np.flatnonzero((self.lower > self.upper).any(axis=1))
        if wrong.size:
            raise DomainError(f"cell {wrong[0]} is empty: a lower end is above its upper end")
        points = np.flatnonzero((self.lower == self.upper).all(axis=1))
        if points.size:
            raise DomainError(
                f"cell {points[0]} is a single point.  Remedy: let at least one input move"
            )

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def dimension(self) -> int:
        """Number of inputs d."""
        return int(self.lower.shape[1])

    @property
    def hull(self) -> Box:
        """The smallest box that contains all cells."""
        return Box(self.lower.min(axis=0), self.upper.max(axis=0))

    @property
    def middle(self) -> FloatArray:
        """Midpoints of the cells, shape (n, d)."""
        return middles(self.lower, self.upper)

    def box(self, index: int) -> Box:
        """Return one cell as a domain."""
        return Box(self.lower[index], self.upper[index])


def grid(
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
    counts: int | Sequence[int],
    axes: Sequence[int | str] | None = None,
    dimension: int | None = None,
    names: Sequence[str] | None = None,
) -> Cells:
    """Divide a box into cells of equal size.

    Parameters
    ----------
    lower, upper : array_like, shape (d,), or float
        Ends of the box.  If both are numbers and `dimension` is missing, the box has only the
        divided axes.
    counts : int or sequence of int
        Number of cells along each divided axis.
    axes : sequence of int or str, optional
        The divided axes, by number or name; the first ones by default.  All cells have the ends of
        the box along the others.
    dimension : int, optional
        Number of inputs d.
    names : sequence of str, optional
        Names of all inputs, such as `Network.input_names`.

    Returns
    -------
    Cells

    Raises
    ------
    DomainError
        If counts and axes do not match, the cells take more memory than there is, or a side is too
        thin to be divided in float64 numbers.

    Examples
    --------
    >>> from lipyomo.analyses.maps import grid
    >>> cells = grid(-1.0, 1.0, (2, 2))
    >>> len(cells), cells.lower[3].tolist(), cells.grid.shape
    (4, [0.0, 0.0], (2, 2))
    """
    many = (counts,) if np.ndim(counts) == 0 else tuple(np.asarray(counts).tolist())
    numbers = tuple(whole_number(n, "the number of cells", DomainError, least=1) for n in many)
    known = None if names is None else tuple(names)
    which = tuple(range(len(numbers)))
    if axes is not None:
        which = tuple(by_name(list(axes), known, what="axes", error=DomainError))
    size = max(len(numbers), dimension or 0, np.size(lower), np.size(upper), len(known or ()))
    low = read_vector(lower, size, "the lower end of the grid")
    high = read_vector(upper, size, "the upper end of the grid")
    if len(which) != len(numbers) or len(set(which)) != len(which):
        raise DomainError(f"{len(numbers)} numbers of cells for the axes {which}")
    if any(not 0 <= axis < size for axis in which):
        raise DomainError(f"the axes {which} are not all inputs 0 to {size - 1}")
    if not np.isfinite([low, high]).all():
        raise DomainError("a box with infinite ends has no cells.  Remedy: bounded boxes")
    most = min(machine_memory(), memory_limit()) / (ARRAYS * low.nbytes)
    if math.prod(numbers) > most:
        raise DomainError(
            f"{math.prod(numbers):,} cells of {size} inputs are more than the memory takes, "
            f"{most:,.0f}.  Remedy: fewer cells"
        )
    edges = []
    for axis, count in zip(which, numbers, strict=True):
        ends = np.linspace(low[axis], high[axis], count + 1)
        ends[0], ends[-1] = low[axis], high[axis]
        if not (np.diff(ends) > 0).all():
            raise DomainError(f"axis {axis} is too thin to be divided into {count} cells")
        edges.append(read_only(ends))
    where = Grid(which, tuple(edges))
    places = np.indices(where.shape).reshape(len(which), -1)
    lower, upper = (np.repeat(end[None], places.shape[1], axis=0) for end in (low, high))
    for axis, lines, place in zip(which, edges, places, strict=True):
        lower[:, axis], upper[:, axis] = lines[place], lines[place + 1]
    return Cells(lower, upper, where)


def halved_cells(lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bisect boxes (n, d) along their longest edges; return ends (2 n, d), lower halves first."""
    axis, number = (upper - lower).argmax(axis=1), np.arange(len(lower))
    low, high = lower.copy(), upper.copy()
    ends = lower[number, axis], upper[number, axis]
    low[number, axis] = high[number, axis] = ends[0] + 0.5 * (ends[1] - ends[0])
    return np.concatenate([lower, low]), np.concatenate([high, upper])


def cells_of(given: Cells | Iterable[Box] | npt.ArrayLike | str | PathLike[str]) -> Cells:
    """Make cells from a list of boxes, an array or a file.

    Parameters
    ----------
    given : Cells, list of Box, array_like or path
        An array, also in a ``.npy`` file, has shape (n, 2, d), with lower and upper ends, or
        (n, 2 d), with all lower ends of a cell followed by its upper ends.  A CSV file has rows of
        the latter kind.

    Raises
    ------
    DomainError
        If these are not valid cells.
    """
    if isinstance(given, Cells):
        return given
    if isinstance(given, str | PathLike):
        return _read(Path(given))
    if isinstance(given, np.ndarray) or not isinstance(given, Iterable):
        return _of_rows(real_numbers(given, "the cells", DomainError))
    entries = list(given)
    boxes = [entry for entry in entries if isinstance(entry, Domain) and entry.is_box]
    if not boxes or len(boxes) < len(entries):
        return _of_rows(real_numbers(entries, "the cells", DomainError))
    sizes = {box.dimension for box in boxes}
    if len(sizes) > 1:
        raise DomainError(f"the boxes have different numbers of inputs: {sorted(sizes)}")
    return Cells(np.array([box.lower for box in boxes]), np.array([box.upper for box in boxes]))


def _of_rows(rows: FloatArray) -> Cells:
    if rows.ndim == 2 and rows.shape[1] % 2 == 0 and rows.size:
        rows = rows.reshape(len(rows), 2, -1)
    if rows.ndim != 3 or rows.shape[1] != 2:
        raise DomainError(
            f"cells of shape {rows.shape}.  Remedy: (cells, 2, inputs), lower and upper ends"
        )
    return Cells(rows[:, 0], rows[:, 1])


def _read(path: Path) -> Cells:
    try:
        if path.suffix == ".npy":
            rows = read_arrays(path)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)  # of a file without rows
                rows = np.loadtxt(path, delimiter=",", ndmin=2)
    except OSError as error:
        raise DomainError(f"cannot read {shown(path)}: {why(error)}") from None
    except (ValueError, UserWarning):
        raise DomainError(
            f"{shown(path)} holds no boxes.  Remedy: a .npy file, or CSV rows of numbers without "
            "names: all lower ends, then all upper ends"
        ) from None
    return _of_rows(real_numbers(rows, f"{shown(path)}", DomainError))
