"""Pages that moved: at each old address, a page that leads on to the new one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

MOVED = {
    "tools": "methods.html#which-tool-when",
    "advanced_blocks": "blocks.html#directions-and-functionals-that-are-variables",
    "embedding": "examples.html",
    "designs": "examples.html#neural-model-predictive-control",
}
PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>Moved</title>
<meta http-equiv="refresh" content="0; url={target}">
<link rel="canonical" href="{target}">
<p>This page is now <a href="{target}">{target}</a>.</p>
</html>
"""


def write_pages(app: Any, exception: Exception | None) -> None:
    """Write a page for each former address, once all others are there."""
    if exception is None and app.builder.format == "html":
        for old, target in MOVED.items():
            place = Path(app.outdir, f"{old}.html")
            place.write_text(PAGE.format(target=target), encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("build-finished", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
