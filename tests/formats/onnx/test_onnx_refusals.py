"""What cannot be imported gets a sentence with the node, the operator and the way out."""

from __future__ import annotations

import contextlib
import gzip
import io
import pickle
import re
import shlex
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx_builder import agrees, model, one

from lipyomo import Box, LipschitzProblem
from lipyomo.base.errors import ImportRefused, LipyomoError, ProblemError
from lipyomo.formats.onnx import from_model, load
from lipyomo.formats.onnx.arrange import SeveralOutputs

RNG = np.random.default_rng(23)
W = RNG.normal(size=(3, 4))


def layers(*tail: onnx.NodeProto, **options) -> onnx.ModelProto:
    """A small network whose logits pass through the nodes `tail`."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["h"], name="units"),
        helper.make_node("MatMul", ["h", "v"], ["logits"], name="second"),
        *tail,
    ]
    return model(nodes, ["N", 3], {"w": W, "v": RNG.normal(size=(4, 3))}, **options)


def refused(proto: onnx.ModelProto, output: str | None = None) -> ImportRefused:
    with pytest.raises(ImportRefused) as caught:
        from_model(proto, output)
    assert caught.value.remedy, "every refusal has a remedy"
    return caught.value


def node(op: str, source: str = "logits", target: str = "y", **attributes) -> onnx.NodeProto:
    return helper.make_node(op, [source], [target], name="last", **attributes)


@pytest.mark.parametrize(
    "tail",
    [
        [node("Hardmax", axis=1)],
        [node("Tan")],
        [node("ArgMax", axis=1)],
        [node("Hardmax", target="p"), helper.make_node("Reshape", ["p", "s"], ["y"])],
        [node("Hardmax", target="p"), node("ArgMax", "p")],
        [node("ZipMap", domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2])],
        [node("Normalizer", domain="ai.onnx.ml", norm="SOFTMAX")],
        [node("Identity", target="logits 2"), node("Hardmax", "logits 2")],
    ],
    ids=lambda tail: "-".join(n.op_type for n in tail),
)
def test_a_final_choice_or_probability_names_the_cut_that_works(tail: list) -> None:
    proto = layers(*tail, ml=2)
    if any("s" in n.input for n in tail):
        proto.graph.initializer.append(numpy_helper.from_array(np.array([-1, 3]), "s"))
    error = refused(proto)
    assert error.node == "last"
    assert error.op_type in str(error)
    (suggestion,) = re.findall(r"--output-node (.+)$", str(error))
    (name,) = shlex.split(suggestion)
    network = from_model(proto, output=name)
    assert network.sizes == (3, 4, 3)


@pytest.mark.parametrize("op", ["Tan", "Hardmax"])
def test_no_cut_is_advised_in_the_middle_of_a_network(op: str) -> None:
    error = refused(inner(op))
    assert error.op_type == op
    assert "--output-node" not in str(error)
    assert "1 node of the network" in str(error)


def inner(op: str) -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node(op, ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "v"], ["y"]),
    ]
    return model(nodes, ["N", 3], {"w": W, "v": W.T})


@pytest.mark.parametrize("op", ["Tan", "Atanh", "Floor", "Sign"])
def test_other_operators_are_named(op: str) -> None:
    error = refused(inner(op))
    assert error.op_type == op
    assert error.node == "[b]"


def test_models_that_onnxruntime_has_optimised() -> None:
    fused = helper.make_node(
        "FusedGemm", ["x", "w"], ["y"], domain="com.microsoft", activation="Relu"
    )
    proto = model([fused], ["N", 4], {"w": W.T})
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    assert "before onnxruntime optimised it" in str(refused(proto))


def test_unknown_operator_and_domain() -> None:
    proto = model([helper.make_node("Mystery", ["x"], ["y"], domain="org.example")], ["N", 3])
    proto.opset_import.append(helper.make_opsetid("org.example", 1))
    assert "org.example" in str(refused(proto))


@pytest.mark.parametrize("op", ["Mul", "MatMul", "Div"])
def test_products_of_branches(op: str) -> None:
    nodes = [helper.make_node("Abs", ["x"], ["a"]), helper.make_node(op, ["a", "x"], ["y"])]
    network = agrees(model(nodes, [3, 3]), [3, 3])
    assert network.activations["square"] > 0
    box = Box(-1, 1, 9)
    if op == "Div":
        with pytest.raises(ProblemError, match=r"reciprocal.*range \[-1.*, 1"):
            LipschitzProblem(network, box)
    else:
        assert LipschitzProblem(network, box).network.activations == network.activations


def test_initializers_as_inputs_are_not_inputs() -> None:
    proto = layers(node("Identity"))
    for tensor in proto.graph.initializer:
        proto.graph.input.insert(
            0, helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, tensor.dims)
        )
    agrees(proto, ["N", 3])


def test_several_outputs_must_be_chosen() -> None:
    proto = layers(node("Relu"), node("Abs", target="z"))
    proto.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    error = refused(proto)
    assert "2 outputs: 'y', 'z'" in str(error)
    assert "--output-node y" in str(error)
    assert "--output-node y,z" in str(error)
    assert from_model(proto, output="z").output_dim == 3


@pytest.mark.parametrize("output", [5, b"y", ["y", 5], []])
def test_an_output_is_a_name(output: object) -> None:
    with pytest.raises(ImportRefused, match="output"):
        from_model(layers(node("Abs")), output=output)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["", "a" * 5000, "a\0b", "README.md/net.onnx", "."])
def test_paths_that_name_no_file(path: str) -> None:
    with pytest.raises(ImportRefused) as caught:
        load(path)
    assert len(str(caught.value)) < 1000


def test_an_empty_path_is_not_the_current_folder() -> None:
    with pytest.raises(ImportRefused, match="the path is empty"):
        load("")


def test_an_output_on_the_way_to_another_is_not_ambiguous() -> None:
    proto = layers(node("Identity"))
    proto.graph.output.insert(0, helper.make_tensor_value_info("h", TensorProto.FLOAT, None))
    with pytest.warns(SeveralOutputs, match="'h'.*--output-node"):
        assert from_model(proto).sizes == (3, 4, 3)


def test_cut_at_a_node_or_a_tensor_and_unknown_names() -> None:
    proto = layers(node("Hardmax"))
    assert from_model(proto, output="second").sizes == from_model(proto, output="logits").sizes
    assert from_model(proto, output="x").sizes == (3, 3)
    error = refused(proto, "logit")
    assert "'logits'" in str(error)


@pytest.mark.parametrize(
    ("proto", "op"),
    [
        (
            one("Dropout", [2, 3], np.array(0.5, dtype=np.float32), np.array(True)),
            "Dropout",
        ),
        (
            one(
                "BatchNormalization",
                [2, 3],
                *(np.ones(3) for _ in range(4)),
                training_mode=1,
            ),
            "BatchNormalization",
        ),
    ],
    ids=["dropout", "batchnorm"],
)
def test_training_mode(proto: onnx.ModelProto, op: str) -> None:
    error = refused(proto)
    assert error.op_type == op
    assert "training mode" in str(error)
    assert "eval()" in str(error)


def test_dropout_mask_is_not_an_output() -> None:
    proto = layers(
        helper.make_node("Dropout", ["logits"], ["d", "mask"]),
        node("Identity", "d"),
    )
    assert from_model(proto).sizes == (3, 4, 3)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["initializer", "constant"])
def test_weights_that_are_not_finite(value: float, where: str) -> None:
    weight = W.copy()
    weight[1, 2] = value
    if where == "initializer":
        proto = model([helper.make_node("MatMul", ["x", "w"], ["y"])], ["N", 3], {"w": weight})
    else:
        tensor = numpy_helper.from_array(weight.astype(np.float32), "value")
        proto = model(
            [
                helper.make_node("Constant", [], ["w"], value=tensor, name="w"),
                helper.make_node("MatMul", ["x", "w"], ["y"]),
            ],
            ["N", 3],
        )
    error = refused(proto)
    assert "w" in str(error)
    assert re.search("NaN|infinite", str(error))


def test_free_axes_and_integer_inputs() -> None:
    assert "axis 1" in str(refused(one("Relu", ["N", "features"])))
    assert "axis 0" in str(refused(one("Relu", ["N"])))
    integer = helper.make_tensor_value_info("x", TensorProto.INT64, [1, 3])
    proto = one("Relu", ["N", 3])
    proto.graph.input[0].CopyFrom(integer)
    assert "int64" in str(refused(proto))


def test_shapes_that_do_not_fit() -> None:
    error = refused(one("MatMul", ["N", 3], np.ones((4, 2))))
    assert error.node == "the_node"
    assert "do not" in str(error)
    assert refused(one("Reshape", ["N", 3], np.array([2, 2]))).op_type == "Reshape"


def test_nothing_makes_a_tensor() -> None:
    proto = model([helper.make_node("Add", ["x", "lost"], ["y"], name="sum")], ["N", 3])
    error = refused(proto)
    assert "'lost'" in str(error)
    assert error.node == "sum"


def test_cycles() -> None:
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    nodes.append(helper.make_node("Identity", ["b"], ["y"]))
    assert "cycle" in str(refused(model(nodes, ["N", 3])))


MORE = {
    "if": (one("If", ["N", 3]), "condition depends on"),
    "unknown-constant": (
        model(
            [helper.make_node("Mystery", ["c"], ["d"]), helper.make_node("Add", ["x", "d"], ["y"])],
            ["N", 3],
            {"c": np.ones(3)},
        ),
        "constants only",
    ),
    "log-of-negative": (
        model(
            [helper.make_node("Log", ["c"], ["d"]), helper.make_node("Add", ["x", "d"], ["y"])],
            ["N", 3],
            {"c": -np.ones(3)},
        ),
        "NaN",
    ),
    "imputer": (
        one(
            "Imputer",
            ["N", 3],
            domain="ai.onnx.ml",
            ml=2,
            imputed_value_floats=[0.0],
            replaced_value_float=1.0,
        ),
        "jump",
    ),
    "regressor": (
        one(
            "LinearRegressor",
            ["N", 2],
            domain="ai.onnx.ml",
            ml=2,
            coefficients=[1.0, 2.0],
            post_transform="SOFTMAX",
        ),
        "SOFTMAX",
    ),
    "channels": (one("Conv", [1, 2, 3, 3], np.ones((1, 1, 2, 2))), "do not fit"),
    "kernel": (one("Conv", [1, 1, 3, 3], np.ones((1, 1, 5, 5))), "window of 5"),
    "rank": (one("MaxPool", [1, 1, 3, 3], kernel_shape=[2]), "spatial axes"),
    "variance": (
        one("BatchNormalization", [1, 3], np.ones(3), np.ones(3), np.ones(3), -np.ones(3)),
        "variance",
    ),
    "spatial": (
        one("BatchNormalization", [1, 3], *(np.ones(3) for _ in range(4)), opset=8, spatial=0),
        "spatial",
    ),
    "alpha": (one("Gemm", [1, 3], np.ones((3, 2)), alpha=float("nan")), "alpha"),
    "cast": (one("Cast", ["N", 3], to=TensorProto.INT64), "int64"),
    "infinite-limit": (one("Max", ["N", 3], np.array([0.0, -np.inf, 0.0])), "infinite"),
    "division": (one("Div", ["N", 3], np.array([1.0, 0.0, 2.0])), "zero"),
    "index": (one("Gather", ["N", 3], np.array([7]), axis=1), "7"),
    "pad-mode": (one("Pad", [2, 3], np.array([0, 1, 0, 1]), mode="mirror"), "'mirror'"),
    "pads": (one("Pad", [2, 3], opset=10), "pads"),
    "gather-itself": (
        model([helper.make_node("Gather", ["x", "x"], ["y"])], [2, 2]),
        "input 1 depends",
    ),
    "split": (one("Split", [1, 3], np.array([1, 1])), "sizes"),
    "missing-input": (one("Add", [1, 3], None), "input 1 is missing"),
    "indices": (
        model(
            [
                helper.make_node("MaxPool", ["x"], ["d", "i"], kernel_shape=[2]),
                helper.make_node("Add", ["i", "i"], ["y"]),
            ],
            [1, 1, 4],
        ),
        "'i' is an output",
    ),
    "clip": (
        model([helper.make_node("Clip", ["x", "x"], ["y"])], [1, 1]),
        "depends on the network's input",
    ),
}


@pytest.mark.parametrize("case", MORE, ids=str)
def test_more_refusals(case: str) -> None:
    proto, words = MORE[case]
    assert words in str(refused(proto))


def test_outputs_that_are_no_numbers() -> None:
    label = helper.make_tensor("label", TensorProto.STRING, [1], [b"cat"])
    proto = model([helper.make_node("Constant", [], ["y"], value=label)], ["N", 3])
    assert "not a tensor of numbers" in str(refused(proto))
    pool = helper.make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2])
    assert "not a tensor of numbers" in str(refused(model([pool], [1, 1, 4]), "i"))


def test_nothing_can_be_cut_before_the_input() -> None:
    error = refused(one("Tan", ["N", 3]))
    assert "--output-node" not in str(error)
    assert "Relu" in str(error)


def test_random_constants() -> None:
    nodes = [
        helper.make_node("RandomNormal", [], ["r"], shape=[1, 3]),
        helper.make_node("Add", ["x", "r"], ["y"]),
    ]
    assert "random" in str(refused(model(nodes, ["N", 3])))


# -- files -------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save(layers(node("Identity")), path)
    return path


def load_refused(path: Path) -> str:
    with pytest.raises(ImportRefused) as caught:
        load(path)
    assert isinstance(caught.value, LipyomoError)
    assert caught.value.remedy
    return str(caught.value)


def test_files(stored: Path, tmp_path: Path) -> None:
    assert load(stored).name == "net"
    assert load(str(stored)).sizes == (3, 4, 3)
    assert "no file" in load_refused(tmp_path / "missing.onnx")
    assert "not a file" in load_refused(tmp_path)


@pytest.mark.parametrize("content", [b"", b"hello, world", b"\x00" * 64, b"\x89PNG\r\n\x1a\n" * 9])
def test_not_onnx(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    assert "ONNX" in load_refused(path)


def test_truncated_at_every_length(stored: Path, tmp_path: Path) -> None:
    """A shortened file is refused, or at least never imported as something else."""
    whole = stored.read_bytes()
    path = tmp_path / "short.onnx"
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        load_refused(path)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("cid"), st.floats(0, 1), st.integers(0, 255)),
        min_size=1,
        max_size=4,
    )
)
def test_damaged_bytes(damage: list[tuple[str, float, int]]) -> None:
    """Whatever bytes change: a network that agrees with onnxruntime, or a sentence."""
    data = bytearray(layers(node("Identity")).SerializeToString())
    for how, where, byte in damage:
        place = min(int(where * len(data)), len(data) - 1)
        if how == "c":
            data[place] = byte
        elif how == "i":
            data.insert(place, byte)
        else:
            del data[place]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged.onnx"
        path.write_bytes(bytes(data))
        with contextlib.suppress(LipyomoError):
            load(path)


def test_external_data(tmp_path: Path) -> None:
    path = tmp_path / "big.onnx"
    onnx.save(
        layers(node("Identity")),
        path,
        save_as_external_data=True,
        location="big.bin",
        size_threshold=0,
    )
    assert load(path).sizes == (3, 4, 3)
    data = (tmp_path / "big.bin").read_bytes()
    (tmp_path / "big.bin").write_bytes(data[: len(data) // 2])
    assert "other files" in load_refused(path) or "cannot be read" in load_refused(path)
    (tmp_path / "big.bin").unlink()
    assert "other files" in load_refused(path)


def npz() -> bytes:
    target = io.BytesIO()
    np.savez(target, x=np.zeros(2))
    return target.getvalue()


def zipped(*names: str) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in names:
            archive.writestr(name, "0")
    return target.getvalue()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (zipped("net/data.pkl", "net/data/0"), "PyTorch file.*from_torch"),
        (zipped("config.json", "model.weights.h5"), "Keras"),
        (zipped("net.onnx"), "zip archive"),
        (pickle.dumps({"a": 1}), "pickle"),
        (b"\x89HDF\r\n\x1a\n" + bytes(20), "HDF5"),
        (npz(), "NumPy archive"),
        (b"\x1c\0\0\0TFL3" + bytes(20), "TensorFlow Lite"),
        (b'{"layers": []}', "text"),
        (b'\x40\0\0\0\0\0\0\0{"w": 1}', "safetensors"),
        (gzip.compress(b"net"), "gzip"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_of_other_formats_are_told(data: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    path.write_bytes(data)
    with pytest.raises(ImportRefused, match=f"(?s){words}") as caught:
        load(path)
    assert "cut short" not in str(caught.value)
    assert caught.value.remedy
