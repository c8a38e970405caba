"""Networks from expressions: affine maps and units are traced and converted to a chain of layers.

`trace.Trace` creates units, `affine.Tensor` represents the signals between them, `system.System` is
the list of all units, and `chain.to_network` builds the network.
"""
