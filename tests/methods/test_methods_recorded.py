"""Bounds of two dozen problems are what they were when they were recorded, or better.

A change of the mathematics may tighten them (then write the new ones down); a change of structure
leaves them as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lipyomo import AllSpace, Box, LipschitzProblem, Polytope, ball, load, solve
from networks import integer_network, mixed_network, random_network

SIMPLEX = Polytope(np.vstack([np.ones((1, 4)), -np.eye(4)]), np.ones(5))


def _image(models: Path) -> np.ndarray:
    with np.load(models / "mnist17_images.npz") as images:
        return np.asarray(images[images.files[0]][0], dtype=float).ravel()


def _around(models: Path, name: str, radius: float) -> LipschitzProblem:
    """A trained network around an image."""
    x = _image(models)
    return LipschitzProblem(load(models / f"{name}.onnx"), Box(x - radius, x + radius))


PROBLEMS: dict[str, Callable[[Path], LipschitzProblem]] = {
    "cube": lambda _: LipschitzProblem(random_network(1, (2, 8, 8, 1)), Box(-1, 1, 2)),
    "vector": lambda _: LipschitzProblem(random_network(2, (4, 10, 10, 3)), Box(-1, 1, 4)),
    "linf to l2": lambda _: LipschitzProblem(
        random_network(3, (6, 12, 12, 3)), Box(-1, 1, 6), "linf", "l2"
    ),
    "linf to l1": lambda _: LipschitzProblem(
        random_network(4, (5, 10, 10, 4)), Box(-1, 1, 5), "linf", "l1"
    ),
    "l2 to l2": lambda _: LipschitzProblem(
        random_network(5, (5, 10, 10, 2)), Box(-1, 1, 5), "l2", "l2"
    ),
    "l1 to linf": lambda _: LipschitzProblem(
        random_network(6, (5, 10, 10, 2)), Box(-1, 1, 5), "l1"
    ),
    "l2 ball": lambda _: LipschitzProblem(
        random_network(7, (5, 12, 12, 1)), ball(np.zeros(5), 1.0, "l2"), "l2"
    ),
    "l1 ball": lambda _: LipschitzProblem(
        random_network(8, (5, 12, 12, 1)), ball(np.zeros(5), 1.0, "l1")
    ),
    "simplex": lambda _: LipschitzProblem(random_network(9, (4, 10, 10, 1)), SIMPLEX),
    "all of space": lambda _: LipschitzProblem(random_network(10, (3, 10, 10, 1)), AllSpace(3)),
    "all of space, l2": lambda _: LipschitzProblem(
        random_network(10, (4, 8, 8, 2)), AllSpace(4), "l2", "l2"
    ),
    "mixed units": lambda _: LipschitzProblem(mixed_network(11, (4, 10, 10, 2)), Box(-1, 1, 4)),
    "whole numbers": lambda _: LipschitzProblem(integer_network(12, (3, 8, 8, 2)), Box(-1, 1, 3)),
    "thin": lambda _: LipschitzProblem(
        random_network(13, (4, 10, 10, 1)), Box([-1, -1, -1, 0.3], [1, 1, 1, 0.3 + 1e-7])
    ),
    "frozen": lambda _: LipschitzProblem(
        random_network(14, (4, 10, 10, 1)), Box([-1, -1, -1, 0.3], [1, 1, 1, 0.3])
    ),
    "deep": lambda _: LipschitzProblem(random_network(15, (4, 8, 8, 8, 8, 8, 1)), Box(-1, 1, 4)),
    "small domain": lambda _: LipschitzProblem(
        random_network(16, (10, 20, 20, 2)), Box(-0.05, 0.05, 10)
    ),
    "random16": lambda m: LipschitzProblem(load(m / "random16_s0.onnx"), Box(0, 0.2, 16)),
    "synthetic10": lambda m: LipschitzProblem(load(m / "synthetic10.onnx"), Box(-0.2, 0.2, 10)),
    "leaky": lambda m: LipschitzProblem(load(m / "leaky.onnx"), Box(-1, 1, 4)),
    "residual": lambda m: LipschitzProblem(load(m / "residual.onnx"), Box(-0.5, 0.5, 6)),
    "wide": lambda m: _around(m, "mnist17_s1", 0.1),
    "convolution": lambda m: _around(m, "mnist_conv", 0.004),
}

# crown, eclipse, sdp, lipsdp: upper bounds; what the local search attains with 1,500 evaluations
RECORDED = {
    "cube": (3.346443927, 3.147807894, 2.502875805, 2.502764249, 1.513272342),
    "vector": (11.28852692, 9.64821378, 7.381905713, 7.381891575, 6.315308254),
    "linf to l2": (38.36547488, 15.09955931, 12.24615897, 12.24573911, 8.504888549),
    "linf to l1": (32.36940754, 25.50297137, 19.74883026, 21.2150569, 15.37073764),
    "l2 to l2": (9.108465537, 4.800751406, 4.366084339, 4.366058053, 2.846807904),
    "l1 to linf": (4.046980526, 4.477550935, 3.57223364, 3.572229903, 2.6669026),
    "l2 ball": (6.861623129, 4.659302964, 3.882235565, 3.88222817, 2.426980397),
    "l1 ball": (17.66015277, 14.344568, 11.03013812, 11.0298991, 5.336357427),
    "simplex": (10.60329982, 8.824920347, 6.775468185, 6.775463076, 3.411762998),
    "all of space": (9.579868919, 8.434688774, 6.27940294, 6.279388999, 4.071872886),
    "all of space, l2": (7.18755023, 4.449427809, 3.568044115, 3.56784668, 2.435086996),
    "mixed units": (9.209345689, 7.524511026, 6.45003376, 6.450022785, 5.419258153),
    "whole numbers": (125.195862, 102.0427038, 82.93756563, 82.93343291, 66),
    "thin": (9.934657562, 7.5757364, 6.114198325, 6.114191448, 5.171883748),
    "frozen": (7.658268397, 5.795846589, 5.117726709, 5.117721444, 3.317224094),
    "deep": (127.8670958, 52.86310305, 33.64594545, 33.64580927, 19.96875027),
    "small domain": (7.824235299, 7.213178567, 6.424427681, 6.424418188, 6.325573901),
    "random16": (31.39017583, 20.42234408, 15.06151175, 15.06139097, 9.120949469),
    "synthetic10": (631.5773705, 400.7988049, 253.1392609, 253.1280589, 99.13742668),
    "leaky": (163.6254057, 137.7028402, 109.6246148, 109.6218522, 89.47711654),
    "residual": (123.289368, 103.442098, 74.79393329, 74.79248389, 65.32489563),
    "wide": (103.7428146, 109.3822161, 103.5564937, 103.5548683, 87.48314241),
    "convolution": (127.3903616, 130.4282977, 127.2433229, 127.421031, 127.2415851),
}


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_bounds_are_what_they_were(name: str, models: Path) -> None:
    problem, known = PROBLEMS[name](models), RECORDED[name]
    attained = solve(problem, "local_search", options={"evaluations": 1500}).lower
    assert attained >= known[4] * (1 - 1e-9)
    for method, bound, accuracy in zip(
        ("crown", "eclipse", "sdp", "lipsdp"), known[:4], (1e-9, 1e-6, 1e-3, 1e-3), strict=True
    ):
        upper = solve(problem, method, attain=False).upper
        assert attained * (1 - 1e-9) <= upper <= bound * (1 + accuracy), method
