"""The search of a piecewise-linear network: nodes, the steps that bound and split them, and points.

A node is a value (`node.py`, with its parts on their way through the steps), and a step a function
of a context (`context.py`) and of a batch of parts.  `examine.py` has their order, `pipeline.py`
what the engine asks for.
"""
