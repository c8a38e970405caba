"""Networks of the size that people have: their recipes, and their way to the other tool."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

from experiments.lirpa import module_of
from experiments.networks import SHAPES, Shape, as_onnx, made_up_images, train
from experiments.scale import cases
from lipyomo import load

SMALL = Shape((3, 8, 8), (4, 5), (6, 10), (0.01,))


@pytest.mark.parametrize("shape", [SMALL, Shape((4,), (), (8, 1))])
def test_a_trained_module_is_the_same_function_as_its_file(shape, tmp_path):
    torch = pytest.importorskip("torch", reason="training needs the extra [torch]")
    rng = np.random.default_rng(0)
    images = rng.random((40, *shape.inputs), dtype=np.float32), rng.integers(0, 10, 40)
    module = train(shape, images, epochs=1, seed=0)
    path = tmp_path / "net.onnx"
    onnx.save(as_onnx(module, shape, "net"), path)
    x = rng.random((1, *shape.inputs), dtype=np.float32)
    with torch.no_grad():
        expected = module(torch.from_numpy(x)).numpy().reshape(-1)
    np.testing.assert_allclose(load(path).forward(x.reshape(-1)), expected, atol=1e-5)
    again, size = module_of(path)
    assert size == (1, *shape.inputs)
    with torch.no_grad():
        np.testing.assert_allclose(again(torch.from_numpy(x)).numpy().reshape(-1), expected)
    np.save(tmp_path / "net.npy", x.reshape(-1))
    row = {"network": "net", "radius": 0.1, "norms": "linf -> linf", "best lower known": None}
    (tmp_path / "values.json").write_text(json.dumps([row]))
    [case] = cases(tmp_path, [])
    assert case.problem.network.input_dim == x.size


def test_images_that_are_made_up_lie_in_the_cube_and_are_told_apart():
    images, classes = made_up_images(200, 0)
    assert images.shape == (200, 3, 32, 32)
    assert images.min() >= 0.0
    assert images.max() <= 1.0
    means = np.array([images[classes == k].mean(axis=0).reshape(-1) for k in range(10)])
    flat = images.reshape(200, -1)
    nearest = np.linalg.norm(flat[:, None] - means[None], axis=2).argmin(axis=1)
    assert (nearest == classes).mean() > 0.9


def test_the_shapes_are_those_of_the_tables():
    assert SHAPES["m500"].dense == (500, 10)
    assert SHAPES["m1024x2"].dense == (1024, 1024, 10)
    assert SHAPES["reg20"].inputs == (20,)
    assert SHAPES["reg20"].regressor
