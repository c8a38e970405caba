"""Values, derivatives along fields and distances: on boxes, and by phases of two-slope units.

Of phases: the functional of the outputs is one unit more, the *aim*, behind the last layer.  Its
bias is minus the cutoff and its phase RIGHT: bounds of pre-activations know that only points above
the cutoff matter, and a node without such a point is empty.
"""
