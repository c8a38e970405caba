"""The meaning of the columns of a table: inputs in the network's order, labels, and unused ones.

Nothing is guessed: columns are matched by their names, and if names are not sufficient, the table
is rejected with a message that shows its header.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lipyomo.base.arguments import brief
from lipyomo.base.errors import LipyomoError
from lipyomo.networks.naming import Names

Column = str | int
"""A column by its name, or by its index from 0 (negative ones count from the end)."""

LABELS = re.compile("labels?|targets?|class|classes", re.IGNORECASE)
"""Names of columns with labels."""

OUTCOME = re.compile("y", re.IGNORECASE)
"""The name of a column with labels, unless it is an input: coordinates are called so as well."""

NUMBERING = re.compile(r"|unnamed: ?\d+|id|index", re.IGNORECASE)
"""Names of columns that only number the rows; they are inputs only if this is said explicitly."""

SHOWN = 12
"""The largest number of columns that messages show."""


@dataclass(frozen=True)
class Columns:
    """How the columns of a table were interpreted.

    Attributes
    ----------
    inputs : tuple of int
        The column of each input of the network.
    labels : tuple of int
        No column, one, or one for each class (one-hot).
    names : tuple of str, or None
        The names of all columns.
    count : int
        The number of columns.
    """

    inputs: tuple[int, ...]
    labels: tuple[int, ...]
    names: Names | None
    count: int

    @property
    def input_names(self) -> Names | None:
        """The names of the inputs' columns, if they are all different and not empty."""
        found = () if self.names is None else tuple(self.names[k] for k in self.inputs)
        return found if found and all(found) and len(set(found)) == len(found) else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: names, or indices if there are no names."""
        used = {*self.inputs, *self.labels}
        others = [k for k in range(self.count) if k not in used]
        groups = {"inputs": self.inputs, "label": self.labels, "left_out": others}
        return {
            kind: [k if self.names is None else self.names[k] for k in which]
            for kind, which in groups.items()
        }

    def describe(self) -> str:
        """Return one line, such as ``inputs th, om; label y; left out (unnamed)``."""
        parts = []
        for kind, which in self.to_dict().items():
            if which or kind == "label":
                parts.append(f"{kind.replace('_', ' ')} {_listed(which) if which else 'none'}")
        return "; ".join(parts) + ("" if self.names is not None else " (no header)")


def _listed(which: Sequence[Column]) -> str:
    shown = [str(name) if name != "" else "(unnamed)" for name in which]
    return ", ".join(shown if len(shown) <= SHOWN else [*shown[:4], "...", *shown[-2:]])


class TableError(LipyomoError):
    """The columns of a table do not match the network, or not uniquely."""


def read_columns(
    header: Sequence[str] | None,
    count: int,
    network_names: Names | None,
    size: int,
    inputs: Sequence[Column] | None = None,
    label: Column | Sequence[Column] | None = None,
    labelled: bool = False,
) -> Columns:
    """Determine the meaning of each column.

    Parameters
    ----------
    header : sequence of str, or None
        The names of the columns, empty for those without one.
    count : int
        The number of columns.
    network_names : tuple of str, or None
        The names of the network's inputs.
    size : int
        The number of inputs.
    inputs : sequence of str or int, optional
        The columns of the inputs, in the network's order.
    label : str, int, or sequence of them, optional
        The column of labels, or one for each class; ``none`` if there is none.
    labelled : bool, optional
        Whether labels are given separately.

    Raises
    ------
    TableError
        If columns are missing or ambiguous.
    """
    table = _Table(None if header is None else tuple(n.strip() for n in header), count)
    chosen = None if inputs is None else [table.place(name) for name in inputs]
    if chosen is None and network_names is not None and header is not None:
        chosen = table.named(network_names)
    elif chosen is not None:
        table.check_order(chosen, network_names)
    taken = set(chosen or ())
    found = table.labels(label, taken, network_names or (), labelled)
    if chosen is None:
        chosen = table.rest(found, size)
    labels = [] if labelled else found
    if len(chosen) != size:
        raise table.wrong(f"{len(chosen)} columns are named for {size} inputs")
    both = taken & set(labels)
    if both or len(set(chosen)) < len(chosen):
        raise table.wrong("a column is named twice")
    return Columns(tuple(chosen), tuple(labels), table.names, count)


class _Table:
    """A header, and the error messages that show it."""

    def __init__(self, names: Names | None, count: int) -> None:
        self.names, self.count = names, count

    def wrong(self, what: str, remedy: str = "") -> TableError:
        """Return an error that shows the header and explains how to name columns."""
        if self.names is None:
            head = f"the table has {self.count} columns without names"
            ways = "--inputs 0,1,... and --label-column -1 say which are which, by numbers from 0"
        else:
            shown = [name or "(unnamed)" for name in self.names]
            shown = shown if len(shown) <= SHOWN else [*shown[:8], "...", *shown[-2:]]
            head = f"the header is {','.join(shown)}"
            ways = (
                "--inputs a,b,c names the columns of the inputs, --label-column that of labels (in "
                "Python: give a frame of these columns)"
            )
        return TableError(f"{what}: {head}.  Remedy: {remedy or ways}")

    def place(self, column: Column) -> int:
        """Return the index of a column."""
        if isinstance(column, str) and self.names is not None and column in self.names:
            if self.names.count(column) > 1:
                raise self.wrong(f"two columns are called '{column}'")
            return self.names.index(column)
        number = int(column) if re.fullmatch(r"\s*-?\d+\s*", str(column)) else None
        if number is None or not -self.count <= number < self.count:
            raise self.wrong(f"there is no column {brief(column)}")
        return number % self.count

    def named(self, wanted: Names) -> list[int]:
        """Return the columns of the network's inputs, by their names."""
        names = self.names or ()
        missing = [name for name in wanted if name not in names]
        if missing:
            raise self.wrong(
                f"the network's input{'s' * (len(missing) > 1)} {_listed(missing)} "
                f"{'are' if len(missing) > 1 else 'is'} missing"
            )
        return [self.place(name) for name in wanted]

    def check_order(self, chosen: list[int], known: Names | None) -> None:
        """Reject columns that have the network's names in another order."""
        if self.names is None or known is None:
            return
        own = [self.names[k] for k in chosen]
        if sorted(own) == sorted(known) and own != list(known):
            raise self.wrong(
                f"the network's inputs are {_listed(known)}, and {_listed(own)} is another order",
                "leave the names of the inputs out: columns are matched with the network's",
            )

    def labels(
        self,
        label: Column | Sequence[Column] | None,
        taken: set[int],
        inputs: Sequence[str],
        labelled: bool,
    ) -> list[int]:
        """Return the columns of labels, which are not inputs even if labels are given otherwise."""
        if label is not None:
            several = [label] if isinstance(label, str | int) else list(label)
            if several == ["none"] and "none" not in (self.names or ()):
                return []
            return [self.place(name) for name in several]
        free = [(k, n) for k, n in enumerate(self.names or ()) if k not in taken]
        for kind in (LABELS,) if labelled else (LABELS, OUTCOME):
            found = [k for k, name in free if kind.fullmatch(name) and name not in inputs]
            if len(found) > 1 and not labelled:
                raise self.wrong(f"{len(found)} columns can be the labels")
            if found:
                return found
        return []

    def rest(self, labels: Sequence[int], size: int) -> list[int]:
        """Return the remaining columns as inputs, if there are as many."""
        names = self.names
        left = [k for k in range(self.count) if k not in labels]
        if names is not None:
            left = [k for k in left if not NUMBERING.fullmatch(names[k])]
            twice = [name for name, many in Counter(names[k] for k in left).items() if many > 1]
            if twice:
                raise self.wrong(f"two columns are called '{twice[0]}'")
        if len(left) != size:
            known = f" ({_listed(['' if names is None else names[k] for k in left])})"
            raise self.wrong(
                f"{len(left)} column{'s' * (len(left) != 1)}{known if names else ''} for the "
                f"{size} input{'s' * (size != 1)} of the network"
            )
        return left
