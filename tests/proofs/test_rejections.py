"""Every rejection of the checker has a file that triggers it: one that is true but for one lie."""

from __future__ import annotations

import ast
import copy
import gzip
import json
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import lipyomo
import lipyomo_check
from lipyomo.base.clock import Clock
from lipyomo.formats.onnx import write
from lipyomo.proofs.boxes import write_boxes
from lipyomo_check import ProofError, check, check_proof, linear, network, reading, statement
from lipyomo_check.pairs import ranges
from lipyomo_check.pairs.tree import Asked
from lipyomo_check.smooth import elementary, proof, slopes
from lipyomo_check.smooth.balls import in_balls
from lipyomo_check.statement import read_statement

FIRST: dict[str, Any] = {
    "format": "lipyomo-proof-4",
    "network": [
        {"inputs": 1, "weight": [[1.0], [-1.0]], "bias": [0.0] * 2, "left": [0.0] * 2}
        | {"right": [1.0] * 2},
        {"inputs": 2, "weight": [[2.0, 1.0]], "bias": [0.0], "left": [1.0], "right": [1.0]},
    ],
    "domain": {"lower": [-1.0], "upper": [1.0], "A": [], "b": [], "ball": None},
    "input_norm": "linf",
    "output_norm": "linf",
    "lower": 2.0,
    "upper": 2.0,
    "onnx": None,
    "witness": {"x": [0.5], "functional": [1.0], "pattern": ["10"]},
    "basis": None,
}
"""f(x) = 2 max(x, 0) + max(-x, 0) on [-1, 1]."""

DIRECTED = "lipyomo-proof-5"
NO: list[Any] = [[], []]
BOTH = [0, [[0, 1], [1, 1]], NO, NO]
NONE: list[Any] = [0, NO, NO, NO]
CASES: list[Any] = [
    *([["split", 0]], [["split", 1]], [["empty", BOTH]], [["end"]]),
    *([["split", 1]], [["end"]], [["empty", BOTH]]),
]
BIG = {"norm": "l2", "center": [0.0], "radius": 9.0}


def stated(*path: Any, to: Any) -> bytes:
    """The proof with another entry of its first line."""
    first = copy.deepcopy(FIRST)
    place: Any = first
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return packed([first, *CASES])


def cased(*cases: Any, **entries: Any) -> bytes:
    """The statement, perhaps with other entries, and other cases."""
    return packed([FIRST | entries, *cases])


def packed(lines: list[Any]) -> bytes:
    return gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode())


def rows(*A: list[float], b: float) -> bytes:
    return stated("domain", to=FIRST["domain"] | {"A": list(A), "b": [b]})


