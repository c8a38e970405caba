"""Branch and bound over input boxes, for networks with smooth units and possibly two-slope ones.

`docs/develop/smooth_search.md` explains how it works.  `pipeline.py` combines the steps, for the
objectives that implement `objective.py`; `bound.py` has the steps by which a batch of boxes is
bounded.  `structure/` has the network in the form of the search, `quadratics/` functions on cubes,
`relaxing/` the relaxation of layers, `bounding/` upper bounds of the objective over relaxed layers,
and `wide/` further bounds of the root of wide networks.
"""
