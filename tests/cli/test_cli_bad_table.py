"""Bad input of every kind, generated: one sentence, exit code 1, no traceback, no "defect"."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from cli_ran import Ran

from lipyomo.cli.parser import main_parser

Cli = Callable[..., Ran]

TEXTS = (
    "",
    " ",
    "x",
    "nan",
    "-inf",
    "-2",
    "1e999",
    "\u00e9",
    "0x10",
    "1,2,3,4,5,6,7",
    "--",
    "../..",
    "\n",
)
BOX = ("--box", "0,1")

NUMBERS = {
    "--time-limit": ("0", "-1", "nan", "x", "", "-inf", "-1s", "0s", "1y", "s"),
    "--memory-limit": ("0", "-1", "nan", "x", "", "1e-9", "5"),
    "--gap": ("-1", "1", "2", "nan", "x", "", "101%", "%"),
    "--workers": ("0", "-1", "x", "1.5", "", "nan"),
    "--seed": ("-1", "x", "1.5", "", "nan"),
    "--margin": ("-1", "3", "99", "x", "1.5", "", "nan"),
    "--part": ("-1", "0", "x", "1.5", "", "nan"),
}
NAMES = {
    "--norm": TEXTS,
    "--method": TEXTS,
    "--formulation": TEXTS,
    "--bounds": TEXTS,
    "--solver": TEXTS,
    "--output-norm": (*TEXTS, "cross(3)", "cross(-1)", "cross(", "cross()", "l0", "linf,l1"),
    "--functional": (*TEXTS, "1", "1,2", "1,2,3,4", "1,nan,0", "inf,0,0", "1e308,1e308,0", "1,,2"),
    "--output-node": ("", "nowhere", "x y", "\u00e9", ",", "nowhere,x"),
    "--wrt": ("", "x", "99", ",", "1,x", "0,0", "4:4", "1:2:3:4", "-9", "1.5"),
    "--weights": ("", "x", "-1", "1,2", "nan", "0", "none.npy"),
    "--directions": ("", "none.npy", "text.npy", "short.npy", "net.onnx"),
    "--fix": ("", "=", "x", "nowhere=1", "=1", "a=b", "a=none.npy"),
    "--option": ("", "=", "x", "x=1", "=1", "a=b=c"),
    "--solvers-file": ("no/such.toml", ".", "net.onnx"),
    "--dual-ball": ("no.npz", ".", "plain.npy", "empty.npz", "odd.npz"),
    "--config": ("no.toml", ".", "net.onnx", ""),
    "--proof": ("", ".", "no/such/folder/p.json"),
    "--plot": ("", ".", "no/such/folder/p.png", "p", "p.nope"),
}
BOXES = (
    *("", ",", "0", "1,0", "0,1,2", "a,b", "nan,1", "0,nan", "inf,inf", "-inf,-inf", "1,1"),
    *("no.npy,1", "short.npy,1", "text.npy,1", "plain.npz,1", "-1e308,1e308", "0,1e200"),
)
BALLS = (
    *(("x", "1"), ("0", "x"), ("0", "-1"), ("0", "0"), ("0", "nan"), ("0", "inf"), ("nan", "1")),
    *(("inf", "1"), ("no.npy", "1"), ("short.npy", "1"), ("text.npy", "1"), ("0", "1e300")),
)
QUERIES = ("", ".", "no.vnnlib", "text.npy", "net.onnx", "empty.onnx")
POLYTOPES = ("no.npz", ".", "plain.npy", "empty.npz", "odd.npz", "infeasible.npz", "nan.npz")


def _cases() -> Iterator[tuple[str, ...]]:
    for option, values in itertools.chain(NUMBERS.items(), NAMES.items()):
        for value in values:
            yield ("net.onnx", *BOX, f"{option}={value}")
        yield ("net.onnx", *BOX, option)  # without its value
    for box in BOXES:
        yield ("net.onnx", f"--box={box}")
    for center, radius in BALLS:
        yield ("net.onnx", f"--ball={center}", f"--radius={radius}")
    for norm in ("l3", "", "cross"):
        yield ("net.onnx", "--ball=0", "--radius=1", f"--ball-norm={norm}")
    for clip in ("", "1,0", "x", "5,6", "nan,1"):
        yield ("net.onnx", "--ball=0", "--radius=1", f"--clip={clip}")
    for polytope in POLYTOPES:
        yield ("net.onnx", f"--polytope={polytope}")
    for query in QUERIES:
        yield ("net.onnx", f"--vnnlib={query}")
    domains = ("--box=0,1", "--ball=0", "--polytope=odd.npz", "--everywhere")
    for one, two in itertools.combinations(domains, 2):
        yield ("net.onnx", one, two)
    outputs = ("--output-norm=l1", "--functional=1,0,0", "--margin=0", "--dual-ball=odd.npz")
    for one, two in itertools.combinations(outputs, 2):
        yield ("net.onnx", *BOX, one, two)
    for name in ("", " ", "none.onnx", ".", "text.npy", "zeros.onnx", "empty.onnx", "cut.onnx"):
        yield (name, *BOX)
    yield from (
        (),
        ("net.onnx",),
        ("net.onnx", "net.onnx", *BOX),
        ("net.onnx", *BOX, "--no-such-option"),
        ("net.onnx", "--radius=1"),
        ("difference", "net.onnx", *BOX),
        ("difference", "net.onnx", "none.onnx", *BOX),
        ("difference", "net.onnx", "net.onnx", "net.onnx", *BOX),
        ("difference", "net.onnx", "net.onnx"),
        ("compare",),
        ("compare", "net.onnx"),
        ("compare", "none.onnx", *BOX),
        ("compare", "net.onnx", *BOX, "--methods="),
        ("compare", "net.onnx", *BOX, "--methods=magic"),
        ("compare", "net.onnx", *BOX, "--jobs=0"),
        ("verify",),
        ("verify", "none.json"),
        ("verify", "text.npy", "net.onnx"),
        ("verify", "text.npy", "net.onnx", "--minus", "none.onnx"),
        ("info",),
        ("info", "none.onnx"),
        ("solvers", "x"),
        ("methods", "--json", "--markdown"),
    )


ALLOWED = {  # odd, but right
    ("net.onnx", *BOX, "--method= "),
}


@pytest.fixture
def folder(tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a network and files of every wrong kind."""
    data = (models / "iris.onnx").read_bytes()
    (tmp_path / "net.onnx").write_bytes(data)
    (tmp_path / "cut.onnx").write_bytes(data[: len(data) // 2])
    (tmp_path / "empty.onnx").write_bytes(b"")
    (tmp_path / "zeros.onnx").write_bytes(bytes(1000))
    np.save(tmp_path / "plain.npy", np.ones(4))
    np.save(tmp_path / "short.npy", np.ones(2))
    (tmp_path / "text.npy").write_text("words")
    np.savez(tmp_path / "plain.npz", x=np.ones(4))
    np.savez(tmp_path / "empty.npz")
    np.savez(tmp_path / "odd.npz", A=np.ones((2, 3)), b=np.ones(5))
    np.savez(tmp_path / "nan.npz", A=np.full((8, 4), np.nan), b=np.ones(8))
    rows = np.vstack([np.eye(4), -np.eye(4)])
    np.savez(tmp_path / "infeasible.npz", A=rows, b=-np.ones(8))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_bad_input_gets_one_sentence(cli: Cli, folder: Path) -> None:
    wrong = []
    cases = [words for words in dict.fromkeys(_cases()) if words not in ALLOWED]
    assert len(cases) > 250
    before = sorted(path.name for path in folder.iterdir())
    for words in cases:
        try:
            ran = cli(*words)
        except Exception as error:
            wrong.append((words, repr(error)))
            continue
        said = ran.err.strip()
        fine = (
            ran.code == 1
            and ran.out == ""
            and said.startswith("lipyomo: error: ")
            and said.count("error: ") == 1
            and "Traceback" not in said
            and "defect" not in said
            and len(said) < 900
        )
        if not fine:
            wrong.append((words, ran.code, said[-300:]))
    assert not wrong, "\n".join(map(str, wrong))
    assert sorted(path.name for path in folder.iterdir()) == before  # nothing was written


def test_every_option_with_a_value_is_in_the_table() -> None:
    known = {*NUMBERS, *NAMES, "--box", "--ball", "--radius", "--ball-norm", "--clip"}
    # these need a run, a cluster, or are tried elsewhere
    known |= {"--polytope", "--cross-check", "--dask", "--checkpoint", "--history", "--vnnlib"}
    taken = {
        action.option_strings[-1]
        for action in main_parser()._actions
        if action.option_strings and action.nargs != 0
    }
    assert taken <= known, taken - known