WHOLE = packed([FIRST, *CASES])
HIGH = {"lower": [0.5], "upper": [1.0], "A": [], "b": [], "ball": None}
LIES: dict[str, bytes] = {
    "empty file": gzip.compress(b""),
    "basis in words": stated("basis", to=3),
    "zero functional": cased(
        *CASES, output_norm="l2", witness={"x": [0.5], "functional": [0.0], "pattern": ["10"]}
    ),
    "goes on": packed([FIRST, *CASES, [["end"]]]),
    "negative weight": cased([["empty", [0, [[0], [-1]], NO, NO]]]),
    "slope of a line": cased([["empty", [0, NO, [[0], [257]], NO]]]),
    "weight of an unstable unit": cased([["empty", [0, [[0], [1]], NO, NO]]]),
    "weight of no row": cased([["empty", [0, NO, NO, [[0], [1]]]]]),
    "torn file": WHOLE[:-3],
    "not gzipped": b"x" * 99,
    "bomb": gzip.compress(b" " * (1 << 26)),
    "bytes behind": WHOLE + b"x",
    "torn line": gzip.compress(b"[1"),
    "nested": gzip.compress(b"[" * 1000 + b"]" * 1000 + b"\n"),
    "not JSON": gzip.compress(b"[1,\n"),
    "NaN": gzip.compress(b"[NaN]\n"),
    "long integer": gzip.compress(b"[" + b"1" * 9999 + b"]\n"),
    "no entries": packed([[1], *CASES]),
    "not finite": stated("upper", to="inf"),
    "not whole": cased([["split", 0.5]]),
    "not listed": cased({"split": 0}),
    "index twice": cased([["empty", [0, [[0, 0], [1, 1]], NO, NO]]]),
    "index without a number": cased([["empty", [0, [[0, 1], [1]], NO, NO]]]),
    "format": stated("format", to="lipyomo-proof-1"),
    "no layers": stated("network", to=[]),
    "layers do not fit": stated(
        "network", 1, to=FIRST["network"][1] | {"inputs": 3, "weight": [[1.0, 2.0, 3.0]]}
    ),
    "blank weight": stated(
        "network", 0, to=FIRST["network"][0] | {"inputs": 10**6, "weight": [[[], []]] * 2}
    ),
    "units at the end": stated("network", 1, "left", to=[0.0]),
    "input norm": stated("input_norm", to="l3"),
    "interval": stated("upper", to=1.0),
    "digest": stated("onnx", to=3),
    "directions in the old format": cased(*CASES, directions={"columns": 1, "rows": [[1.0]]}),
    "no directions": cased(*CASES, format=DIRECTED, directions={"columns": 0, "rows": [[]]}),
    "direction of a fixed input": cased(
        *CASES,
        format=DIRECTED,
        directions={"columns": 1, "rows": [[1.0], [2.0]]},
        domain={"lower": [-1.0, 0.0], "upper": [1.0, 0.0], "A": [], "b": [], "ball": None},
        network=[
            FIRST["network"][0] | {"inputs": 2, "weight": [[1.0, 0.0], [-1.0, 0.0]]},
            FIRST["network"][1],
        ],
    ),
    "layer without units": stated(
        "network", 0, to={"inputs": 1, "weight": [], "bias": [], "left": [], "right": []}
    ),
    "box": stated("domain", "lower", to=[3.0]),
    "ball's norm": stated("domain", "ball", to=BIG | {"norm": "l7"}),
    "frozen": stated("domain", to=FIRST["domain"] | {"lower": [1.0]}),
    "l1 of many outputs": packed(
        [
            FIRST
            | {
                "output_norm": "l1",
                "network": [
                    {"inputs": 1, "weight": [[1.0]] * 20, "bias": [0.0] * 20}
                    | {"left": [1.0] * 20, "right": [1.0] * 20}
                ],
            }
        ]
    ),
    "cross of many outputs": packed(
        [
            FIRST
            | {
                "output_norm": "cross",
                "network": [
                    {"inputs": 1, "weight": [[1.0]] * 400, "bias": [0.0] * 400}
                    | {"left": [1.0] * 400, "right": [1.0] * 400}
                ],
            }
        ]
    ),
    "no vertices": stated("output_norm", to={"vertices": []}),
    "output norm": stated("output_norm", to="l9"),
    "side": cased([["bound", [[0, "M", 1.0, NONE]]]]),
    "bound": cased([["bound", [[0, "R", 0.5, NONE]]]]),
    "left open": packed([FIRST, *CASES[:-1]]),
    "after its end": cased([["end"], ["end"]]),
    "not empty": cased([["empty", NONE]]),
    "unknown step": cased([["leap"]]),
    "no end": cased([]),
    "nothing left": cased(
        *([["split", 0]], [["bound", [[0, "L", -0.5, NONE]]], ["end"]]),
        domain=HIGH,
        lower=0.0,
        witness={"x": [0.75]},
    ),
    "decided twice": cased([["split", 0]], [["split", 0]]),
    "multipliers": cased([["close", [0], [1], [0, 0]], ["end"]]),
    "layers": cased([["layers", [0], [1], [1, 1]], ["end"]]),
    "negative zeta": cased([["close", [0], [-1], [0, 0]], ["end"]]),
    "several targets": cased(
        [["exclude", [1], [0, 0], [[0, "R", 0.0]]], ["end"]],
        output_norm={"vertices": [[1.0], [0.5]]},
    ),
    "excluded wrongly": cased([["exclude", [1], [0, 0], [[0, "R", 0.0]]], ["end"]]),
    "zeta": cased([["close", [0], [], [0, 0]], ["end"]]),
    "cut": cased([["cut", 0, 5.0]]),
    "not closed": cased([["end"]]),
    "larger norm": cased(*CASES, upper=1.5, lower=0.0),
    "larger image of a square": packed(
        [
            {
                "format": "lipyomo-proof-4",
                "network": [
                    {"inputs": 2, "weight": [[1.0, 2.0], [3.0, -4.0]], "bias": [0.0] * 2}
                    | {"left": [1.0] * 2, "right": [1.0] * 2}
                ],
                "domain": {"lower": [-1.0] * 2, "upper": [1.0] * 2, "A": [], "b": [], "ball": None},
                "input_norm": "linf",
                "output_norm": "l2",
                "lower": 0.0,
                "upper": 7.0,
                "onnx": None,
                "witness": {"x": [0.0, 0.0]},
                "basis": None,
            },
            [["end"]],
        ]
    ),
    "not attained": cased(*CASES, upper=3.0, lower=2.5),
    "outside the box": stated("witness", "x", to=[1.0]),
    "outside a row": rows([1.0], b=0.5),
    "outside the ball": stated("domain", "ball", to=BIG | {"radius": 0.5}),
    "outside an l1 ball": stated("domain", "ball", to=BIG | {"norm": "l1", "radius": 0.5}),
    "layers of the pattern": stated("witness", "pattern", to=[]),
    "letters of the pattern": stated("witness", "pattern", to=["1x"]),
    "another pattern": stated("witness", "pattern", to=["11"]),
    "on a kink": stated("witness", "x", to=[0.0]),
    "no vertex": packed(
        [
            FIRST | {"output_norm": "cross", "witness": FIRST["witness"] | {"functional": [7.0]}},
            *CASES,
        ]
    ),
}


