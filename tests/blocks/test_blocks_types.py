"""A type checker accepts right uses of the blocks, and rejects wrong ones line by line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

USES = """
import numpy as np

import lipyomo
from lipyomo import Box, Network
from lipyomo.blocks import (
    DualBallBlock,
    GradientBlock,
    LipschitzBlock,
    NormBlock,
    ReluNetworkBlock,
    SmoothNetworkBlock,
    TangentBlock,
    UpperLipschitzBlock,
)

network = Network.from_arrays([np.eye(2)])
b = ReluNetworkBlock()
b.build_formulation(network, inputs=[0.0, 1.0], domain=Box(0, 1, 2), formulation="partition")
b.build_formulation("net.onnx")
b.rebuild()
b.outputs[0].setub(1.0)
b.own = 3
b.deactivate()
print(b.name, b.region, b.layer[0].switch[1], b.pattern())
many = ReluNetworkBlock(["a", "b"])
many["a"].build_formulation(network)
for member in many.values():
    member.rebuild()
slope, steep, size = GradientBlock(), LipschitzBlock(), NormBlock()
slope.build_formulation(b, functional=0)
print(slope.gradient[0].lb, slope.jacobian[0, 1].ub)
steep.build_formulation(b, encoding="tangent", wrt=[0, 1])
size.build_formulation(slope.gradient, "l1", sense="max")
along, ball, calm = TangentBlock(), DualBallBlock(), UpperLipschitzBlock()
along.build_formulation(b, norm="l1")
ball.build_formulation(3, "cross")
calm.build_formulation(b, radius=0.1)
curves = SmoothNetworkBlock()
curves.build_formulation(b, segments=4, bounds="interval", formulation="sos1")
print(curves.layer[0].curve[1], curves.ranges, curves.segments)

b.build_formulatoin("typo", 3)  # wrong
b.build_formulation(network, inptus=[0.0, 1.0])  # wrong
b.build_formulation(network, formulation="primal")  # wrong
b.build_formulation(3)  # wrong
b.build_formulation()  # wrong
b.outptus[0].setub(1.0)  # wrong
many["a"].build_formulatoin(network)  # wrong
slope.build_formulation(b, limits="wide")  # wrong
curves.build_formulation(b, segments="many")  # wrong
print(slope.gradeint[0])  # wrong
steep.build_formulation(b, encoding="bigm")  # wrong
steep.build_formulation(b, formulation="tangent")  # wrong
size.build_formulation(slope.gradient, sense="most")  # wrong
along.build_formulation(b, norm="l7")  # wrong
ball.build_formulation("three")  # wrong
calm.build_formulation(b, distance_to_kink="wide")  # wrong
lipyomo.blocks.rebuild(b).mend()  # wrong
"""


def test_mypy_tells_right_uses_from_wrong_ones(tmp_path, request):
    pytest.importorskip("mypy", reason="checks types with mypy")
    file = tmp_path / "uses.py"
    file.write_text(USES, encoding="utf-8")
    cache = request.config.cache.mkdir("mypy")
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(cache), "--follow-imports=silent"]
    command += ["--config-file", str(ROOT / "setup.cfg"), str(file)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    said = {int(n) for n in re.findall(r"uses\.py:(\d+): error", found.stdout)}
    lines = USES.splitlines()
    wrong = {n for n, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert said == wrong, found.stdout + found.stderr
