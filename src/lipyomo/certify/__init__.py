"""Certification: interior margins, witnesses, and their replay in exact arithmetic."""

from lipyomo.certify.margin import InteriorPoint, interior_margin, interior_point
from lipyomo.certify.proof import Verdict, proof_of, read_proof, verify_proof, write_proof
from lipyomo.certify.rational import ExactReplay, replay
from lipyomo.certify.witness import deepen, make_witness, witness_of_pattern

__all__ = [
    "ExactReplay",
    "InteriorPoint",
    "Verdict",
    "deepen",
    "interior_margin",
    "interior_point",
    "make_witness",
    "proof_of",
    "read_proof",
    "replay",
    "verify_proof",
    "witness_of_pattern",
    "write_proof",
]
