"""The network in the form of the search, and what is recognised in it before any box is bounded.

Layers become stages of dense arrays with explicit products; features of the inputs, roots of sums
of squares, and last layers that are rows of quotients are recognised here.
"""