SMOOTH: dict[str, Any] = {
    "format": "lipyomo-proof-7",
    "network": [
        {"inputs": 1, "weight": [[1.0], [1.0]], "bias": [0.0, 0.5], "left": [0.0] * 2}
        | {"right": [1.0] * 2, "curves": [["tanh", [0]]]},
        {"inputs": 2, "weight": [[2.0, 1.0]], "bias": [0.0], "left": [1.0], "right": [1.0]},
    ],
    "domain": {"lower": [-1.0], "upper": [1.0], "A": [], "b": [], "ball": None},
    "input_norm": "linf",
    "output_norm": "linf",
    "lower": 3.0,
    "upper": 3.0001,
    "onnx": None,
    "witness": {"x": [0.0], "functional": [1.0]},
    "basis": None,
}
"""f(x) = 2 tanh x + max(x + 0.5, 0) on [-1, 1]."""


PRODUCT: dict[str, Any] = SMOOTH | {
    "format": "lipyomo-proof-8",
    "network": [
        {"inputs": 1, "weight": [[1.0], [0.5]], "bias": [0.5, 0.0], "left": [0.0] * 2}
        | {"right": [0.0] * 2, "curves": [["square", [0, 1]]], "products": [[0, 1]]},
        {"inputs": 2, "weight": [[2.0, -2.0]], "bias": [0.0], "left": [1.0], "right": [1.0]},
    ],
    "lower": 4.9,
    "upper": 5.0001,
    "witness": {"x": [1.0], "functional": [1.0]},
}
"""f(x) = 2 (1.5 x + 0.5) (0.5 x + 0.5) on [-1, 1]."""


VALUES: dict[str, Any] = PRODUCT | {
    "question": "values",
    "output_norm": {"vertices": [[1.0], [-1.0]]},
    "lower": [3.9, -0.1],
    "upper": [4.0001, 0.0001],
    "witness": {"points": [[1.0], [-1.0]]},
    "shell": {"network": PRODUCT["network"], "low": 0.0, "high": None},
}
"""The range of the same where it is not negative."""


PAIR: dict[str, Any] = {"bias": [0.0] * 2, "left": [1.0] * 2, "right": [1.0] * 2}


PAIRS: dict[str, Any] = FIRST | {
    "format": "lipyomo-proof-9",
    "network": [
        {"inputs": 1, "weight": [[1.0], [-1.0], [1.0]], "bias": [0.0] * 3, "left": [0.0, 0.0, 1.0]}
        | {"right": [1.0] * 3},
        {"inputs": 3, "weight": [[2.0, 1.0, 0.0]], "bias": [0.0], "left": [1.0], "right": [1.0]},
    ],
    "upper": 2.0001,
    "witness": {"x": [0.5], "functional": [1.0], "pattern": ["101"]},
}
"""The function of the first one, beside a unit with one slope."""


