"""The digest of a domain, by which a checkpoint names what it is about."""

from __future__ import annotations

from lipyomo.base.digest import array_digest
from lipyomo.problems.domains.base import Domain


def domain_digest(domain: Domain) -> str:
    """The kind of a domain, and SHA-256 of its numbers."""
    rows = domain.rows
    facts = [domain.lower, domain.upper, rows.b, rows.A.indptr, rows.A.indices, rows.A.data]
    facts += [getattr(domain, name, None) for name in ("radius", "point")]
    kind = f"{type(domain).__name__} {getattr(domain, 'norm', None)}"
    return f"{kind} {array_digest([] if fact is None else fact for fact in facts)}"
