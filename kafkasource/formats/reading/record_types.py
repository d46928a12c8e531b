"""`recordTypes`: the schemas of several types of records in a topic, resolved on the driver, once for a `load()`."""

from __future__ import annotations

from collections.abc import Sequence

from kafkasource.errors import OptionError, SchemaError, SchemaNotFound
from kafkasource.formats.framing import Side
from kafkasource.formats.protobuf.rendering import Rendering
from kafkasource.formats.record_formats import record_format
from kafkasource.formats.registry import registry_of
from kafkasource.formats.registry.function import FunctionSchemas
from kafkasource.formats.schema_options import READER_OPTIONS, RegistrySchemas, SchemaOption
from kafkasource.formats.schema_source import KINDS, RecordType, RegisteredSchema
from kafkasource.formats.several_types import named_record, only_record

OPTION = "recordTypes"
_SIDE: Side = "value"


def record_types(
    names: Sequence[str],
    text: str | None,
    format_name: str,
    schemas: FunctionSchemas | RegistrySchemas,
    topics: Sequence[str] | None,
    rendering: Rendering,
) -> tuple[RecordType, ...]:
    """`text`: of the option `readerSchema`; without it a name may be a subject, with or without a topic in front.

    Raises OptionError, RegistryError.
    """
    kind = KINDS[format_name]
    try:
        found = _of_subjects(names, schemas, topics) if text is None and isinstance(schemas, RegistrySchemas) else ()
        if not found:
            found = _of_schema(names, SchemaOption.of_reader(text, _SIDE, kind).schema(schemas, topics))
        for each in found:
            if each.schema.kind != kind:
                raise OptionError(f"option {OPTION!r}: {each.name} is {each.schema.kind}, and the format needs {kind}")
        if len({each.name for each in found}) < len(found):
            raise OptionError(
                f"option {OPTION!r}: two names are the same type: {', '.join(each.name for each in found)}"
            )
        record_format(found[0].schema, None, found, rendering)
    except SchemaError as error:
        raise OptionError(f"option {OPTION!r}: {error}") from None
    return found


def _of_schema(names: Sequence[str], schema: RegisteredSchema) -> tuple[RecordType, ...]:
    found = []
    for name in names:
        full_name = named_record(schema, name)
        if full_name is None:
            raise OptionError(
                f"option {OPTION!r}: there is no subject {name!r}, and {READER_OPTIONS[_SIDE]!r} has no one type of "
                "this name. Name subjects of the registry, or set the schema that has all types"
            )
        found.append(RecordType(full_name, schema))
    return tuple(found)


def _of_subjects(
    names: Sequence[str], schemas: RegistrySchemas, topics: Sequence[str] | None
) -> tuple[RecordType, ...]:
    """Empty where no name is a subject."""
    client = registry_of(schemas.options)
    found = []
    missing = []
    for name in names:
        for subject in (name, *(f"{topic}-{name}" for topic in topics or ())):
            try:
                version = client.version(subject)
            except SchemaNotFound:
                continue
            schema = client.resolve(version.definition, f"subject {subject!r}, version {version.version}")
            found.append(RecordType(named_record(schema, name) or only_record(schema), schema, subject))
            break
        else:
            missing.append(name)
    if found and missing:
        raise OptionError(
            f"option {OPTION!r}: the registry has no subject {missing[0]!r}, nor one with a topic's name in front. "
            "`pykafka schemas list` shows them"
        )
    return tuple(found)
