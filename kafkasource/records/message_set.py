"""Message sets v0 and v1, which brokers before 0.11 (and logs they wrote) hold. Refused by name; never parsed as v2."""

from __future__ import annotations

from kafkasource.errors import UnsupportedRecordFormat


def refuse(magic: int, where: str) -> UnsupportedRecordFormat:
    """The error for a message set. The reader of v0 and v1 will stand here."""
    return UnsupportedRecordFormat(
        f"{where}: message set v{magic}, written by a producer older than Kafka 0.11, is not supported yet. Remedy: "
        "read it through a broker of 0.11 or later that converts the topic, or start behind these offsets"
    )
