"""Maps: the constants of thousands of cells, in batches ([docs](../../../../docs/maps.md)).

`run.py` sends cells through `stages.py`: all are bounded at once (`smooth.py`, `relu.py`), and what
is left open is solved one by one.  `values.py` does so for sizes of values, `entries.py` for all
entries of a Jacobian; `refine.py` chooses the cells, `together.py` answers problems by batches.
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
