"""Proof files: writing them, and checking them again in exact arithmetic."""

from lipyomo.proofs.file import Verdict, proof_of, read_proof, verify_proof, write_proof
from lipyomo.proofs.replay import ExactReplay, replay

__all__ = [
    "ExactReplay",
    "Verdict",
    "proof_of",
    "read_proof",
    "replay",
    "verify_proof",
    "write_proof",
]
