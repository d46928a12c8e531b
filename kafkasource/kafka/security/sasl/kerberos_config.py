"""Who the client is to the KDC."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KerberosConfig:
    """Neither principal nor keytab: whoever the ticket cache is of."""

    service_name: str
    principal: str | None = None
    keytab: str | None = None  # `shipped_files.find_file` says where a relative one lies
    ticket_cache: str | None = None
