"""The source of writers' schemas, a registry or a function of the user, as decoders use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn, Protocol, TypeAlias
from uuid import UUID

from kafkasource.errors import UnknownSchemaId

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
KINDS = {"avro": AVRO, "protobuf": PROTOBUF, "json": JSON}  # of the formats of keys and values that have schemas


class Fingerprint(bytes):
    """Names an Avro schema in the single-object encoding: the 8 bytes of CRC-64-AVRO, the lowest first."""

    def __str__(self) -> str:
        return self.hex()


SchemaId: TypeAlias = int | UUID | Fingerprint
"""A registry's number, Confluent's GUID or the UUID of Glue, or a fingerprint."""


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema with everything that it refers to. The id of one never gets another."""

    kind: str  # AVRO, PROTOBUF, JSON, or what else a registry knows
    text: str
    references: tuple[tuple[str, str], ...] = ()
    """(name, text) of each schema that this one refers to, near or far; each stands behind those that it uses itself.
    A name is Avro's full name of a type, the path of a Protobuf `import`, or the text of JSON Schema's `$ref`."""

    @property
    def texts_by_name(self) -> Mapping[str, str]:
        """The references, in their order."""
        return dict(self.references)

    @property
    def characters(self) -> int:
        """The characters of all texts."""
        return len(self.text) + sum(len(text) for _, text in self.references)


ANY_JSON = RegisteredSchema(JSON, "true")
"""The JSON Schema that allows any value: that of JSON which is written without one."""


@dataclass(frozen=True)
class RecordType:
    """One of several types of records in a topic, as they are read."""

    name: str  # full name of the record or message
    schema: RegisteredSchema  # where it is
    subject: str | None = None  # where that is registered, if it has a subject of its own


class SchemaSource(Protocol):
    """Thread-safe. May wait for another server."""

    def schema(self, schema_id: SchemaId) -> RegisteredSchema:
        """The schema of a record's id.

        Raises UnknownSchemaId where the source itself says that it has no such id: a fault of the record. Any other
        KafkaSourceError is a failure of the source, and never a record's fault.
        """

    def versions_from(self, schema_id: SchemaId) -> Iterator[tuple[str, RegisteredSchema]]:
        """A subject's versions as people name them (`version 3 of orders-value`): that of a schema that was asked for,
        then older ones, as far as this process knows them. Empty if the source does not say."""


class NoSchemas:
    """The `SchemaSource` of a read that has no registry and no function."""

    def schema(self, schema_id: SchemaId) -> NoReturn:
        raise UnknownSchemaId(
            f"the fingerprint of the reader's schema is known alone, not {schema_id}. Set 'schemaRegistry.url' or "
            "'schemaRegistry' for records of other schemas"
        )

    def versions_from(self, schema_id: SchemaId) -> Iterator[tuple[str, RegisteredSchema]]:
        yield from ()
