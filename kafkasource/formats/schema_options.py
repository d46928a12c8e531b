"""The options that name schemas (`readerSchema`, `writerSchema`, those of keys), and the schemas that they name.

latest         the latest version of the topic's subject (`orders-value`)
version:3      that version of it
subject:NAME   the latest version of another subject
id:7           the schema of an id
file:PATH      a file's text
a text         the schema itself

The driver resolves them once, before the tasks. Schemas come from a registry, or from a function of the user
(`schemaRegistry`), which knows ids alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from kafkasource.errors import OptionError, UnknownSchemaId
from kafkasource.formats.framing import Side
from kafkasource.formats.protobuf.rendering import Rendering
from kafkasource.formats.registry import (
    ReaderSchema,
    RegistryClient,
    RegistryOptions,
    ShippedSchemas,
    registry_of,
    subject_of,
)
from kafkasource.formats.registry.function import FUNCTION, FunctionSchemas
from kafkasource.formats.schema_source import JSON, PROTOBUF, RegisteredSchema
from kafkasource.kafka.security.shipped_files import text_of_file
from kafkasource.options import user_functions
from kafkasource.options.types import is_schema

READER_OPTIONS: dict[Side, str] = {"key": "keyReaderSchema", "value": "readerSchema"}
WRITER_OPTIONS: dict[Side, str] = {"key": "keyWriterSchema", "value": "writerSchema"}
MESSAGE_OPTIONS: dict[Side, str] = {"key": "keyMessageName", "value": "messageName"}
_ASKS_REGISTRY = re.compile(r"latest|(version|id):\s*\d+|subject:\S.*")


@dataclass(frozen=True, slots=True)
class RegistrySchemas:
    """The options `schemaRegistry.*`."""

    options: RegistryOptions

    def for_tasks(self, subjects: Sequence[str]) -> ShippedSchemas:
        """Add what the driver knows, so that tasks ask only for newer ids. Asks the registry."""
        return ShippedSchemas.of(self.options, subjects)

    def source(self) -> RegistryClient:
        return registry_of(self.options)


Schemas: TypeAlias = FunctionSchemas | RegistrySchemas | ShippedSchemas


def rendering_of(options: Mapping[str, Any]) -> Rendering:
    """The options `protobuf.*`."""
    return Rendering(
        options["protobuf.recursive.fields.max.depth"],
        options["protobuf.emit.default.values"],
        options["protobuf.enums.as.ints"],
    )


def has_schemas(options: Mapping[str, Any]) -> bool:
    """Whether the options say where schemas are. JSON needs that only where the reader's schema is there."""
    return options[FUNCTION] is not None or options["schemaRegistry.url"] is not None


def schemas_of(options: Mapping[str, Any]) -> FunctionSchemas | RegistrySchemas:
    """Return the source of schemas that the options name. Raises OptionError."""
    if options[FUNCTION] is not None:
        user_functions.load(options[FUNCTION], FUNCTION)
        return FunctionSchemas(options[FUNCTION])
    return RegistrySchemas(RegistryOptions.of_parsed(options))


@dataclass(frozen=True, slots=True)
class SchemaOption:
    """One option that names a schema, with its text."""

    name: str
    side: Side
    kind: str  # the schema's: AVRO
    text: str
    is_read: bool = True

    @classmethod
    def of_reader(cls, text: str | None, side: Side, kind: str) -> SchemaOption:
        return cls(READER_OPTIONS[side], side, kind, (text or "").strip() or "latest")

    @property
    def own_text(self) -> str | None:
        """The schema itself, where the option has it or names a file of it. Raises OptionError."""
        if self.text.startswith("file:"):
            return text_of_file(self.text.removeprefix("file:"), self.name)
        if self.is_read and self.kind == JSON:  # in Spark's DDL a field may be named `id` or `version`, before a colon
            return None if _ASKS_REGISTRY.fullmatch(self.text) else self.text
        return self.text if is_schema(self.text, self.kind.lower()) else None

    def schema(
        self, schemas: FunctionSchemas | RegistrySchemas | None, topics: Sequence[str] | None
    ) -> RegisteredSchema:
        """The schema. Arguments and errors as of `resolve`."""
        text = self.own_text
        return self.resolve(schemas, topics)[1] if text is None else RegisteredSchema(self.kind, text)

    def resolve(
        self, schemas: FunctionSchemas | RegistrySchemas | None, topics: Sequence[str] | None
    ) -> tuple[int, RegisteredSchema]:
        """Ask the registry or the function: (the schema's id, the schema).

        `schemas`: None where the options name neither. `topics`: None where the topics are not known. Raises
        OptionError, RegistryError.
        """
        parsed = ReaderSchema.parse(self.text, self.name)
        if parsed is None:
            text = "the text of a .proto file" if self.kind == PROTOBUF else "a schema's JSON"
            register = "" if self.is_read else ", register"
            raise OptionError(
                f"option {self.name!r}: expected latest, version:3, subject:NAME, id:7, file:PATH{register} or {text}, "
                f"got {self.text[:100]!r}"
            )
        if schemas is None:
            raise self._no_schemas()
        if isinstance(schemas, FunctionSchemas):
            if parsed.schema_id is None:
                raise OptionError(
                    f"option {FUNCTION!r}: a function knows ids alone. Set {self.name!r} to id:7, file:PATH or a "
                    "schema's text"
                )
            try:
                return parsed.schema_id, schemas.schema_as(parsed.schema_id, self.kind)
            except UnknownSchemaId as error:
                raise OptionError(f"option {self.name!r}: {error}") from None
        names_it = parsed.subject is not None or parsed.schema_id is not None
        return parsed.resolve(registry_of(schemas.options), [] if names_it else self.subjects(topics), self.name)

    def subjects(self, topics: Sequence[str] | None) -> list[str]:
        """The subjects of the topics. OptionError where the topics are not known."""
        if topics is not None:
            return [subject_of(topic, self.side) for topic in topics]
        if self.is_read:
            raise OptionError(
                f"option {self.name!r}: subscribePattern names no topic, so no subject. Set it to subject:NAME, id:7 or"
                " file:PATH"
            )
        raise OptionError(
            f"option {self.name!r}: the rows name their topics, so there is no one subject. Set the option 'topic', or"
            f" {self.name} to subject:NAME or id:7"
        )

    def _no_schemas(self) -> OptionError:
        if self.kind == JSON:
            return OptionError(
                f"the format json needs the columns: set {self.name!r} to Spark's DDL "
                f"(`id BIGINT, tags ARRAY<STRING>`), let .schema(...) say that the {self.side} is a struct, or set "
                "'schemaRegistry.url' for a JSON Schema that is registered"
            )
        return OptionError(
            f"option {self.name!r}={self.text[:100]} asks a registry: set 'schemaRegistry.url', or {self.name!r} to "
            "file:PATH or a schema's text"
        )
