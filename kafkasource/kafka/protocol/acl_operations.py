"""Kafka's operations, as ACLs name them (AclOperation), and the sets of them that brokers answer with (KIP-430)."""

from __future__ import annotations

OPERATIONS = {
    name: number
    for number, name in enumerate(
        (
            *("all", "read", "write", "create", "delete", "alter", "describe", "cluster_action"),
            *("describe_configs", "alter_configs", "idempotent_write", "create_tokens", "describe_tokens"),
        ),
        start=2,
    )
}
_NOT_ASKED = -(2**31)


def operations_of(bits: int) -> frozenset[str] | None:
    """The operations of a field `authorized_operations`; None: the broker does not say. Unknown ones are left out."""
    if bits == _NOT_ASKED:
        return None
    return frozenset(name for name, number in OPERATIONS.items() if bits >> number & 1)
