"""LipBench: networks whose local Lipschitz constants are known, to measure estimators by.

The folder is data before it is code: ``networks/*.onnx``, ``instances.json`` (a domain and two
norms each), ``truth.json`` (the exact constant or a proved interval), ``estimates.json`` (what the
estimators of the literature say) and ``proofs/`` (files that ``lipyomo_check`` verifies).  How to
use it is in ``docs/benchmark.md``; ``python -m experiments.benchmark --help`` lists the commands.
"""
