"""Proofs of networks with smooth units: boxes, bounded in float64 with every error counted.

Read the files in this order: `elementary` (exponentials and the like), `kind` and `kinds` (the
activations; `powers` and `derived` have some of them), `lines` (relaxations of a unit), `levels`,
`factors`, `common`, `together`, `whole`, `squares`, `ratios` and `layers` (of all outputs of a
layer, products among them), `boxes`, `halfspaces` and `bound` (of a box), `euclid` (Euclidean
norms), `shells` (points between two values of a function), `tree` and `steps` (that the boxes are
all boxes, and what a file says of them), `balls`, `definitions` and `strict` (the same once more in
Arb), `proof` (the check of a file), `slopes` (without any boxes), `witness` (that the lower end is
attained).
"""
