"""A checker for proofs of Lipschitz constants, independent of lipyomo.

It imports nothing of lipyomo.  It computes with whole numbers and fractions; FLINT multiplies the
matrices.  `docs/develop/proof_format.md` has the format and the mathematics of every certificate.

Read the files in this order: `statement` (what is claimed), `linear` (bounds of pre-activations,
refutations), `semidefinite` (bounds of the gradient's norm), `tree` (that the cases are all cases),
`witness` (that the lower end is attained).  Networks with smooth units are checked in `smooth`.
"""

from lipyomo_check.check import Verdict, check_proof
from lipyomo_check.errors import ProofError

__all__ = ["ProofError", "Verdict", "check_proof"]
