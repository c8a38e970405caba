"""The search of networks with smooth units, alone or beside two-slope ones: bundles of boxes.

`docs/develop/smooth_search.md` tells how it works; `pipeline.py` puts the steps together, for
objectives as `objective.py` has them.
"""
