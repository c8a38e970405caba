"""Whatever words are typed, the answer is an exit code, never an exception."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lipyomo.cli.main import main

WORDS = [
    "",
    " ",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "-1",
    "0",
    "1",
    "2",
    "0.5",
    "-0.5,0.5",
    "0,1",
    "1,0",
]
WORDS += ["a,b", ",", "0,inf", "-inf,inf", "nan,1", "1,2,3", "1,-1,0", "lo.npy", "lo.npy,hi.npy"]
WORDS += [
    "rows.npz",
    "words.npy",
    "linf",
    "l1",
    "l2",
    "cross",
    "cross(1)",
    "cross(9)",
    "ß",
    "--",
    "5%",
]
WORDS += [
    "x=1",
    "value=2",
    "value=",
    "=",
    "samples=3",
    "samples=-1",
    "samples=a",
    "random_lb",
    "naive",
]
OPTIONS = ["--norm", "--output-norm", "--functional", "--margin", "--dual-ball", "--box", "--ball"]
OPTIONS += ["--polytope", "--radius", "--ball-norm", "--clip", "--bounds", "--option", "--solver"]
OPTIONS += [
    "--formulation",
    "--time-limit",
    "--gap",
    "--workers",
    "--seed",
    "--plot",
    "--output-node",
]
FLAGS = ["--everywhere", "--json", "--rational", "--quiet"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("words")
    np.save(path / "lo.npy", -np.ones(4))
    np.save(path / "hi.npy", np.ones(4))
    np.save(path / "words.npy", np.array(["a", "b"]))
    np.savez(path / "rows.npz", A=np.vstack([np.eye(4), -np.eye(4)]), b=np.ones(8))
    return path


option = st.tuples(st.sampled_from(OPTIONS), st.sampled_from(WORDS))
flag = st.tuples(st.sampled_from(FLAGS))
likely = st.sampled_from(
    [
        ("--box", "0,1"),
        ("--ball", "0", "--radius", "1"),
        ("--polytope", "rows.npz"),
        ("--everywhere",),
    ]
)


@given(
    domain=likely,
    others=st.lists(st.one_of(option, flag), max_size=3),
    method=st.sampled_from(["random_lb", "naive"]),
)
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_words(
    folder: Path, net: Path, domain: tuple[str, ...], others: list[tuple[str, ...]], method: str
) -> None:
    words = [word for group in (domain, *others) for word in group]
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main([str(net), "--method", method, *words])
    assert code in (0, 1, 2)
    assert (code == 1) == err.getvalue().startswith("lipyomo: error: ")
    assert (code == 1) == (out.getvalue() == "")
