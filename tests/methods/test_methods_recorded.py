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
    "cube": (3.346443927, 3.148525585, 2.502804055, 2.502764253, 1.513272342),
    "vector": (11.28852692, 9.269088289, 7.381931846, 7.381891611, 6.16989381),
    "linf to l2": (38.36547488, 15.45717981, 12.24600775, 12.24573875, 8.504888549),
    "linf to l1": (32.36940754, 25.22831638, 19.74884013, 21.21505666, 15.37073764),
    "l2 to l2": (9.108465537, 4.771230848, 4.366099714, 4.36605802, 2.846807904),
    "l1 to linf": (4.042022808, 4.418550883, 3.572239919, 3.572229903, 2.691509965),
    "l2 ball": (6.861623129, 4.635394279, 3.882232269, 3.882228168, 2.413076282),
    "l1 ball": (17.21050044, 14.00336186, 10.82184907, 11.02989913, 5.881034374),
    "simplex": (10.60329982, 9.362732852, 6.775473669, 6.775462985, 3.988892322),
    "all of space": (9.579868919, 8.334541121, 6.279421398, 6.279389088, 4.071872886),
    "all of space, l2": (7.18755023, 4.341475015, 3.567898589, 3.567846686, 2.899262858),
    "mixed units": (9.209345689, 7.464144929, 6.450032824, 6.450022784, 5.419258153),
    "whole numbers": (125.195862, 99.56343078, 82.93497811, 82.9334329, 66),
    "thin": (9.934657562, 7.518815403, 6.114201185, 6.114191447, 5.163205525),
    "frozen": (7.658268397, 5.812340226, 5.117729724, 5.117721442, 3.317224094),
    "deep": (127.8670958, 50.3383465, 33.64660533, 33.64581123, 11.79897642),
    "small domain": (7.469665514, 7.267256287, 6.423060185, 6.424418188, 6.325573901),
    "random16": (31.39017583, 19.81321894, 15.06182126, 15.06139079, 9.295472242),
    "synthetic10": (630.8926407, 402.3594824, 252.8730133, 253.1280582, 99.24614636),
    "leaky": (163.6254057, 131.4053938, 109.622296, 109.6218517, 89.47711654),
    "residual": (123.289368, 103.4249908, 74.79495039, 74.79248381, 65.32489563),
    "wide": (103.7428146, 111.7815663, 103.5561858, 103.5548683, 87.48314241),
    "convolution": (127.3903616, 130.4306327, 127.2431112, 127.4210329, 127.2415851),
}


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_bounds_are_what_they_were(name: str, models: Path) -> None:
    problem, known = PROBLEMS[name](models), RECORDED[name]
    attained = solve(problem, "local_search", options={"evaluations": 1500}).lower
    assert attained >= known[4] * (1 - 1e-9)
    for method, bound, accuracy in zip(
        ("crown", "eclipse", "sdp", "lipsdp"), known[:4], (1e-9, 1e-6, 1e-3, 1e-3), strict=True
    ):
        upper = solve(problem, method).upper
        assert attained * (1 - 1e-9) <= upper <= bound * (1 + accuracy), method
