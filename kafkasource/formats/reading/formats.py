"""The formats of a read (`valueFormat`, `keyFormat`): resolved on the driver, carried to the tasks as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkasource.errors import OptionError, SchemaError
from kafkasource.formats.avro.parse import parse_schema
from kafkasource.formats.framing import SIDES, Side
from kafkasource.formats.json.rows import JsonRows
from kafkasource.formats.json.types_of import column_type
from kafkasource.formats.protobuf.rendering import AS_FROM_PROTOBUF, Rendering
from kafkasource.formats.reading.record_types import record_types
from kafkasource.formats.record_formats import record_format
from kafkasource.formats.registry import subject_of
from kafkasource.formats.registry.function import FunctionSchemas
from kafkasource.formats.rescue import only_record
from kafkasource.formats.rows import BareRows, RegisteredRows, TextRows
from kafkasource.formats.schema_options import (
    MESSAGE_OPTIONS,
    READER_OPTIONS,
    RegistrySchemas,
    SchemaOption,
    Schemas,
    has_schemas,
    rendering_of,
    schemas_of,
)
from kafkasource.formats.schema_source import AVRO, JSON, KINDS, PROTOBUF, NoSchemas, RecordType, RegisteredSchema
from kafkasource.formats.typed_pieces import TypedRows
from kafkasource.kafka.records.arrow.columns import row_schema
from kafkasource.types import BAD_RECORD_COLUMN, ROW_COLUMNS

if TYPE_CHECKING:
    from kafkasource.options import Options

BAD_RECORD_TYPE = pa.struct(
    [
        pa.field("reason", pa.string()),
        pa.field("schemaId", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("clusterId", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Format:
    """The format of the keys or of the values."""

    side: Side
    name: str  # string, avro, protobuf, json
    reader: RegisteredSchema | None = None  # of all but string
    message_name: str | None = None  # of protobuf, where the reader's schema declares several
    types: tuple[RecordType, ...] = ()  # `recordTypes`
    rendering: Rendering = AS_FROM_PROTOBUF  # of protobuf
    is_bare: bool = False  # records name no schema: `reader` has written them
    rescues: bool = False  # `rescuedColumn`

    def rows(self, schemas: Schemas | None, *, to_first_bad: bool = False) -> TypedRows:
        """`to_first_bad`: as `RegisteredRows` takes it."""
        if self.reader is None:
            return TextRows()
        if self.name == "json":
            return JsonRows(column_type(self.reader), self.side, rescues=self.rescues)
        if self.is_bare:
            return BareRows(self.reader, self.message_name, self.rendering)
        return RegisteredRows(
            self.reader,
            NoSchemas() if schemas is None else schemas.source(),
            self.side,
            message_name=self.message_name,
            types=self.types,
            rendering=self.rendering,
            to_first_bad=to_first_bad,
            rescues=self.rescues,
        )


@dataclass(frozen=True, slots=True)
class RowFormats:
    columns: tuple[str, ...]  # of the rows, in their order
    formats: tuple[Format, ...]  # of the columns that are not binary
    schemas: Schemas | None  # of writers; None where no format needs them, as JSON does not
    subjects: tuple[str, ...] = ()  # whose versions tasks will need
    memory_budget_bytes: int | None = None
    rescued_column: str | None = None  # of the fields of values that the columns lack

    @classmethod
    def of(
        cls,
        options: Options,
        topics: Sequence[str] | None,
        known: Mapping[Side, RegisteredSchema] | None = None,
        types: tuple[RecordType, ...] = (),
    ) -> RowFormats | None:
        """None where keys and values stay binary. `known`, `types`: readers' schemas that an earlier step has resolved.

        Raises OptionError, RegistryError.
        """
        names = {side: options[f"{side}Format"] for side in SIDES if options[f"{side}Format"] != "binary"}
        if not names:
            return None
        registered = [side for side in SIDES if names.get(side) in KINDS]
        schemas = schemas_of(options) if registered and has_schemas(options) else None
        readers = dict(known or {})
        rendering = rendering_of(options)
        if options["recordTypes"] is not None and not types:
            assert schemas is not None
            text = options[READER_OPTIONS["value"]]
            types = record_types(options["recordTypes"], text, names["value"], schemas, topics, rendering)
        if types:
            readers["value"] = types[0].schema
        messages = {side: options[MESSAGE_OPTIONS[side]] for side in registered}
        for side in registered:
            if side not in readers:
                option = SchemaOption.of_reader(options[READER_OPTIONS[side]], side, KINDS[names[side]])
                readers[side] = _reader_schema(option, names[side], messages[side], schemas, topics, rendering)
        is_bare = options["schemaIdIn"] == "none"
        of_value = {"value": types}
        formats = [
            Format(
                *(side, name, readers.get(side), messages.get(side), of_value.get(side, ()), rendering, is_bare),
                rescues=side == "value" and options["rescuedColumn"] is not None,
            )
            for side, name in names.items()
        ]
        if options["rescuedColumn"] is not None:
            _check_is_struct(readers["value"])
        of_writers = [side for side in registered if names[side] != "json" and not is_bare]
        subjects = [subject_of(topic, side) for topic in topics or () for side in of_writers]
        subjects += [record_type.subject for record_type in types if record_type.subject is not None]
        return cls(
            options["columns"],
            tuple(formats),
            schemas if of_writers else None,
            tuple(subjects),
            options["memoryBudget"],
            options["rescuedColumn"],
        )

    def with_columns(self, columns: tuple[str, ...]) -> RowFormats:
        return replace(self, columns=columns)

    @property
    def has_bad_record(self) -> bool:
        """badRecords=column"""
        return BAD_RECORD_COLUMN in self.columns

    @property
    def used(self) -> tuple[Format, ...]:
        """The formats of columns that the rows have."""
        return tuple(
            side_format
            for side_format in self.formats
            if side_format.side in self.columns or (side_format.rescues and self.rescued_column in self.columns)
        )

    @property
    def fetched(self) -> tuple[str, ...]:
        """The columns that are decoded of record batches: an error or a bad record needs more than the rows have."""
        names = {*self.columns, "topic", "partition", "offset", *(side_format.side for side_format in self.used)}
        if any(side_format.reader is not None and not side_format.is_bare for side_format in self.used):
            names.add("headers")
        if self.has_bad_record:
            names |= {"key", "value"}
        return tuple(name for name in ROW_COLUMNS if name in names)

    def field(self, name: str, others: pa.Schema) -> pa.Field:
        """A column of the rows. `others`: the fields of the binary row."""
        if name == BAD_RECORD_COLUMN:
            return pa.field(name, BAD_RECORD_TYPE)
        if name == self.rescued_column:
            return pa.field(name, pa.string())
        for side_format in self.formats:
            if side_format.side == name:
                return pa.field(name, self.type_of(side_format))
        return others.field(name)

    @property
    def row_schema(self) -> pa.Schema:
        """The schema of the batches of rows."""
        binary = row_schema(ROW_COLUMNS)
        return pa.schema([self.field(name, binary) for name in self.columns])

    def type_of(self, side_format: Format) -> pa.DataType:
        if side_format.reader is None:
            return pa.string()
        return (
            column_type(side_format.reader)
            if side_format.name == "json"
            else record_format(
                side_format.reader, side_format.message_name, side_format.types, side_format.rendering
            ).type
        )

    def for_tasks(self) -> RowFormats:
        """May ask the registry: its subjects' versions go with the tasks."""
        if isinstance(self.schemas, (FunctionSchemas, RegistrySchemas)):
            return replace(self, schemas=self.schemas.for_tasks(self.subjects))
        return self


