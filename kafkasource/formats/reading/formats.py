"""What `valueFormat` and `keyFormat` make of a row: resolved on the driver, carried to the tasks as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkasource.formats.framing import Side
from kafkasource.formats.json.rows import JsonRows
from kafkasource.formats.json.types_of import column_type
from kafkasource.formats.protobuf.rendering import AS_FROM_PROTOBUF, Rendering
from kafkasource.formats.reading.record_types import record_types
from kafkasource.formats.reading.schemas import (
    MESSAGE_OPTIONS,
    READER_OPTIONS,
    RegistrySchemas,
    Schemas,
    has_schemas,
    reader_schema,
    rendering_of,
    schemas_of,
)
from kafkasource.formats.registry import subject_of
from kafkasource.formats.registry.function import FunctionSchemas
from kafkasource.formats.rows import BareRows, RegisteredRows, TextRows, TypedRows
from kafkasource.formats.schema_source import KINDS, NoSchemas, RecordType, RegisteredSchema
from kafkasource.kafka.records.arrow.columns import row_schema
from kafkasource.types import BAD_RECORD_COLUMN, ROW_COLUMNS

if TYPE_CHECKING:
    from kafkasource.options import Options

SIDES: tuple[Side, ...] = ("value", "key")
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
    """Of the keys or the values."""

    side: Side
    name: str  # string, avro, protobuf, json
    reader: RegisteredSchema | None = None  # of all but string
    message_name: str | None = None  # of protobuf, where the reader's schema declares several
    types: tuple[RecordType, ...] = ()  # `recordTypes`
    rendering: Rendering = AS_FROM_PROTOBUF  # of protobuf
    is_bare: bool = False  # records name no schema: `reader` has written them

    def rows(self, schemas: Schemas | None, *, to_first_bad: bool = False) -> TypedRows:
        """`to_first_bad`: as `RegisteredRows` takes it."""
        if self.reader is None:
            return TextRows()
        if self.name == "json":
            return JsonRows(column_type(self.reader), self.side)
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
        )


@dataclass(frozen=True, slots=True)
class RowFormats:
    columns: tuple[str, ...]  # of the rows, in their order
    formats: tuple[Format, ...]  # of the columns that are not binary
    schemas: Schemas | None  # of writers; None where no format needs them, as JSON does not
    subjects: tuple[str, ...] = ()  # whose versions tasks will need
    memory_budget_bytes: int | None = None

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
                text = options[READER_OPTIONS[side]]
                readers[side] = reader_schema(text, side, names[side], messages[side], schemas, topics, rendering)
        is_bare = options["schemaIdIn"] == "none"
        of_value = {"value": types}
        formats = [
            Format(side, name, readers.get(side), messages.get(side), of_value.get(side, ()), rendering, is_bare)
            for side, name in names.items()
        ]
        of_writers = [side for side in registered if names[side] != "json" and not is_bare]
        subjects = [subject_of(topic, side) for topic in topics or () for side in of_writers]
        subjects += [each.subject for each in types if each.subject is not None]
        return cls(
            options["columns"],
            tuple(formats),
            schemas if of_writers else None,
            tuple(subjects),
            options["memoryBudget"],
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
        return tuple(each for each in self.formats if each.side in self.columns)

    @property
    def fetched(self) -> tuple[str, ...]:
        """What is decoded of the record batches: an error or a bad record needs more than the rows have."""
        names = set(self.columns) | {"topic", "partition", "offset"}
        if any(each.reader is not None and not each.is_bare for each in self.used):
            names.add("headers")
        if self.has_bad_record:
            names |= {"key", "value"}
        return tuple(name for name in ROW_COLUMNS if name in names)

    def field(self, name: str, others: pa.Schema) -> pa.Field:
        """A column of the rows. `others`: the fields of the binary row."""
        if name == BAD_RECORD_COLUMN:
            return pa.field(name, BAD_RECORD_TYPE)
        for each in self.formats:
            if each.side == name:
                return pa.field(name, self.type_of(each))
        return others.field(name)

    @property
    def row_schema(self) -> pa.Schema:
        """Of the batches of rows."""
        binary = row_schema(ROW_COLUMNS)
        return pa.schema([self.field(name, binary) for name in self.columns])

    def type_of(self, one: Format) -> pa.DataType:
        from kafkasource.formats.record_formats import record_format

        if one.reader is None:
            return pa.string()
        return (
            column_type(one.reader)
            if one.name == "json"
            else record_format(one.reader, one.message_name, one.types, one.rendering).type
        )

    def for_tasks(self) -> RowFormats:
        """May ask the registry: its subjects' versions go with the tasks."""
        if isinstance(self.schemas, (FunctionSchemas, RegistrySchemas)):
            return replace(self, schemas=self.schemas.for_tasks(self.subjects))
        return self
