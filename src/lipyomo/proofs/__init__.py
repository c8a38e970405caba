"""Writing proof files, and checking witnesses again in exact arithmetic.

`writing.py` writes the statement, and `recorder.py` makes the tree of cases; proofs by boxes are
made by `boxes.py` and `pairs.py`, those of ranges by `values.py`.  The checker of proof files is a
separate package, `lipyomo_check`, which imports nothing from this one.
"""

from lipyomo.networks.digest import network_digest
from lipyomo.primal.regions.replay import ExactReplay, replay
from lipyomo.proofs.values import lie_network, write_value_proof
from lipyomo.proofs.writing import Written, write_proof

__all__ = [
    "ExactReplay",
    "Written",
    "lie_network",
    "network_digest",
    "replay",
    "write_proof",
    "write_value_proof",
]
