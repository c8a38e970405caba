"""Proofs of networks with smooth units: boxes, bounded in float64 with every error counted.

Read the files in this order: `elementary` (exponentials and the like), `kinds` (the activations),
`lines` (relaxations of a unit), `levels` and `layers` (of all units of a layer), `halfspaces` and
`bound` (of a box), `euclid` (Euclidean norms), `tree` and `steps` (that the boxes are all boxes,
and what a file says of them), `strict` and `strict_euclid` (a box once more, in Arb, with `balls`
and `definitions`), `proof` (the check of a file), `slopes` (without any boxes), `witness` (that the
lower end is attained).
"""