def boxes_of(first: dict[str, Any]) -> bytes:
    """The bytes of the boxes of a true statement."""
    parts: list[bytes] = []
    write_boxes(read_statement(first), Clock(), parts.append, lambda done: None)
    return b"".join(parts)


def smooth_lies() -> dict[str, bytes]:
    """Proofs of a smooth network, true but for one lie."""
    payload = boxes_of(SMOOTH)

    def packed(payload: bytes = payload, **entries: Any) -> bytes:
        text = json.dumps(SMOOTH | entries).encode() + b"\n"
        return gzip.compress(text + payload)

    def with_curves(*curves: Any) -> bytes:
        return packed(
            network=[SMOOTH["network"][0] | {"curves": list(curves)}, SMOOTH["network"][1]]
        )

    def with_products(first: dict[str, Any], **entries: Any) -> bytes:
        layers = [first | entries, PRODUCT["network"][1]]
        text = json.dumps(PRODUCT | {"network": layers}).encode() + b"\n"
        return gzip.compress(text + boxes_of(PRODUCT))

    product = PRODUCT["network"][0]
    unequal = PRODUCT["network"][1] | {"weight": [[2.0, -2.5]]}

    def of_values(**entries: Any) -> bytes:
        return gzip.compress(json.dumps(VALUES | entries).encode() + b"\n" + boxes_of(VALUES))

    level = VALUES["shell"]
    whole = packed()
    row = SMOOTH["domain"] | {"A": [[1.0]], "b": [0.9]}
    weights = SMOOTH["network"][0] | {"weight": [[1e70], [1.0]]}
    return {
        "smooth: with a basis and boxes": packed(basis="a solver"),
        "smooth: damaged behind the first line": whole[:-9],
        "smooth: unpacks to far more": packed(bytes(1 << 23)),
        "smooth: units of a format without them": packed(format="lipyomo-proof-4"),
        "smooth: nameless": with_curves([7, [0]]),
        "smooth: two activations": with_curves(["tanh", [0]], ["sin", [0]]),
        "smooth: unknown": with_curves(["relu7", [0]]),
        "smooth: odd parameter": with_curves(["softplus(0.0)", [0]]),
        "smooth: far sine": packed(
            network=[
                weights | {"weight": [[1e9], [1.0]], "curves": [["sin", [0]]]},
                SMOOTH["network"][1],
            ],
            basis=None,
            lower=0.0,
        ),
        "smooth: too large": packed(network=[weights, SMOOTH["network"][1]], lower=0.0),
        "smooth: no box": packed(domain=SMOOTH["domain"] | {"upper": ["inf"]}),
        "smooth: cases of slopes": packed(b'[["split", 0]]\n', slopes=True),
        "smooth: a format of no version": packed(format="lipyomo-proof-smooth-1"),
        "smooth: outside": packed(witness=SMOOTH["witness"] | {"x": [2.0]}),
        "smooth: no interior": packed(domain=row, witness=SMOOTH["witness"] | {"inside": [0.9]}),
        "smooth: not attained": packed(lower=3.00005),
        "smooth: at a jump": packed(witness=SMOOTH["witness"] | {"x": [-0.5]}, lower=1.0),
        "smooth: ends at once": packed(bytes(1)),
        "smooth: ends before": packed(payload[:-1]),
        "smooth: goes on": packed(payload + b"\0"),
        "smooth: no such axis": packed(b"\xff" + payload[1:]),
        "products: of one unit": with_products(product, products=[[0, 0]]),
        "products: of others than squares": with_products(product, curves=[["sin", [0, 1]]]),
        "products: unequal columns": packed(**PRODUCT | {"network": [product, unequal]}),
        "products: another format": packed(**PRODUCT | {"format": "lipyomo-proof-7"}),
        "products: slopes alone": packed(b'[["end"]]\n', **PRODUCT | {"slopes": True}),
        "values: another format": packed(question="values"),
        "values: no functionals": of_values(
            network=[product, unequal | {"weight": [[2.0, -2.0]] * 2, **PAIR}], output_norm="l2"
        ),
        "values: by slopes": of_values(slopes=True),
        "values: an empty interval": of_values(lower=[3.9, 0.1]),
        "values: not attained": of_values(lower=[4.00005, -0.1]),
        "values: several outputs of the shell": of_values(
            shell=level | {"network": [unequal | {"weight": [[1.0], [2.0]], "inputs": 1, **PAIR}]}
        ),
        "values: empty shell": of_values(shell=level | {"high": -1.0}),
        "values: outside of the shell": of_values(shell=level | {"low": 5.0}),
        "smooth: cut too far": packed(b"\x01\x80\xff\x00" + payload),
    }


