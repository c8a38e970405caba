"""One colour for each method in all pictures of the experiments."""

from lipyomo.base.pictures import INK, LOWER, QUIET

EXACT, NAIVE, FASTLIP, LP = INK, "#b7950b", "#8e44ad", "#c0392b"
LIPSDP, LOCAL_LIPSDP, CROWN, MARGINS = "#16a085", "#58d3b4", "#d68910", LOWER
SEQLIP, CLEVER, RANDOM = QUIET, "#d68910", LOWER
"""Two methods share a colour only if no picture has both."""
