"""Proofs of networks with smooth units: boxes, bounded in float64 with every error counted.

Read the files in this order: `elementary` (exponentials and the like), `kinds` (the activations),
`lines` (relaxations of a unit), `bound` (of a box), `tree` and `steps` (that the boxes are all
boxes, and what a file says of them), `strict` (a box once more, in Arb, by `definitions`), `proof`
(the check of a file), `slopes` (without any boxes), `witness` (that the lower end is attained).
"""
