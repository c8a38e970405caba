"""Maps: the constants of thousands of cells, in batches ([docs](../../../docs/maps.md))."""

from __future__ import annotations

from lipyomo.maps.cells import Cells, Grid, cells_of, grid
from lipyomo.maps.plot import plot_map
from lipyomo.maps.refine import refine_cells
from lipyomo.maps.result import CellMap
from lipyomo.maps.run import MapSettings, map_cells

__all__ = [
    "CellMap",
    "Cells",
    "Grid",
    "MapSettings",
    "cells_of",
    "grid",
    "map_cells",
    "plot_map",
    "refine_cells",
]
