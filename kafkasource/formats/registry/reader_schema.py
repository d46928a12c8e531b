"""Finds the schema of the option `readerSchema`, as far as a registry answers it.

    latest         the latest version of the topic's subject (`orders-value`)
    version:3      that version of it
    subject:NAME   the latest version of another subject, for topics whose subjects are not named so
    id:7           the schema of an id, wherever it is registered

All are asked for once, on the driver. A stream that runs goes on with what `latest` was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafkasource.errors import OptionError, RegistryError, SchemaNotFound, UnknownSchemaId
from kafkasource.formats.registry.client import RegistryClient
from kafkasource.formats.registry.definitions import LATEST
from kafkasource.formats.schema_source import RegisteredSchema


def subject_of(topic: str, field: str) -> str:
    """Name the subject as Confluent's TopicNameStrategy does, the default of all clients. `field`: "key" or "value"."""
    return f"{topic}-{field}"


@dataclass(frozen=True)
class ReaderSchema:
    """The parsed option. At most one of the fields below is set; without any, the topic's latest version is meant."""

    version: int | None = None
    subject: str | None = None
    schema_id: int | None = None

    @classmethod
    def parse(cls, text: str, option: str = "readerSchema") -> ReaderSchema | None:
        """None for what asks no registry: a file, a schema's own text. Raises OptionError."""
        word, colon, rest = text.strip().partition(":")
        if word == "latest" and not colon:
            return cls()
        if word == "version" and colon:
            return cls(version=_number(rest, option, "version:3", 1))
        if word == "id" and colon:
            return cls(schema_id=_number(rest, option, "id:7", 0))
        if word == "subject" and colon:
            if not rest.strip():
                raise OptionError(f"option {option!r}: expected the subject's name, such as subject:orders")
            return cls(subject=rest.strip())
        return None

    def resolve(
        self, client: RegistryClient, subjects: Sequence[str], option: str = "readerSchema"
    ) -> tuple[int, RegisteredSchema]:
        """Its id and text, by the registry. `subjects`: those of the topics that the query reads.

        Raises OptionError where the registry has no such schema, or where topics have several subjects and the
        option does not say which; RegistryError.
        """
        if self.schema_id is not None:
            try:
                return self.schema_id, client.schema(self.schema_id)
            except UnknownSchemaId as error:
                raise OptionError(f"option {option!r}: there is no schema id {self.schema_id} ({error})") from None
        subject = self._subject(subjects, option)
        try:
            found = client.version(subject, self.version or LATEST)
        except SchemaNotFound as error:
            new = ""
            if option.lower().endswith("writerschema"):
                new = f". A new subject: {option}=register, or for Protobuf `pykafka schemas register`"
            raise OptionError(
                f"option {option!r}: {str(error).rstrip('.')}. Name the subject, {option}=subject:NAME; "
                f"`pykafka schemas list` shows them{new}"
            ) from None
        return found.schema_id, client.resolve(found.definition, f"subject {subject!r}, version {found.version}")

    def _subject(self, subjects: Sequence[str], option: str) -> str:
        if self.subject is not None:
            return self.subject
        if len(subjects) == 1:
            return subjects[0]
        if not subjects:
            raise RegistryError("no topic, so no subject of a schema")  # the caller reads at least one
        raise OptionError(
            f"option {option!r}: the query reads topics with several subjects ({', '.join(sorted(subjects)[:5])}, ...)."
            f" Say which schema all records are read by: {option}=subject:NAME, or id:7"
        )


def _number(text: str, option: str, example: str, at_least: int) -> int:
    stripped = text.strip()
    if not stripped.isascii() or not stripped.isdigit() or len(stripped) > 10 or int(stripped) < at_least:
        raise OptionError(f"option {option!r}: expected a number, such as {example}, got {text!r}")
    return int(stripped)
