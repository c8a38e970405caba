"""Resizing computes what onnxruntime computes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from onnx_builder import agrees, model, one

from lipyomo.base.errors import ImportRefused
from lipyomo.formats.onnx import from_model

TRANSFORMS = (
    "half_pixel",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "half_pixel_symmetric",
)


def resized(shape: list[int], scales=None, sizes=None, opset: int = 19, **options):
    scales = None if scales is None else np.array(scales, dtype=np.float32)
    sizes = None if sizes is None else np.array(sizes, dtype=np.int64)
    more = (scales,) if sizes is None else (scales, sizes)
    return one("Resize", shape, None, *more, opset=opset, **options)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("lengths", [(6, 8), (7, 5), (2, 1), (3, 9)])
def test_sizes(transform: str, mode: str, lengths: tuple[int, int]) -> None:
    shape = [1, 2, 3, 4]
    proto = resized(
        shape, sizes=[1, 2, *lengths], mode=mode, coordinate_transformation_mode=transform
    )
    network = agrees(proto, shape)
    assert network.output_shape == (2, *lengths)
    assert not network.activations
    assert network.kinked_units == 0


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scale", [2.0, 0.5, 1.7])
def test_scales(mode: str, scale: float) -> None:
    agrees(resized([1, 1, 4, 4], [1, 1, scale, 2.0], mode=mode), [1, 1, 4, 4])


@pytest.mark.parametrize("mode", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
def test_nearest(mode: str) -> None:
    proto = resized([1, 1, 5], [1, 1, 1.5], mode="nearest", nearest_mode=mode)
    agrees(proto, [1, 1, 5])


def test_what_lies_outside_may_have_no_weight() -> None:
    options = {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5}
    agrees(resized([1, 1, 4, 3], [1, 1, 2, 2], **options), [1, 1, 4, 3])


def test_axes_may_be_named() -> None:
    agrees(resized([1, 2, 4, 3], [2.0, 3.0], mode="linear", axes=[2, 3]), [1, 2, 4, 3])


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample(mode: str) -> None:
    scales = np.array([1, 1, 2, 3], dtype=np.float32)
    agrees(one("Upsample", [1, 2, 3, 2], scales, opset=9, mode=mode), [1, 2, 3, 2])
    agrees(one("Resize", [1, 2, 3, 2], scales, opset=10, mode=mode), [1, 2, 3, 2])


def test_before_and_after_units() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["h"]),
        helper.make_node("Resize", ["h", "", "s"], ["y"], mode="linear"),
    ]
    rng = np.random.default_rng(0)
    constants = {"w": rng.normal(size=(2, 1, 2, 2)), "s": np.array([1.0, 1.0, 2.0, 1.5])}
    network = agrees(model(nodes, [1, 1, 4, 4], constants), [1, 1, 4, 4])
    assert network.kinked_units == 18


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "linear", "antialias": 1}, "antialias"),
        ({"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}, "places"),
    ],
)
def test_refusals(options: dict, words: str) -> None:
    with pytest.raises(ImportRefused, match=words) as caught:
        from_model(resized([1, 1, 4], [1, 1, 0.5], **options), check=False)
    assert caught.value.op_type == "Resize"


@pytest.mark.parametrize("scale", [0.0, 0.1, -1.0, np.nan, np.inf, 1e30])
def test_senseless_scales_are_refused(scale: float) -> None:
    with pytest.raises(ImportRefused):
        from_model(resized([1, 1, 4], [1, 1, scale]), check=False)


def test_too_few_scales_are_refused() -> None:
    with pytest.raises(ImportRefused):
        from_model(resized([1, 1, 4], [1, 1]), check=False)
