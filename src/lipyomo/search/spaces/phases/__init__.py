"""Branch and bound over the phases of a piecewise-linear network: nodes, steps, and points.

A node is a value (`node.py`, which also has the parts of nodes that the steps work on).  A step is
a function of a context (`context.py`) and a batch of parts.  `examine.py` runs the steps in order,
and `pipeline.py` implements the interface of the engine.
"""
