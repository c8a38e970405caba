"""Networks from expressions: affine maps and units, made step by step, become a chain of layers.

`trace.Trace` makes units, `affine.Tensor` are the signals between them, `system.System` is the list
of all units, and `chain.to_network` the network.
"""
