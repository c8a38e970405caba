"""The engine of branch and bound, which is independent of networks and only uses `lipyomo.base`.

`engine.py` is the loop; `protocol.py` defines the interface of a search, its nodes and its tasks.
"""

from __future__ import annotations

from lipyomo.search.engine.engine import Engine, Found, OnProgress
from lipyomo.search.engine.protocol import Pipeline

__all__ = ["Engine", "Found", "OnProgress", "Pipeline"]
