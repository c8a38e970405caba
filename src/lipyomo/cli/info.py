"""``lipyomo info``: the contents of an ONNX file, its import, and where it can be cut."""

from __future__ import annotations

import json
import warnings
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from typing import Any

from lipyomo.base.errors import ImportRefused
from lipyomo.cli.codes import Exit
from lipyomo.cli.options import add_options
from lipyomo.cli.parser import Parser
from lipyomo.cli.show import print_lines
from lipyomo.networks.building.budget import limits, spending

EPILOG = """\
exit codes: 0 the network can be imported; 1 it cannot, or only after a cut
"""


def run(words: Sequence[str]) -> int:
    """Run ``lipyomo info`` with these arguments; return the exit code."""
    parser = Parser("lipyomo info", "What an ONNX file holds, and what becomes of it.", EPILOG)
    add_options(parser, "NET", "--output-node", "--fix")
    add_options(parser, "--nodes")
    add_options(parser, "--time-limit", help="seconds of the import")
    add_options(parser, "--memory-limit", help="of the import, such as 2GB")
    add_options(parser, "--json", "--debug")
    arguments = parser.parse_args(words)
    record = _describe(arguments)
    if arguments.json:
        print(json.dumps(record, allow_nan=False))
    else:
        print_lines(_lines(record, arguments.nodes))
    return Exit.DONE if record["network"] is not None else Exit.FAILED


def _describe(arguments: Namespace) -> dict[str, Any]:
    """Describe a file as plain data.

    Raises
    ------
    ImportRefused
        If it is no ONNX file.
    """
    from lipyomo.formats.onnx import from_model
    from lipyomo.formats.onnx.read import read_model

    path = arguments.network
    record: dict[str, Any] = {"path": str(path), "network": None, "refused": None, "notes": []}
    with spending(limits(arguments.time_limit, arguments.memory_limit)):
        model = read_model(path)
        graph = model.graph
        stored = {tensor.name for tensor in graph.initializer}
        record["producer"] = f"{model.producer_name} {model.producer_version}".strip()
        record["opset"] = {o.domain or "ai.onnx": o.version for o in model.opset_import}
        record["inputs"] = [_tensor(v) for v in graph.input if v.name not in stored]
        record["outputs"] = [_tensor(v) for v in graph.output]
        record["operators"] = dict(Counter(node.op_type for node in graph.node).most_common())
        record["nodes"] = [
            {"name": node.name, "op": node.op_type, "outputs": list(node.output)}
            for node in graph.node
        ]
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            try:
                named = {"name": path.stem, "fixed": dict(arguments.fix)}
                network = from_model(model, arguments.output, check=False, **named)
            except ImportRefused as error:
                record["refused"] = str(error)
                return record
        record["notes"] = [str(note.message) for note in notes]
    record["network"] = {
        "summary": network.describe(),
        "sizes": list(network.sizes),
        "inputs": network.input_dim,
        "input_names": None if network.input_names is None else list(network.input_names),
        "outputs": network.output_dim,
        "units": network.bent_units,
        "layers": len(network.layers),
        "coefficients": sum(int(layer.weight.size) for layer in network.layers),
    }
    return record


def _tensor(value: Any) -> dict[str, Any]:
    shape = [
        axis.dim_value if axis.HasField("dim_value") else axis.dim_param or "?"
        for axis in value.type.tensor_type.shape.dim
    ]
    return {"name": value.name, "shape": shape}


def _tensors(found: Sequence[dict[str, Any]]) -> str:
    return ", ".join(f"{t['name']} [{' x '.join(map(str, t['shape']))}]" for t in found) or "none"


def _lines(record: dict[str, Any], nodes: bool) -> list[tuple[str, str]]:
    opset = ", ".join(f"{domain} {version}" for domain, version in record["opset"].items())
    counts = ", ".join(f"{count} {op}" for op, count in record["operators"].items())
    lines = [
        ("file", record["path"]),
        ("written by", f"{record['producer'] or 'unknown'}; operator sets {opset}"),
        ("inputs", _tensors(record["inputs"])),
        ("outputs", _tensors(record["outputs"])),
        ("nodes", counts or "none"),
    ]
    network = record["network"]
    if network is None:
        lines += [("refused", text.strip()) for text in record["refused"].splitlines()]
    else:
        sizes = "-".join(map(str, network["sizes"]))
        lines.append(("network", f"{network['summary']} in {network['layers']} layers"))
        if not network["summary"].startswith(f"{sizes},"):
            lines.append(("", f"({sizes} with what only passes values on, or keeps them exact)"))
        if network["input_names"] is not None:
            lines.append(("", f"inputs {', '.join(network['input_names'])}"))
        lines.append(("weights", f"{network['coefficients']:,} coefficients that are kept"))
    lines += [("note", text) for text in record["notes"]]
    if nodes:
        lines += [
            ("", f"{node['name'] or '-'}  {node['op']}  -> {', '.join(node['outputs'])}")
            for node in record["nodes"]
        ]
    return lines
