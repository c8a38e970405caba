"""The documentation builds without a warning (extra ``docs``)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_sphinx_builds_the_pages(tmp_path: Path) -> None:
    for module in ("sphinx", "numpydoc", "myst_parser", "furo", "latex2mathml"):
        pytest.importorskip(module)
    # Looking for garbage among the trees of all pages would take a fifth of the time.
    program = "import gc, sys; gc.disable(); from sphinx.cmd.build import main; sys.exit(main())"
    build = [sys.executable, "-c", program, "-q", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run(
        [*build, "-d", str(tmp_path / "trees"), str(ROOT / "docs"), str(tmp_path / "html")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
    assert "<math" in page  # formulas need no script from the network
    assert not re.search(r"<(script|link)[^>]*https?://", page)
    for former in ("tools", "advanced_blocks", "embedding", "designs"):
        place = tmp_path / "html" / f"{former}.html"
        found = re.search(r'url=(\w+\.html)(?:#([\w-]+))?"', place.read_text(encoding="utf-8"))
        assert found is not None
        target = (tmp_path / "html" / found[1]).read_text(encoding="utf-8")
        assert found[2] is None or f'id="{found[2]}"' in target
