"""The table of models/README.md, its records and the files say the same."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "models"
RECORDS = json.loads((FOLDER / "provenance.json").read_text())
NAMES = sorted(RECORDS)


def run(name: str, inputs: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(FOLDER / name, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: inputs.astype(np.float32)})[0]


def test_every_file_has_a_record_and_every_record_a_file() -> None:
    files = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.onnx")}
    assert files == set(RECORDS)


def test_the_kinds_of_networks_that_the_experiments_need_are_there() -> None:
    architectures = " / ".join(record["architecture"] for record in RECORDS.values())
    for kind in (
        "784-20-20-20-2",
        "10-20-30-20-2",
        "8-40-40-40-100",
        "2-20-40-20-2",
        "16-16-16-2",
        "10-10-10-1",
        "Conv",
        "skip",
        "MaxPool",
        "LeakyReLU",
    ):
        assert kind in architectures


@pytest.mark.parametrize("name", NAMES)
def test_size_hash_and_readme_agree_with_the_file(name: str) -> None:
    content = (FOLDER / name).read_bytes()
    record = RECORDS[name]
    digest = hashlib.sha256(content).hexdigest()
    assert record["bytes"] == len(content) < 100_000
    assert record["sha256"] == digest
    rows = [line for line in (FOLDER / "README.md").read_text().splitlines() if f"`{name}`" in line]
    assert len(rows) == 2
    assert all(
        record[key] in rows[0] for key in ("data", "architecture", "training", "quality", "domain")
    )
    assert f"| {len(content)} |" in rows[1]
    assert digest in rows[1]
    assert record["script"] in rows[1]
    assert (FOLDER / f"{record['script'].split()[2].removeprefix('models.')}.py").exists()


@pytest.mark.parametrize("name", NAMES)
def test_the_model_is_valid_and_runs_on_any_batch(name: str) -> None:
    model = onnx.load(FOLDER / name)
    onnx.checker.check_model(model, full_check=True)
    record = RECORDS[name]
    batch, *shape = record["input"]
    assert batch == record["output"][0] == "batch"
    rng = np.random.default_rng(0)
    inputs = rng.random((5, *shape))
    outputs = run(name, inputs)
    assert outputs.shape == (5, *record["output"][1:])
    assert np.isfinite(outputs).all()
    alone = np.concatenate([run(name, point[np.newaxis]) for point in inputs])
    np.testing.assert_allclose(outputs, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_no_trace_of_the_exporting_machine(name: str) -> None:
    content = (FOLDER / name).read_bytes()
    assert b".py" not in content
    assert b"site-packages" not in content


@pytest.mark.parametrize("name", [n for n in NAMES if RECORDS[n]["images"]])
def test_shipped_images_are_classified_as_the_table_states(name: str) -> None:
    record = RECORDS[name]
    stored = np.load(FOLDER / record["images"])
    images = stored["images"].reshape(-1, *record["input"][1:])
    right = int((run(name, images).argmax(axis=1) == stored["labels"]).sum())
    assert right == record["shipped_right"]
    assert f"{right} of {len(images)} shipped" in record["quality"]
    assert f"{record['accuracy']:.2%}" in record["quality"]
    # the shipped images are a sample of the held-out ones
    assert right / len(images) >= record["accuracy"] - 0.1


@pytest.mark.parametrize(
    ("name", "per_class", "digits"),
    [("mnist17_images.npz", 20, [1, 7]), ("mnist10_images.npz", 2, list(range(10)))],
)
def test_images_are_what_the_readme_says(name: str, per_class: int, digits: list[int]) -> None:
    stored = np.load(FOLDER / name)
    images, labels = stored["images"], stored["labels"]
    assert images.shape == (per_class * len(digits), 784)
    assert images.dtype == np.float32
    assert images.min() == 0.0
    assert images.max() == 1.0
    assert stored["digits"].tolist() == digits
    assert np.bincount(labels).tolist() == [per_class] * len(digits)
    assert len(set(stored["index"].tolist())) == len(images)
    assert "CC BY-SA 3.0" in str(stored["attribution"])


@pytest.mark.reference
@pytest.mark.parametrize("name", ["mnist17_images.npz", "mnist10_images.npz"])
def test_images_are_mnist_test_images(name: str, shared: Path) -> None:
    import gzip

    raw = gzip.decompress((shared / "data/mnist/t10k-images-idx3-ubyte.gz").read_bytes())
    images = np.frombuffer(raw, dtype=np.uint8, offset=16).reshape(-1, 784)
    raw = gzip.decompress((shared / "data/mnist/t10k-labels-idx1-ubyte.gz").read_bytes())
    digits = np.frombuffer(raw, dtype=np.uint8, offset=8)
    stored = np.load(FOLDER / name)
    np.testing.assert_array_equal(
        np.rint(stored["images"] * 255).astype(np.uint8), images[stored["index"]]
    )
    np.testing.assert_array_equal(stored["digits"][stored["labels"]], digits[stored["index"]])
