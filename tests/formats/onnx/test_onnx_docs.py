"""The page on importing lists every operator that lowers, and none that does not."""

from __future__ import annotations

import re
from pathlib import Path

from lipyomo.formats.onnx.lower import supported

PAGE = Path(__file__).resolve().parents[3] / "docs" / "import.md"


def test_the_table_of_operators_is_true() -> None:
    text = PAGE.read_text(encoding="utf-8")
    section = text.split("## What is supported")[1].split("## What is refused")[0]
    first_column = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    listed = set(re.findall(r"`([A-Z]\w+)`", " ".join(first_column)))
    assert listed == {op_type for _, op_type in supported()} | {"Constant"}
