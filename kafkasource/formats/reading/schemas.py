"""Where schemas come from: a registry, or a function of the user. On the driver, and in the tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from kafkasource.errors import OptionError, SchemaError, UnknownSchemaId
from kafkasource.formats.framing import Side
from kafkasource.formats.json.types_of import column_type
from kafkasource.formats.protobuf.rendering import Rendering
from kafkasource.formats.record_formats import record_format
from kafkasource.formats.registry import (
    ReaderSchema,
    RegistryClient,
    RegistryOptions,
    ShippedSchemas,
    registry_of,
    subject_of,
)
from kafkasource.formats.registry.function import FUNCTION, FunctionSchemas
from kafkasource.formats.schema_source import AVRO, JSON, KINDS, RegisteredSchema
from kafkasource.kafka.security.shipped_files import text_of_file
from kafkasource.options import user_functions
from kafkasource.options.types import is_schema

READER_OPTIONS: dict[Side, str] = {"key": "keyReaderSchema", "value": "readerSchema"}
MESSAGE_OPTIONS: dict[Side, str] = {"key": "keyMessageName", "value": "messageName"}
_ASKS_REGISTRY = re.compile(r"latest|(version|id):\s*\d+|subject:\S.*")


@dataclass(frozen=True, slots=True)
class RegistrySchemas:
    """The options `schemaRegistry.*`."""

    options: RegistryOptions

    def for_tasks(self, subjects: Sequence[str]) -> ShippedSchemas:
        """With what the driver knows, so that tasks ask only for ids that are newer. Asks the registry."""
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
    """Where the options say that schemas are. Raises OptionError."""
    if options[FUNCTION] is not None:
        user_functions.load(options[FUNCTION], FUNCTION)
        return FunctionSchemas(options[FUNCTION])
    return RegistrySchemas(RegistryOptions.of_parsed(options))


def reader_schema(
    text: str | None,
    side: Side,
    format_name: str,
    message_name: str | None,
    schemas: FunctionSchemas | RegistrySchemas | None,
    topics: Sequence[str] | None,
    rendering: Rendering,
) -> RegisteredSchema:
    """The schema by which keys or values are read; on the driver, once for a `load()`. May ask the registry.

    `text`: the option's. `schemas`: None for a format that can do without. `topics`: None where a pattern names them.
    Raises OptionError, RegistryError.
    """
    option, kind = READER_OPTIONS[side], KINDS[format_name]
    found = schema_by_option(text, option, kind, side, schemas, topics)
    if found.kind != kind:
        raise OptionError(f"option {option!r}: the schema is {found.kind}, and the format {format_name} needs {kind}")
    try:
        if kind == JSON:
            column_type(found)
        else:
            record_format(found, message_name, (), rendering)
    except SchemaError as error:
        named = f"option {option!r}" if message_name is None else f"options {option!r} and {MESSAGE_OPTIONS[side]!r}"
        raise OptionError(f"{named}: {error}") from None
    return found


def schema_by_option(
    text: str | None,
    option: str,
    kind: str,
    side: Side,
    schemas: FunctionSchemas | RegistrySchemas | None,
    topics: Sequence[str] | None,
) -> RegisteredSchema:
    """The schema that the option `option` means, whose text is `text`, as `reader_schema` has it."""
    given = (text or "").strip()
    if given.startswith("file:"):
        return RegisteredSchema(kind, text_of_file(given.removeprefix("file:"), option))
    if _is_text(given, kind):
        return RegisteredSchema(kind, given)
    wanted = ReaderSchema.parse(given or "latest", option)
    if wanted is None:
        shown = "a schema's JSON" if kind == AVRO else "the text of a .proto file"
        raise OptionError(
            f"option {option!r}: expected latest, version:3, subject:NAME, id:7, file:PATH or {shown}, got"
            f" {given[:100]!r}"
        )
    if schemas is None and kind != JSON:
        raise OptionError(
            f"option {option!r}={given[:100]} asks a registry: set 'schemaRegistry.url', or {option!r} to file:PATH or "
            "a schema's text"
        )
    if schemas is None:
        raise OptionError(
            f"the format json needs the columns: set {option!r} to Spark's DDL (`id BIGINT, tags ARRAY<STRING>`), let "
            f".schema(...) say that the {side} is a struct, or set 'schemaRegistry.url' for a JSON Schema that is "
            "registered"
        )
    if isinstance(schemas, FunctionSchemas):
        if wanted.schema_id is None:
            raise OptionError(
                f"option {FUNCTION!r}: a function knows ids alone. Set {option!r} to id:7, file:PATH or a schema's text"
            )
        try:
            return schemas.schema_as(wanted.schema_id, kind)
        except UnknownSchemaId as error:
            raise OptionError(f"option {option!r}: {error}") from None
    if topics is None and wanted.subject is None and wanted.schema_id is None:
        raise OptionError(
            f"option {option!r}: subscribePattern names no topic, so no subject. Set it to subject:NAME, id:7 or"
            " file:PATH"
        )
    subjects = [subject_of(topic, side) for topic in topics or ()]
    return wanted.resolve(registry_of(schemas.options), subjects, option)[1]


def _is_text(given: str, kind: str) -> bool:
    """Whether the option is the schema itself."""
    if kind == JSON:  # in Spark's DDL a field may have the name `id` or `version`, and a colon behind it
        return bool(given) and _ASKS_REGISTRY.fullmatch(given) is None
    return is_schema(given, kind.lower())
