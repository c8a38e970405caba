"""Proofs of networks with smooth units: boxes, bounded in float64 with every error counted.

Read the files in this order: `elementary` (exponentials and the like), `kinds` (the activations),
`lines` (relaxations of a unit), `bound` (of a box), `tree` (that the boxes are all boxes),
`witness` (that the lower end is attained, by `definitions`), `strict` (boxes once more, in Arb).
"""