def pair_lies() -> dict[str, bytes]:
    """Proofs about all pairs of boxes, true but for one lie."""

    def packed(payload: bytes = b"", **entries: Any) -> bytes:
        return gzip.compress(json.dumps(PAIRS | entries).encode() + b"\n" + payload)

    wide = {"lower": [-1.0] * 13, "upper": [1.0] * 13, "A": [], "b": [], "ball": None}
    first = PAIRS["network"][0] | {"inputs": 13, "weight": [[1.0] * 13] * 3}
    return {
        "pairs: no box": packed(domain=PAIRS["domain"] | {"upper": ["inf"]}),
        "pairs: smooth units": packed(
            **{name: SMOOTH[name] for name in ("network", "lower", "upper", "witness")}
        ),
        "pairs: Euclidean": packed(input_norm="l2"),
        "pairs: too many": packed(
            network=[first, PAIRS["network"][1]], domain=wide, lower=0.0, witness={"x": [0.5] * 13}
        ),
        "pairs: ends at once": packed(b"\x00", lower=0.0, upper=1.5, witness={"x": [0.5]}),
        "pairs: a unit with one slope": packed(b"\x04"),
    }


def rejected(check: Callable[[], object]) -> tuple[str, int]:
    """File and line that reject."""
    with pytest.raises(ProofError) as caught:
        check()
    last = caught.traceback[-1]
    return _place(Path(str(last.path))), last.lineno + 1


def _place(path: Path) -> str:
    return path.relative_to(Path(lipyomo_check.__file__).parent).as_posix()


def dies(path: Path, share: int, workers: int) -> None:
    os._exit(1)