def _check_is_struct(reader: RegisteredSchema) -> None:
    """Raise OptionError if the values have no fields, so that `rescuedColumn` means nothing."""
    is_struct = reader.kind == PROTOBUF or (
        only_record(parse_schema(reader.text, reader.texts_by_name)) is not None
        if reader.kind == AVRO
        else pa.types.is_struct(column_type(reader))
    )
    if not is_struct:
        raise OptionError(
            "option 'rescuedColumn': by the reader's schema the values are no records with fields, so they lack none. "
            "Leave the option out"
        )


def _reader_schema(
    option: SchemaOption,
    format_name: str,
    message_name: str | None,
    schemas: FunctionSchemas | RegistrySchemas | None,
    topics: Sequence[str] | None,
    rendering: Rendering,
) -> RegisteredSchema:
    """The schema by which keys or values are read, checked. Arguments and errors as of `SchemaOption.schema`."""
    found = option.schema(schemas, topics)
    if found.kind != option.kind:
        raise OptionError(
            f"option {option.name!r}: the schema is {found.kind}, and the format {format_name} needs {option.kind}"
        )
    try:
        if found.kind == JSON:
            column_type(found)
        else:
            record_format(found, message_name, (), rendering)
    except SchemaError as error:
        message = "" if message_name is None else f" and {MESSAGE_OPTIONS[option.side]!r}"
        raise OptionError(f"option{'s' if message else ''} {option.name!r}{message}: {error}") from None
    return found
