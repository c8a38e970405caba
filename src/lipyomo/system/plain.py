"""Plain data, as JSON files hold it."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any

import numpy as np


def finite(value: float | None) -> float | None:
    """`value`, or None where JSON has no number for it."""
    if value is None or not math.isfinite(value):
        return None
    return float(value)


def plain(data: object) -> Any:
    """Turn arrays, tuples, enums and infinities into what JSON knows."""
    if isinstance(data, dict):
        return {str(key): plain(item) for key, item in data.items()}
    if isinstance(data, list | tuple):
        return [plain(item) for item in data]
    if isinstance(data, np.ndarray):
        return plain(data.tolist())
    if isinstance(data, np.generic):
        return plain(data.item())
    if isinstance(data, Enum):
        return data.value
    if isinstance(data, float):
        return finite(data)
    return data
