"""What a run of the command line leaves behind."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass
class Ran:
    """What a run of the command line left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The object on stdout; fails if there is anything else."""
        return json.loads(self.out)
