"""What is known of every model file, in ``provenance.json`` and as the tables of ``README.md``.

The training scripts save through this module, which writes the ONNX file and its record.  Run
``python -m models.provenance`` to write the tables of the README again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx

HERE = Path(__file__).resolve().parent
RECORDS = HERE / "provenance.json"
README = HERE / "README.md"
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


@dataclass(frozen=True)
class Training:
    """What a person must know of a model's making.

    Attributes
    ----------
    data : str
        Where the samples come from.
    architecture : str
        Layers, inputs first.
    training : str
        Loss, epochs, penalties, seed.
    quality : str
        How good it is, with the name of the measure.
    domain : str
        The inputs that it is made for.
    script : str
        The command that makes it.
    accuracy : float or None
        Accuracy on held-out samples, between 0 and 1; None where there is nothing to classify.
    shipped_right : int or None
        How many of the shipped test images it classifies correctly; None without images.
    images : str or None
        The file with those images.
    """

    data: str
    architecture: str
    training: str
    quality: str
    domain: str
    script: str
    accuracy: float | None = None
    shipped_right: int | None = None
    images: str | None = None


def save(model: onnx.ModelProto, name: str, training: Training, out: Path = HERE) -> None:
    """Check a model, write it to ``out/name.onnx`` and enter it in ``out/provenance.json``.

    Parameters
    ----------
    model : onnx.ModelProto
        What to write.
    name : str
        Path below `out`, without the suffix.
    training : Training
        What to record beside size and hash.
    out : Path
        Folder of the records; the one of this file by default.
    """
    onnx.checker.check_model(model, full_check=True)
    path = out / f"{name}.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString(deterministic=True))
    records_file = out / RECORDS.name
    records = read_records(records_file) if records_file.exists() else {}
    records[f"{name}.onnx"] = asdict(training) | {
        "exporter": f"{model.producer_name} {model.producer_version}".strip(),
        "opset": {entry.domain or "ai.onnx": entry.version for entry in model.opset_import},
        "input": _shape(model.graph.input[0]),
        "output": _shape(model.graph.output[0]),
        "bytes": path.stat().st_size,
        "sha256": sha256(path),
    }
    records_file.write_text(json.dumps(dict(sorted(records.items())), indent=1) + "\n")
    print(f"{path.name}: {path.stat().st_size} bytes, {training.quality}")


def read_records(path: Path = RECORDS) -> dict[str, dict[str, Any]]:
    """Read the records: file name to fields.

    Parameters
    ----------
    path : Path
        The JSON file.

    Returns
    -------
    dict
        Records by file name, relative to the folder of `path`.
    """
    records: dict[str, dict[str, Any]] = json.loads(path.read_text())
    return records


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tables(records: dict[str, dict[str, Any]]) -> str:
    """Write the README's two Markdown tables: what the models are, and what the files are.

    Parameters
    ----------
    records : dict
        Records by file name.

    Returns
    -------
    str
        Markdown, without the markers around it.
    """
    what = ["| file | data | architecture | training | quality | domain |", "|---" * 6 + "|"]
    files = ["| file | bytes | exporter | opset | command | sha256 |", "|---" * 6 + "|"]
    for name, record in records.items():
        fields = ("data", "architecture", "training", "quality", "domain")
        what.append("| " + " | ".join([f"`{name}`", *(record[key] for key in fields)]) + " |")
        opset = ", ".join(f"{domain} {version}" for domain, version in record["opset"].items())
        files.append(
            f"| `{name}` | {record['bytes']} | {record['exporter']} | {opset} "
            f"| `{record['script']}` | `{record['sha256']}` |"
        )
    return "\n".join([*what, "", *files])


def write_readme() -> None:
    """Replace the tables between the markers of the README by those of the records."""
    text = README.read_text()
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    README.write_text(f"{head}{BEGIN}\n\n{tables(read_records())}\n\n{END}{tail}")


def _shape(value: onnx.ValueInfoProto) -> list[int | str]:
    return [
        axis.dim_value if axis.HasField("dim_value") else axis.dim_param
        for axis in value.type.tensor_type.shape.dim
    ]


if __name__ == "__main__":
    write_readme()
