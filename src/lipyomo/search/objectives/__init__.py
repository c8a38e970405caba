"""The search of the largest value of a scalar network: nodes, steps, and what the engine asks.

The functional of the outputs is one unit more, the *aim*, behind the last layer.  Its bias is minus
the cutoff and its phase RIGHT: bounds of pre-activations know that only points above the cutoff
matter, and a node without such a point is empty.
"""
