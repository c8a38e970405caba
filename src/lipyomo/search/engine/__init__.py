"""The engine of branch and bound: it knows no networks, and imports `lipyomo.base` alone.

`engine.py` is the loop; `protocol.py` says what it asks of a search, and what nodes and tasks are.
"""

from __future__ import annotations

from lipyomo.search.engine.engine import Engine, Found, OnProgress
from lipyomo.search.engine.protocol import Pipeline

__all__ = ["Engine", "Found", "OnProgress", "Pipeline"]
