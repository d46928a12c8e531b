"""How Protobuf's values are shown where Spark's `from_protobuf` leaves a choice: its options, by its names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rendering:
    recursive_fields_max_depth: int | None = None
    """How often a message type may stand within itself, the outermost counted: 1 drops such fields. None: an error."""
    emit_default_values: bool = False  # zero, or empty, in place of null where the bytes do not tell the two apart
    enums_as_ints: bool = False  # numbers in place of names


AS_FROM_PROTOBUF = Rendering()
