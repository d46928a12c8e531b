"""What a row of the tables of TLS's and SASL's options is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SecurityOption:
    name: str  # Java's, where Java has it; without `kafka.`
    doc: str
    alias: str = ""  # librdkafka's
    secret: bool = False
    default: str = ""  # as a user writes it; empty: not set
    differs: str = ""  # where Java's default is another: which, and why

    @property
    def shown(self) -> str:
        """The option in an error."""
        return shown(self.name) + (f" ({shown(self.alias)} for librdkafka)" if self.alias else "")


def shown(name: str) -> str:
    """A name as a user of Spark's options writes it, quoted."""
    return f"'kafka.{name}'"
