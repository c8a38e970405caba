"""Maps: the constants of thousands of cells, in batches ([docs](../../../../docs/maps.md))."""

from __future__ import annotations

from lipyomo.analyses.maps.cells import Cells, Grid, cells_of, grid
from lipyomo.analyses.maps.plot import plot_map
from lipyomo.analyses.maps.refine import refine_cells
from lipyomo.analyses.maps.result import CellMap
from lipyomo.analyses.maps.run import MapSettings, map_cells

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
