"""The one way in which a proof fails."""


class ProofError(Exception):
    """The file is no proof, or does not prove what it states."""
