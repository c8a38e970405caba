"""Objectives: values, derivatives along fields, and distances, by boxes or by phases of units.

In the search over phases, the functional of the outputs is an additional unit, the *aim*, behind
the last layer.  Its bias is minus the cutoff and its phase RIGHT.  So bounds of pre-activations
take into account that only points above the cutoff matter, and a node without any is empty.
"""
