"""The formulations of unstable units by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lipyomo.blocks.partition import tie_partition
from lipyomo.blocks.units import OpenUnits, tie_bigm, tie_complementarity, tie_gdp, tie_sos1

UNIT_TIES: Mapping[str, Callable[[Any, OpenUnits], None]] = {
    "bigm": tie_bigm,
    "partition": tie_partition,
    "gdp": tie_gdp,
    "sos1": tie_sos1,
    "complementarity": tie_complementarity,
}