def sites() -> set[tuple[str, int]]:
    """Files and lines of all rejections."""
    found = set()
    for path in Path(lipyomo_check.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and "ProofError" in ast.dump(node):
                found.add((_place(path), node.lineno))
    return found


@pytest.mark.parametrize(
    "first", [SMOOTH, PRODUCT, VALUES, PAIRS], ids=["smooth", "product", "values", "pairs"]
)
def test_the_smooth_proof_is_one_without_a_lie(first: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_bytes(gzip.compress(json.dumps(first).encode() + b"\n" + boxes_of(first)))
    assert check_proof(path).upper_proved
    assert check_proof(path, strict=True).upper_proved


def test_other_units_than_those_of_the_file_are_refused(tmp_path: Path) -> None:
    """A plain chain has two-slope units only, whatever the weights are."""
    onnx_file, path = tmp_path / "net.onnx", tmp_path / "p"
    first = SMOOTH["network"][0]
    write(
        lipyomo.Network.from_arrays(
            [first["weight"], SMOOTH["network"][1]["weight"]],
            [first["bias"], SMOOTH["network"][1]["bias"]],
        ),
        onnx_file,
    )
    path.write_bytes(gzip.compress(json.dumps(SMOOTH).encode() + b"\n" + boxes_of(SMOOTH)))
    with pytest.raises(ProofError, match="another network"):
        check_proof(path, onnx_file)


def test_the_proof_is_one_without_a_lie(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_bytes(WHOLE)
    assert check_proof(str(path)).upper_proved
    assert check_proof(path, workers=2).nodes == len(CASES)


def test_every_rejection_is_triggered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, true = tmp_path / "p", tmp_path / "true"
    true.write_bytes(WHOLE)
    found = set()
    for name, content in (LIES | smooth_lies() | pair_lies()).items():
        path.write_bytes(content)
        try:
            found.add(rejected(lambda: check_proof(path)))
        except BaseException as error:
            raise AssertionError(name) from error
    found.add(rejected(lambda: check_proof(tmp_path / "none")))
    path.write_bytes(gzip.compress(json.dumps(VALUES).encode() + b"\n" + boxes_of(VALUES)))
    found.add(rejected(lambda: check_proof(path, shell="0" * 64)))
    path.write_bytes(LIES["goes on"])
    found.add(rejected(lambda: check_proof(path, workers=2)))
    path.write_bytes(LIES["not closed"])  # in the other process's share
    found.add(rejected(lambda: check_proof(path, workers=2)))
    other = tmp_path / "other.onnx"
    write(lipyomo.Network.from_arrays([np.array([[2.0]])]), other)
    found.add(rejected(lambda: check_proof(true, other)))
    found.add(rejected(lambda: check_proof(true, digest="0" * 64)))
    found.add(rejected(lambda: check_proof(true, tmp_path / "none.onnx")))
    (tmp_path / "text.onnx").write_bytes(b"this is no ONNX file")
    found.add(rejected(lambda: check_proof(true, tmp_path / "text.onnx")))
    with monkeypatch.context() as patch:
        patch.setattr(statement, "MOST_NUMBERS", 0)
        found.add(rejected(lambda: check_proof(true)))
    with monkeypatch.context() as patch:
        patch.setattr(reading, "MOST_NUMBERS", 0)
        found.add(rejected(lambda: check_proof(true)))
    with monkeypatch.context() as patch:
        patch.setattr(network, "MOST_BYTES", 10)
        found.add(rejected(lambda: check_proof(true, other)))
    path.write_bytes(gzip.compress(json.dumps(SMOOTH).encode() + b"\n" + boxes_of(SMOOTH)))
    with monkeypatch.context() as patch:
        patch.setattr(proof, "_left", lambda *of: [(of[3], in_balls(np.full(len(of[3]), 9.0)))])
        found.add(rejected(lambda: check_proof(path, strict=True)))
    path.write_bytes(
        gzip.compress(json.dumps(SMOOTH | {"slopes": True}).encode() + b'\n[["end"]]\n')
    )
    with monkeypatch.context() as patch:
        wrong = SimpleNamespace(
            d=in_balls(np.full((1, 2), 9.0)), d_reach=in_balls(np.zeros((1, 2)))
        )
        patch.setattr(
            slopes,
            "ChainInBalls",
            lambda *_: SimpleNamespace(bound=lambda *_, **known: SimpleNamespace(layers=[wrong])),
        )
        found.add(rejected(lambda: check_proof(path, strict=True)))
    path.write_bytes(pair_lies()["pairs: ends at once"])
    with monkeypatch.context() as patch:
        above = Asked.above
        patch.setattr(
            Asked,
            "above",
            lambda asked, *of: above(asked, *of) - np.inf * isinstance(asked.head, np.ndarray),
        )
        found.add(rejected(lambda: check_proof(path, strict=True)))
    with monkeypatch.context() as patch:
        decided = ranges._decided
        patch.setattr(
            ranges,
            "_decided",
            lambda low, high, sides: (
                np.full_like(sides, 1) if isinstance(low, np.ndarray) else decided(low, high, sides)
            ),
        )
        found.add(rejected(lambda: check_proof(path, strict=True)))
    with monkeypatch.context() as patch:
        patch.setattr(np, "log1p", lambda e: 2.0 * e)
        found.add(rejected(lambda: elementary.log_one_plus(np.array([0.5]))))
    with monkeypatch.context() as patch, ProcessPoolExecutor(1) as pool:
        patch.setattr(check, "_check_share", dies)
        found.add(rejected(lambda: check_proof(true, workers=2, executor=pool)))
    assert sites() - found == set()


FALSE: dict[str, bytes] = {
    "a unit without a kink has no side": cased(
        [["empty", [0, [[0], [1]], NO, NO]]],
        network=[FIRST["network"][0] | {"left": [1.0, 0.0]}, FIRST["network"][1]],
        domain=FIRST["domain"] | {"upper": [-0.5]},
        lower=0.0,
        upper=0.5,
        witness={"x": [-0.75]},
    ),
    "a bound far below a ball": cased(
        [["bound", [[0, "R", 0.0, NONE]]], ["split", 1]],
        [["end"]],
        [["end"]],
        domain={"lower": [0.0], "upper": [10.0], "A": [], "b": []}
        | {"ball": {"norm": "l2", "center": [3.0], "radius": 0.5}},
        lower=0.0,
        upper=1.0,
        witness={"x": [3.0]},
    ),
    "a functional outside the dual ball": cased(
        *CASES, lower=3.0, upper=3.0, witness=FIRST["witness"] | {"functional": [2.0]}
    ),
    "a point of the domain's boundary": cased(*CASES, witness=FIRST["witness"] | {"x": [1.0]}),
    "one target closed for two": cased(
        [["close", [0], [1], [8, 8]], ["end"]],
        output_norm={"vertices": [[0.001], [1.0]]},
        lower=0.0,
        upper=1.0,
        witness={"x": [0.5]},
    ),
}
"""Proofs of what is not so, by steps that nearly prove it."""


@pytest.mark.parametrize("name", FALSE)
def test_what_is_not_so_is_rejected(name: str, tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_bytes(FALSE[name])
    with pytest.raises(ProofError):
        check_proof(path)


@pytest.mark.parametrize(("low", "high"), [(-1.0, 2.0), (-2.0, 1.0), (-0.3, 0.7), (-1e-9, 1e9)])
@pytest.mark.parametrize(("left", "right"), [(0.0, 1.0), (-1.0, 1.0), (0.1, 1.0), (1.0, 0.0)])
def test_lines_around_open_units_are_rounded_outwards(
    low: float, high: float, left: float, right: float
) -> None:
    """What the next layer sees of a unit, at both ends of its range and at its kink."""
    layer = {"inputs": 1, "weight": [[1.0]], "bias": [0.0], "left": [left], "right": [right]}
    last = layer | {"left": [1.0], "right": [1.0]}
    own = read_statement(
        FIRST
        | {"network": [layer, layer, last], "lower": 0.0}
        | {"domain": FIRST["domain"] | {"lower": [low], "upper": [high]}}
    )
    rows = linear.Linear(own)
    node = rows.root()
    node.lower[0], node.upper[0] = low, high
    above = rows.above(node, [({1: sign}, linear.Weights()) for sign in (1, -1)])
    for sign, function in zip((1, -1), above, strict=True):
        for z in (low, 0.0, high):
            exact = Fraction(z) * Fraction(right if z > 0 else left)
            line = int(function.row[0]) * Fraction(z) + int(function.constant)
            assert line / 2**function.bits >= sign * exact
            assert line / 2**function.bits <= sign * exact + Fraction(high) - Fraction(low)


@pytest.mark.parametrize(
    ("shape", "domain", "plain"),
    [
        (["batch", 1], "", True),
        ([1], "", True),
        ([1, 1], "ai.onnx", True),
        ([3, 1], "", False),
        ([1, 4, 1], "", False),
        (["batch", 1], "my.own", False),
    ],
)
def test_only_chains_of_one_vector_are_compared(
    shape: list[Any], domain: str, plain: bool, tmp_path: Path
) -> None:
    """A product with the last axis of a matrix is another function: of all its rows."""
    network = FIRST["network"]
    weights = [np.array(layer["weight"], dtype=np.float32).T for layer in network]
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["y"]),
        helper.make_node("Relu", ["y"], ["z"], domain=domain),
        helper.make_node("MatMul", ["z", "b"], ["out"]),
    ]
    constants = [numpy_helper.from_array(w, name) for w, name in zip(weights, "ab", strict=True)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "out")]
    graph = helper.make_graph(nodes, "chain", [ends[0]], [ends[1]], constants)
    onnx_file, path = tmp_path / "net.onnx", tmp_path / "p"
    onnx_file.write_bytes(helper.make_model(graph).SerializeToString())
    path.write_bytes(WHOLE)
    if plain:
        assert check_proof(path, onnx_file).network.startswith("checked")
        return
    with pytest.raises(ProofError, match="another network"):
        check_proof(path, onnx_file)
