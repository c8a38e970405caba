"""A few hostile ONNX files through the command line, against the exact oracle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fuzz_cli import command_line
from fuzz_onnx import graph

from lipyomo import LipyomoError
from lipyomo.formats.onnx import from_model

SEEDS = range(16)


def test_no_promise_is_broken(tmp_path: Path) -> None:
    judged = 0
    for seed in SEEDS:
        try:
            wrong, words, truth = command_line(np.random.default_rng([seed, 7]), tmp_path)
        except LipyomoError:  # not this domain, or not this method
            continue
        assert not wrong, (seed, wrong, words, truth)
        judged += 1
    assert judged > 0.7 * len(SEEDS)


@pytest.mark.parametrize("seed", range(40))
def test_import_does_not_round(seed: int) -> None:
    """At small integers a network and its nodes agree number for number, in fractions."""
    from test_fuzz_reduction import exactly

    from lipyomo import Layer, Network

    g = graph(np.random.default_rng(seed))
    given = Network([Layer(v.weight, v.bias, v.left, v.right) for v in g.layers])
    found = from_model(g.model())
    rng = np.random.default_rng(seed)
    for _ in range(3):
        x = [int(v) for v in rng.integers(-3, 4, g.inputs)]
        assert exactly(found, x) == exactly(given, x)  # type: ignore[arg-type]
