"""Maps: the constants of thousands of cells, in batches ([docs](../../../../docs/maps.md)).

`run.py` sends cells through `stages.py`: all are bounded in batches (`smooth.py`, `relu.py`), and
those left open are solved one by one.  `values.py` does this for sizes of values; `refine.py`
chooses the cells.  Sweeps and tables of derivatives bound their boxes in the same batches.
"""

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
