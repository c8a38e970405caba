"""The error of proofs that are rejected."""


class ProofError(Exception):
    """The file is not a proof, or does not prove its statement."""
