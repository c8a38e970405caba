"""Every message on the page of errors is one that the command line gives."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from cli_ran import Ran
from onnx import TensorProto, helper, numpy_helper

from lipyomo import Network
from lipyomo.formats.onnx import write

Cli = Callable[..., Ran]
BOX = ("--box", "0,1")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "errors.md"

CASES: dict[str, tuple[str, ...]] = {
    "there is no file ...": ("none.onnx", *BOX),
    "... is not an ONNX model, or it is cut short": ("cut.onnx", *BOX),
    "... keeps weights in other files, which cannot be read": ("outside.onnx", *BOX),
    "the model has no input ... to fix": ("net.onnx", *BOX, "--fix", "nowhere=1"),
    "the model has ... outputs": ("outputs.onnx", *BOX),
    "there is no tensor or node ... to cut at": ("net.onnx", *BOX, "--output-node", "nowhere"),
    "... has no fixed size": ("open.onnx", *BOX),
    "the weights ... hold NaN": ("nan.onnx", *BOX),
    "the shapes do not fit": ("product.onnx", *BOX),
    "... would take ...; the memory limit is ...": (
        *("bomb.onnx", *BOX),
        *("--memory-limit", "100000"),
    ),
    "no domain was given": ("net.onnx",),
    "expected LO,HI": ("net.onnx", "--box", "0,1,2"),
    "is neither a number nor a .npy file": ("net.onnx", "--box", "a,1"),
    "cannot read ...": ("net.onnx", "--box", "none.npy,1"),
    "... entries, expected ... (one an input)": ("net.onnx", "--box", "short.npy,1"),
    "the box is empty: input ...": ("net.onnx", "--box", "1,0"),
    "the domain is a single point": ("net.onnx", "--box", "1,1"),
    "--radius needs --ball": ("net.onnx", *BOX, "--radius", "1"),
    "the center has ... entries, the network takes ... inputs": (
        *("net.onnx", "--ball", "short.npy"),
        *("--radius", "1"),
    ),
    "the ball does not meet the clip box": (
        *("net.onnx", "--ball", "5", "--radius", "1"),
        *("--clip", "0,1"),
    ),
    "must hold the arrays A and b": ("net.onnx", "--polytope", "x.npz"),
    "the polytope is empty": ("net.onnx", "--polytope", "flat.npz"),
    "the domain reaches beyond ...": ("net.onnx", "--box", "0,1e200"),
    "it needs a bounded domain": ("net.onnx", "--everywhere", "--method", "mip"),
    "unknown output norm ...": ("net.onnx", *BOX, "--output-norm", "l3"),
    "label ... is out of range": ("net.onnx", *BOX, "--margin", "3"),
    "the functional has ... entries, the network has ... outputs": (
        *("net.onnx", *BOX),
        *("--functional", "1,-1"),
    ),
    "the dual ball is no bounded polytope": ("net.onnx", *BOX, "--dual-ball", "half.npz"),
    "wrt has input ...": ("net.onnx", *BOX, "--wrt", "99"),
    "... weights for ... inputs": ("net.onnx", *BOX, "--weights", "1,1,1,1,1,1,1"),
    "weights must be numbers of at least zero": ("net.onnx", *BOX, "--weights=-1"),
    "all inputs have weight zero": ("net.onnx", *BOX, "--weights", "0"),
    "the directions have shape ...": ("net.onnx", *BOX, "--directions", "short.npy"),
    "give either directions, or wrt and weights": (
        *("net.onnx", *BOX),
        *("--wrt", "0", "--directions", "short.npy"),
    ),
    "unknown method ...": ("net.onnx", *BOX, "--method", "magic"),
    "method ... cannot treat this problem: ...": (
        *("net.onnx", *BOX, "--method", "mip"),
        *("--norm", "l2"),
    ),
    "method ... has no option ...": ("net.onnx", *BOX, "--method", "bnb", "--option", "a=1"),
    "is not of the form NAME=VALUE": ("net.onnx", *BOX, "--method", "bnb", "--option", "a"),
    "the time limit ... must be positive": ("net.onnx", *BOX, "--time-limit", "0"),
    "gap must be in [0, 1)": ("net.onnx", *BOX, "--gap", "2"),
    "... is no amount of memory": ("net.onnx", *BOX, "--memory-limit", "0"),
    "--resume needs to know from where": ("net.onnx", *BOX, "--resume"),
    "--prove-upper is about a proof, and there is none": ("net.onnx", *BOX, "--prove-upper"),
    "there is no file or subcommand ...": ("solver",),
    "no solver ...; there are": ("net.onnx", *BOX, "--method", "mip", "--solver", "magic"),
    "... is not installed: there is no program ...": (
        *("net.onnx", *BOX, "--method", "mip", "--solver", "mine"),
        *("--solvers-file", "mine.toml"),
    ),
    "... unknown key ...": ("solvers", "--solvers-file", "unknown.toml"),
    "... is not valid TOML": ("solvers", "--solvers-file", "data.csv"),
    "may not say which programs, modules or files are used": ("solvers",),
    "used no MIP or LP solver, so there is nothing to cross-check": (
        *("net.onnx", *BOX, "--method", "crown"),
        *("--cross-check", "highs"),
    ),
    "DATA: cannot read ...": ("certify", "net.onnx", "none.csv", "--radius", "0.1"),
    "... has a decimal comma: ...": ("certify", "net.onnx", "comma.csv", "--radius", "0.1"),
    "holds ... inputs, but ... labels": ("certify", "net.onnx", "labels.npz", "--radius", "0.1"),
    "none of the rows could be used; the first: ...": (
        *("certify", "net.onnx", "nan.csv"),
        *("--radius", "0.1"),
    ),
    "... columns for the ... inputs of the network": (
        *("certify", "net.onnx", "wide.csv"),
        *("--radius", "0.1"),
    ),
    "... should end in .csv or .jsonl": (
        *("certify", "net.onnx", "data.csv"),
        *("--radius", "0.1", "--rows", "rows.txt"),
    ),
    "... holds rows of another run": (
        *("certify", "net.onnx", "data.csv"),
        *("--radius", "0.2", "--rows", "rows.jsonl"),
    ),
    "... is there and is not ..., so it is not replaced": (
        *("net.onnx", *BOX),
        *("--proof", "data.csv"),
    ),
    "... is read as well": ("net.onnx", *BOX, "--proof", "net.onnx"),
    "there is no folder ...": ("net.onnx", *BOX, "--proof", "none/proof.json"),
    "... has no known format": ("net.onnx", *BOX, "--plot", "picture.txt"),
    "there is a checkpoint ... already": ("net.onnx", *BOX, "--checkpoint", "state"),
    "the checkpoint ... belongs to another ...": (
        *("net.onnx", "--box", "0,2"),
        *("--checkpoint", "state", "--resume"),
    ),
    "the proof does not hold": ("verify", "proof.json", "other.onnx"),
    "the network has units with kinks": ("smoothness", "net.onnx", *BOX),
    "derivatives of ... beyond order ... are not supported": (
        *("residual", "smooth.onnx", *BOX),
        *("--pde", "deep.py"),
    ),
    "... needs arguments in ..., but all that is proved of them over the domain is the range ...": (
        *("residual", "smooth.onnx", "--box=-1,1"),
        *("--pde", "inverse.py"),
    ),
    "... is no derivative of the network": ("residual", "smooth.onnx", *BOX, "--pde", "names.py"),
    "numpy's ... of an expression is not supported": (
        *("residual", "smooth.onnx", *BOX),
        *("--pde", "arctan.py"),
    ),
    "--pde: ... has no function 'residual'": ("residual", "smooth.onnx", *BOX, "--pde", "none.py"),
    "ask for different things: give one": (
        *("map", "smooth.onnx", *BOX, "--cells", "2x2"),
        *("--values", "--curvature"),
    ),
    "no point of the domain was found at which V is between ...": (
        *("lyapunov", "smooth.onnx", "plant.onnx", *BOX),
        *("--shell", "5,6"),
    ),
    "the metric is not positive definite": (
        *("jacobian", "plant.onnx", *BOX),
        *("--contraction", "--metric", "flat.npy"),
    ),
    "--config: cannot read ...": ("net.onnx", *BOX, "--config", "none.toml"),
    "--config: ... is not TOML": ("net.onnx", *BOX, "--config", "data.csv"),
    "--config: ... there is no option ...": ("net.onnx", *BOX, "--config", "unknown.toml"),
}


def messages() -> list[str]:
    """What the table of the page says."""
    part = PAGE.read_text(encoding="utf-8").split("## Messages")[1]
    return re.findall(r"^\| `([^`]+)` \|", part.split("## Questions")[0], re.MULTILINE)


def save(
    path: Path, *nodes: onnx.NodeProto, inputs: int = 1, outputs: int = 1, weight: float = 1.0,
    size: int | str = 2,
) -> None:  # fmt: skip
    names = [["x", "w"][:inputs], ["y", "z"][:outputs]]
    known = numpy_helper.from_array(np.full((2, 2), weight, dtype=np.float32), "W")
    ends = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, size]) for n in group]
        for group in names
    ]
    graph = helper.make_graph(list(nodes), "g", *ends, [known])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)


@pytest.fixture
def folder(net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with what the messages are about."""
    monkeypatch.chdir(tmp_path)
    data, node = net.read_bytes(), helper.make_node
    Path("net.onnx").write_bytes(data)
    Path("cut.onnx").write_bytes(data[: len(data) // 2])
    model = onnx.load(net)
    onnx.save(model, "outside.onnx", save_as_external_data=True, size_threshold=0, location="w")
    Path("w").unlink()
    model = onnx.load(net)
    first = model.graph.initializer[0]
    first.CopyFrom(numpy_helper.from_array(2 * numpy_helper.to_array(first), first.name))
    onnx.save(model, "other.onnx")
    save(Path("inputs.onnx"), node("Add", ["x", "w"], ["y"]), inputs=2)
    both = node("MatMul", ["x", "W"], ["y"]), node("Relu", ["x"], ["z"])
    save(Path("outputs.onnx"), *both, outputs=2)
    save(Path("open.onnx"), node("MatMul", ["x", "W"], ["y"]), size="n")
    save(Path("nan.onnx"), node("MatMul", ["x", "W"], ["y"]), weight=np.nan)
    turned = node("MatMul", ["x", "W"], ["h"]), node("MatMul", ["h", "h"], ["y"])
    save(Path("product.onnx"), *turned)
    shape = numpy_helper.from_array(np.array([300_000, 1_000_000]), "s")
    large = (
        node("ConstantOfShape", ["s"], ["c"], name="big"),
        node("ReduceSum", ["c"], ["r"], keepdims=0),
        node("Add", ["x", "r"], ["y"]),
    )
    graph = helper.make_graph(
        large, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])], [shape],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "bomb.onnx")
    np.save("short.npy", np.zeros(2))
    np.savez("x.npz", x=np.zeros(4))
    np.savez("flat.npz", A=np.eye(4)[:1] * [[1.0], [-1.0]], b=-np.ones(2))
    np.savez("half.npz", A=np.eye(3), b=np.ones(3))
    Path("data.csv").write_text("1,2,3,4\n5,6,7,8\n")
    Path("nan.csv").write_text("1,2,nan,4\n5,nan,7,8\n")
    Path("wide.csv").write_text("1,2,3,4,5,6\n")
    Path("comma.csv").write_text("1,5;2;3;4\n2,5;3;4;5\n")
    np.savez("labels.npz", inputs=np.ones((3, 4)), labels=np.zeros(2))
    write(Network.from_arrays([[[1.0, 1.0]], [[1.0]]], activation="tanh"), "smooth.onnx")
    write(Network.from_arrays([-np.eye(2)]), "plant.onnx")
    np.save("flat.npy", np.diag([1.0, 0.0]))
    for name, expression in (
        ("deep", "u.d(0, 0, 0, 0)"), ("inverse", "1 / u"), ("names", "u.dt"),
        ("arctan", "np.arctan(u)"),
    ):  # fmt: skip
        text = f"import numpy as np\n\n\ndef residual(u, x):\n    return {expression}\n"
        Path(f"{name}.py").write_text(text)
    Path("none.py").write_text("x = 1\n")
    Path("unknown.toml").write_text("magic = 1\n")
    Path("mine.toml").write_text('[solver.mine]\nbackend = "cbc"\nexecutable = "no-such"\n')
    return tmp_path


def test_every_message_of_the_page_has_a_case() -> None:
    """The page leaves out messages that explain themselves; their cases stay."""
    assert len(messages()) > 20
    assert [message for message in CASES if message in messages()] == messages()


@pytest.mark.parametrize("message", CASES)
def test_the_command_line_says_so(cli: Cli, folder: Path, message: str) -> None:
    if message.startswith("may not say which"):
        (folder / "mine.toml").rename(folder / "solvers.toml")
    words = CASES[message]
    before = ("net.onnx", *BOX, "--method", "bnb", "--time-limit", "20")
    if "rows.jsonl" in words:
        cli("certify", "net.onnx", "data.csv", "--radius", "0.1", "--rows", "rows.jsonl")
    if "state" in words:
        cli(*before, "--checkpoint", "state")
    if "verify" in words:
        cli(*before, "--proof", "proof.json")
    ran = cli(*words)
    assert ran.code == 1
    assert re.search(".*".join(map(re.escape, message.split("..."))), ran.err, re.DOTALL), ran.err
    assert ran.err.count("lipyomo: error: ") == 1
