"""Branch and bound over input boxes, for networks with smooth units and possibly two-slope ones.

`docs/develop/smooth_search.md` explains how it works.  `pipeline.py` combines the steps, for the
objectives that implement `objective.py`.
"""
