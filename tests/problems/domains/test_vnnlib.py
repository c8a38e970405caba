"""Domains from VNN-LIB files of both versions."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from lipyomo.base.errors import DomainError
from lipyomo.problems.domains import Box
from lipyomo.problems.domains.vnnlib import VnnLib, read_vnnlib

DECLARED = """
; two inputs, one output
(declare-const X_0 Real)
(declare-const X_1 Real)
(declare-const Y_0 Real)
"""
SECOND = """(vnnlib-version <2.0>)
(declare-network f
  (declare-input X float32 [1, 2, 2] "image")
  (declare-hidden H Real [3] "relu")
  (declare-output Y float32 [1,3])
)
"""
TWO = (
    SECOND
    + """(declare-network g (isomorphic-to f)
  (declare-input U float32 [4]) (declare-output V float32 [3]))
"""
)
SAME = "".join(f"(assert (== U[{k}] X[0,{k // 2},{k % 2}]))" for k in range(4))
CUBE = "".join(
    f"(assert (<= -1 X[0,{i},{j}]))(assert (<= X[0,{i},{j}] 1))" for i in (0, 1) for j in (0, 1)
)


def read(tmp_path: Path, text: str) -> VnnLib:
    path = tmp_path / "query.vnnlib"
    path.write_text(text, encoding="utf-8")
    return read_vnnlib(path)


def test_bounds_are_a_box(tmp_path: Path) -> None:
    text = "(assert (<= X_0 0.1))(assert (>= X_0 -1e-1)) (assert (and (<= X_1 .5) (< -2. X_1)))"
    found = read(tmp_path, DECLARED + text + "(assert (>= Y_0 3.9))\n")
    (box,) = found.parts
    assert isinstance(box, Box)
    assert (box.lower.tolist(), box.upper.tolist()) == ([-0.1, -2.0], [0.1, 0.5])
    assert found.ignored == 1


def test_rows_are_a_polytope(tmp_path: Path) -> None:
    text = """
    (assert (<= (+ X_0 (* 2 X_1)) 1)) (assert (>= (- X_0 X_1 0.5) (- 2)))
    (assert (and (>= X_0 -1) (<= X_0 1) (>= X_1 -1) (<= X_1 1)))
    """
    (domain,) = read(tmp_path, DECLARED + text).parts
    x = np.random.default_rng(0).uniform(-1.2, 1.2, (400, 2))
    inside = (np.abs(x) <= 1).all(axis=1) & (x @ [1, 2] <= 1) & (x[:, 0] - x[:, 1] >= -1.5)
    assert 50 < inside.sum() < 350
    assert [domain.holds_inside(point) for point in x] == inside.tolist()


def test_disjunctions_are_several_domains(tmp_path: Path) -> None:
    text = """
    (assert (>= X_1 0)) (assert (<= X_1 1))
    (assert (or (and (>= X_0 0) (<= X_0 1) (<= Y_0 0)) (and (>= X_0 2) (<= X_0 3) (>= Y_0 0))))
    """
    found = read(tmp_path, DECLARED + text)
    assert [(p.lower.tolist(), p.upper.tolist()) for p in found.parts] == [
        ([0, 0], [1, 1]),
        ([2, 0], [3, 1]),
    ]
    assert found.ignored == 2


def test_disjunctions_of_outputs_restrict_nothing(tmp_path: Path) -> None:
    box = "(assert (>= X_0 0))(assert (<= X_0 1))(assert (== X_1 0.25))"
    found = read(tmp_path, DECLARED + box + "(assert (or (<= Y_0 0) (>= Y_0 (* 2 X_0))))")
    assert len(found.parts) == 1
    assert found.parts[0].frozen.tolist() == [False, True]
    assert found.ignored == 2
    found = read(tmp_path, DECLARED + box + "(assert (or (<= Y_0 0) (<= X_0 0.5)))")
    assert [part.upper.tolist() for part in found.parts] == [[1.0, 0.25]]


def test_version_two_names_entries_of_tensors(tmp_path: Path) -> None:
    found = read(tmp_path, SECOND + CUBE + "(assert (<= X[0, 1, 0] 0.5))(assert (>= H[1] Y[0,2]))")
    (box,) = found.parts
    assert box.upper.tolist() == [1.0, 1.0, 0.5, 1.0]
    assert found.ignored == 1


def test_equal_inputs_of_two_networks_are_one_domain(tmp_path: Path) -> None:
    text = TWO + CUBE + SAME + "(assert (<= U[2] 0.5))(assert (>= V[1] Y[0,2]))"
    found = read(tmp_path, text)
    assert [part.upper.tolist() for part in found.parts] == [[1.0, 1.0, 0.5, 1.0]]
    assert found.ignored == 1


def test_scalars_and_several_inputs_of_version_two(tmp_path: Path) -> None:
    text = """(vnnlib-version <2.0>) (declare-network f
    (declare-input a real []) (declare-input b real [2]) (declare-output y real []))
    (assert (and (>= a 0) (<= a 1) (>= b[0] 2) (<= b[0] 3) (>= b[1] 4) (<= b[1] (+ 4 1))))"""
    (box,) = read(tmp_path, text).parts
    assert (box.lower.tolist(), box.upper.tolist()) == ([0, 2, 4], [1, 3, 5])


def test_packed_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "query.vnnlib.gz"
    path.write_bytes(gzip.compress((DECLARED + "(assert (<= X_0 1))").encode()))
    assert read_vnnlib(path).parts[0].upper.tolist() == [1.0, np.inf]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (DECLARED + "(assert (<= X_2 1))", "line 6: 'X_2' is neither"),
        (DECLARED + "(assert (<= X_0 1)", "line 6: a parenthesis is not closed"),
        (DECLARED + ")", "line 6: .* not opened"),
        (DECLARED + "(assert (<= (* X_0 X_1) 1))", "product of inputs"),
        (DECLARED + "(assert (!= X_0 1))", "'!=' is no condition"),
        (DECLARED + "(assert (<= (/ X_0 2) 1))", "'/' is no sum"),
        (DECLARED + "(assert (<= X_0 1e999))", "too large"),
        (DECLARED + "(assert (and (<= X_0 1) (>= X_0 2)))", "part 1 .* empty"),
        (DECLARED + "(assert (<= 1 0))", "never holds"),
        (DECLARED + "(define-fun f () Real 1)", "'define-fun' is not known"),
        (DECLARED + "X_0", "outside"),
        (DECLARED + 'X_0 "', "outside|not closed"),
        (DECLARED + "(assert " + "(and " * 200 + ")" * 201, "in each other"),
        (DECLARED + "(assert (or))", "'or' of nothing"),
        ("(declare-const X_1 Real)(assert (<= X_1 1))", "no input X_0"),
        ("(assert (<= 0 1))", "declares no inputs"),
        (SECOND + "(assert (<= X[0,2,0] 1))", "no entry of a tensor"),
        (SECOND + "(assert (<= X 1))", "no entry of a tensor"),
        (SECOND + SECOND, "a second network 'f'"),
        (SECOND + SECOND.replace("network f", "network g"), "'X' is declared twice"),
        (SECOND.replace("(declare-hidden", "(equal-to g) (declare-hidden"), "no network 'g'"),
        (TWO + CUBE, "inputs are not those of 'f'"),
        (TWO + CUBE + SAME.replace("==", "<="), "inputs are not those of 'f'"),
        (TWO.replace("U float32 [4]", "U float32 [3]"), "not 3 and 3"),
        (SECOND.replace("[1, 2, 2]", "[1, 0]"), "no shape"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DomainError, match=words):
        read(tmp_path, text)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DomainError, match="cannot be read"):
        read_vnnlib(tmp_path / "nothing.vnnlib")
    (tmp_path / "bytes.vnnlib").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DomainError, match="no text"):
        read_vnnlib(tmp_path / "bytes.vnnlib")
    with pytest.raises(DomainError, match="the path is 3"):
        read_vnnlib(3)  # type: ignore[arg-type]
    packed = bytearray(gzip.compress(DECLARED.encode()))
    packed[12:24] = bytes(12)
    for content in (b"\x1f\x8b\x08", packed[:20], packed):
        (tmp_path / "broken.vnnlib.gz").write_bytes(content)
        with pytest.raises(DomainError, match="cannot be read"):
            read_vnnlib(tmp_path / "broken.vnnlib.gz")


def test_too_many_parts_are_refused(tmp_path: Path) -> None:
    halves = "(assert (or (<= X_0 {0}) (>= X_0 {0}.5)))"
    text = DECLARED + "".join(halves.format(k) for k in range(20))
    with pytest.raises(DomainError, match="more than 10000 parts"):
        read(tmp_path, text)
