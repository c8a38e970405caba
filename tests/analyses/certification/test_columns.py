"""A hundred layouts of tables: each gives the right inputs and labels, or is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipyomo
from lipyomo import LipyomoError
from lipyomo.analyses.certification.tables import entry, is_text, read_inputs
from lipyomo.cli.data import read_data
from lipyomo.networks.network import Network

POINTS = np.array([[0.25, -1.5], [2.0, 0.125], [-0.75, 3.5]])
CLASSES = [1, 0, 1]
REFUSED = "refused"


def network(names: str = "") -> Network:
    """Two inputs, two outputs."""
    found = Network.from_arrays([[[1.0, 2.0], [3.0, -1.0]]])
    found.input_names = names.split(",") if names else None
    return found


def table(layout: str, sep: str = ",", head: bool = True) -> str:
    """Lines of a table: `a` and `b` are the inputs, `k` classes, `n` row numbers, `-` is empty.

    A column is written as ``name=what``; ``what`` alone has that name.
    """
    pairs = [part.partition("=") for part in layout.split()]
    heads = [name if equals else name.lower() for name, equals, _ in pairs]
    kinds = [what if equals else name for name, equals, what in pairs]
    lines = [sep.join(heads)] if head else []
    for row, ((a, b), k) in enumerate(zip(POINTS, CLASSES, strict=True)):
        cells = {"a": a, "b": b, "k": k, "n": row, "-": "", "w": "red", "c": 9.5,
                 "t": bool(k), "p": int(k == 0), "q": int(k == 1)}  # fmt: skip
        lines.append(sep.join(str(cells[kind]) for kind in kinds))
    return "\n".join(lines) + "\n"


RIGHT = CLASSES
NONE = None
TABLES: list[tuple[str, str, str, str, Any]] = [
    # layout, names of the network, --inputs, --label-column, labels that are found or REFUSED
    ("a b", "", "", "", NONE),
    ("th=a om=b", "", "", "", NONE),
    ("th=a om=b label=k", "", "", "", RIGHT),
    ("th=a om=b labels=k", "", "", "", RIGHT),
    ("th=a om=b target=k", "", "", "", RIGHT),
    ("th=a om=b targets=k", "", "", "", RIGHT),
    ("th=a om=b class=k", "", "", "", RIGHT),
    ("th=a om=b classes=k", "", "", "", RIGHT),
    ("th=a om=b y=k", "", "", "", RIGHT),
    ("th=a om=b Y=k", "", "", "", RIGHT),
    ("th=a om=b Label=k", "", "", "", RIGHT),
    ("y=k th=a om=b", "", "", "", RIGHT),
    ("label=k th=a om=b", "", "", "", RIGHT),
    ("th=a label=k om=b", "", "", "", RIGHT),
    ("=n th=a om=b", "", "", "", NONE),
    ("=n th=a om=b label=k", "", "", "", RIGHT),
    ("=n y=k th=a om=b", "", "", "", RIGHT),
    ("Unnamed: 0=n th=a om=b".replace("Unnamed: 0", "Unnamed:0"), "", "", "", NONE),
    ("id=n th=a om=b", "", "", "", NONE),
    ("ID=n th=a om=b label=k", "", "", "", RIGHT),
    ("index=n th=a om=b", "", "", "", NONE),
    ("th=a om=b id=n", "", "", "", NONE),
    ("th=a om=b =-", "", "", "", NONE),
    ("=n id=n th=a om=b y=k", "", "", "", RIGHT),
    ("th=a om=b label=t", "", "", "", RIGHT),
    # one column too many, or too few
    ("th=a om=b z=k", "", "", "", REFUSED),
    ("th=a om=b z=c label=k", "", "", "", REFUSED),
    ("n=n th=a om=b", "", "", "", REFUSED),
    ("th=a", "", "", "", REFUSED),
    ("=n th=a", "", "", "", REFUSED),
    ("id=n th=a", "", "", "", REFUSED),
    ("th=a y=k", "", "", "", REFUSED),
    ("x=a y=b", "", "", "", REFUSED),
    ("x=a y=b", "", "x,y", "", NONE),
    ("x=a y=b label=k", "", "", "", RIGHT),
    ("x=a y=b target=k", "", "", "", RIGHT),
    ("th=a om=b label=k target=k", "", "", "", REFUSED),
    ("th=a om=b label=k target=k", "", "", "target", REFUSED),
    ("th=a om=b label=k target=k", "", "th,om", "target", RIGHT),
    ("th=a th=b", "", "", "", REFUSED),
    ("th=a om=b label=k label=k", "", "", "", REFUSED),
    # columns that are named
    ("th=a om=b z=k", "", "", "z", RIGHT),
    ("th=a om=b z=k", "", "", "-1", RIGHT),
    ("z=k th=a om=b", "", "", "0", RIGHT),
    ("th=a om=b z=k", "", "th,om", "", NONE),
    ("th=a om=b z=k", "", "th,om", "z", RIGHT),
    ("z=c om=b th=a", "", "th,om", "", NONE),
    ("z=c om=b th=a y=k", "", "th,om", "", RIGHT),
    ("z=c om=b th=a y=k", "", "2,1", "y", RIGHT),
    ("th=a om=b y=k", "", "th,om", "none", NONE),
    ("th=a om=b y=k", "", "", "none", REFUSED),
    ("th=a om=b z=k", "", "th", "", REFUSED),
    ("th=a om=b z=k", "", "th,th", "", REFUSED),
    ("th=a om=b z=k", "", "th,q", "", REFUSED),
    ("th=a om=b z=k", "", "th,om", "q", REFUSED),
    ("th=a om=b z=k", "", "th,om", "om", REFUSED),
    ("th=a om=b z=k", "", "", "7", REFUSED),
    ("th=a om=b p=p q=q", "", "", "p,q", RIGHT),
    ("p=p q=q th=a om=b", "", "th,om", "p,q", RIGHT),
    ("th=a om=b p=p q=q", "", "", "", REFUSED),
    # names that the network knows
    ("th=a om=b", "th,om", "", "", NONE),
    ("om=b th=a", "th,om", "", "", NONE),
    ("om=b th=a y=k", "th,om", "", "", RIGHT),
    ("=n om=b z=c th=a label=k", "th,om", "", "", RIGHT),
    ("om=b z=c w=w th=a", "th,om", "", "", NONE),
    ("id=a om=b", "id,om", "", "", NONE),
    ("om=b id=a", "id,om", "", "", NONE),
    ("x=a y=b", "x,y", "", "", NONE),
    ("y=b x=a label=k", "x,y", "", "", RIGHT),
    ("y=b x=a", "x,y", "", "", NONE),
    ("x=a", "x,y", "", "", REFUSED),
    ("th=a", "th,om", "", "", REFUSED),
    ("Th=a om=b", "th,om", "", "", REFUSED),
    ("p=a q=b", "th,om", "", "", REFUSED),
    ("p=a q=b", "th,om", "p,q", "", NONE),
    ("om=b th=a", "th,om", "om,th", "", REFUSED),
    ("om=b th=a z=k", "th,om", "th,om", "z", RIGHT),
    ("th=a th=a om=b", "th,om", "", "", REFUSED),
    ("label=a om=b", "label,om", "", "", NONE),
    # texts
    ("th=a om=b color=w", "", "th,om", "", NONE),
    ("th=a om=b label=w", "", "", "", REFUSED),
    ("th=a om=w", "", "", "", REFUSED),
    ("=w th=a om=b", "", "", "", NONE),
]  # fmt: skip
HEADLESS: list[tuple[str, str, str, str, Any]] = [
    ("a b", "", "", "", NONE),
    ("a b", "th,om", "", "", NONE),
    ("a b k", "", "", "", REFUSED),
    ("n a b", "", "", "", REFUSED),
    ("a b k", "", "", "-1", RIGHT),
    ("a b k", "", "", "2", RIGHT),
    ("k a b", "", "", "0", RIGHT),
    ("n a b", "", "1,2", "", NONE),
    ("n a b k", "", "1,2", "3", RIGHT),
    ("n b a k", "", "2,1", "-1", RIGHT),
    ("a b p q", "", "", "2,3", RIGHT),
    ("a", "", "", "", REFUSED),
    ("a b w", "", "", "", REFUSED),
    ("n a b k", "", "", "3", REFUSED),
]  # fmt: skip
TEXTS: list[tuple[str, Any]] = [
    ("# a,b\n0.25,-1.5\n2,0.125\n-0.75,3.5\n", NONE),  # numpy.savetxt
    ("\ufeffa;b;y\n0.25;-1.5;1\n2;.125;0\n-.75;3.5;1\n", RIGHT),
    ("a\tb\ty\n0.25\t-1.5\t1\n2\t.125\t0\n-.75\t3.5\t1\n", RIGHT),
    ('"a","b","label"\n"0.25","-1.5","1"\n"2",".125","0"\n"-.75","3.5","1"\n', RIGHT),
    ("a,b\n0,0.25,-1.5\n1,2,.125\n2,-.75,3.5\n", NONE),  # the number of the row has no name
    ("a,b\n0.25,-1.5,\n2,.125,\n-.75,3.5,\n", NONE),
    (" a , b , label \n0.25, -1.5, 1\n2, .125, 0\n-.75, 3.5, 1\n", RIGHT),
    ("\n\na,b\n\n0.25,-1.5\n2,.125\n\n-.75,3.5\n", NONE),
    (",0,1\n0,0.25,-1.5\n1,2,.125\n2,-.75,3.5\n", NONE),  # a frame without names
    ("0,1\n0.25,-1.5\n2,.125\n-.75,3.5\n", REFUSED),  # names of columns, or a point
    ("0.25,-1.5,red\n2,.125,blue\n-.75,3.5,red\n", REFUSED),
    ("a,b,c,d\n0.25,-1.5\n2,.125\n-.75,3.5\n", REFUSED),
    ("a,b\n0,25;-1,5\n", REFUSED),
    ("a;b\n0,25;-1,5\n2;0,125\n", REFUSED),
    ("a,b\n", REFUSED),
    ("", REFUSED),
]


def check(read: Any, wanted: Any) -> None:
    """Either refused in a sentence, or the very points and labels."""
    if wanted is REFUSED:
        with pytest.raises(LipyomoError):
            read()
        return
    data = read()
    assert data.inputs.tolist() == POINTS.tolist()
    found = data.labels
    if found is not None and found.ndim == 2:
        found = found.argmax(axis=1)
    assert (None if found is None else found.tolist()) == wanted


def options(text: str) -> tuple[str, ...] | None:
    return tuple(text.split(",")) if text else None


def test_there_are_a_hundred() -> None:
    assert len(TABLES) + len(HEADLESS) + len(TEXTS) >= 100


@pytest.mark.parametrize("sep", [",", ";"])
@pytest.mark.parametrize("case", range(len(TABLES) + len(HEADLESS)))
def test_layouts_of_files(tmp_path: Path, case: int, sep: str) -> None:
    head = case < len(TABLES)
    layout, names, inputs, label, wanted = [*TABLES, *HEADLESS][case]
    path = tmp_path / "data.csv"
    path.write_text(table(layout, sep, head))
    check(lambda: read_data(path, network(names), options(inputs), options(label)), wanted)


@pytest.mark.parametrize("case", range(len(TEXTS)))
def test_texts(tmp_path: Path, case: int) -> None:
    text, wanted = TEXTS[case]
    path = tmp_path / "data.csv"
    path.write_text(text, encoding="utf-8")
    check(lambda: read_data(path, network()), wanted)


class Frame:
    """What is used of a frame of pandas or polars."""

    def __init__(self, columns: list[str], cells: np.ndarray) -> None:
        self.columns, self._cells = columns, cells

    def to_numpy(self) -> np.ndarray:
        return self._cells


FRAMES = [case for case, table in enumerate(TABLES) if not table[2]]
"""Those without --inputs: frames are given with the columns that are meant."""


@pytest.mark.parametrize("case", FRAMES)
@pytest.mark.parametrize("kind", ["own", "pandas"])
def test_layouts_of_frames(case: int, kind: str) -> None:
    layout, names, _, label, wanted = TABLES[case]
    lines = [line.split(",") for line in table(layout).splitlines()]
    rows = [[cell if is_text(cell) else entry(cell) for cell in line] for line in lines[1:]]
    cells = np.array(rows, dtype=object)
    if kind == "own":
        frame: Any = Frame(lines[0], cells)
    else:
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(cells, columns=lines[0])
        frame = frame.infer_objects()  # columns of types of their own
    chosen = None if not label else label.split(",") if "," in label else label
    check(lambda: read_inputs(frame, chosen, network(names).input_names, 2), wanted)


def test_what_was_taken_is_said() -> None:
    data = read_inputs(Frame(["id", "om", "th", "y"], np.ones((1, 4))), None, ("th", "om"), 2)
    assert data.columns is not None
    assert data.columns.to_dict() == {"inputs": ["th", "om"], "label": ["y"], "left_out": ["id"]}
    assert data.columns.describe() == "inputs th, om; label y; left out id"


def test_the_header_is_shown_and_the_options_named() -> None:
    with pytest.raises(LipyomoError, match=r"th,om,z.*--inputs a,b,c.*--label-column"):
        read_inputs(Frame(["th", "om", "z"], np.ones((1, 3))), None, None, 2)


def test_torn_rows_are_not_used(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("a,b,y\n1,2,0\n1,2\n1,2,0,4\n3,4,1\n")
    assert np.isnan(read_data(path, network()).inputs).any(axis=1).tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        ([[0, 1], [1, 0], [0, 1]], [1, 0, 1]),
        (np.array([[1], [0], [1]]), [1, 0, 1]),
        ([True, False, True], [1, 0, 1]),
        ([[0.2, 0.8], [1, 0], [0, 1]], REFUSED),
        ([[1, 1], [1, 0], [0, 1]], REFUSED),
        ([[0, 0, 1], [1, 0, 0], [0, 1, 0]], REFUSED),
        (["a", "b", "a"], REFUSED),
        ([1, 0], REFUSED),
    ],
)
def test_labels(labels: Any, wanted: Any) -> None:
    def ask() -> Any:
        return lipyomo.certify_robustness(network(), POINTS, labels, radius=0.01, workers=1)

    if wanted is REFUSED:
        with pytest.raises(LipyomoError):
            ask()
    else:
        assert [row.label for row in ask().rows] == wanted


def test_labels_that_begin_with_one_are_refused() -> None:
    three = Network.from_arrays([np.ones((3, 2))])
    with pytest.raises(LipyomoError, match="subtract one"):
        lipyomo.certify_robustness(three, POINTS, [1, 2, 3], radius=0.01, workers=1)
