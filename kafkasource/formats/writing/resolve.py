"""The options of a write's formats, and the schemas that they name: resolved once, on the driver, before the tasks.

latest         the latest version of the topic's subject (`orders-value`)
version:3      that version of it
subject:NAME   the latest version of another subject
id:7           the schema of an id
file:PATH      a file's text, and the schema's own text: the registry says its id, as the subject has it
register       the schema of the column's type, which the driver registers unless the subject has it

JSON needs none: without a registry and without the option it is written as the column is. A function in place of a
registry (`schemaRegistry`) knows ids alone.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkasource.errors import (
    OptionError,
    SchemaError,
    SchemaIncompatible,
    SchemaNotFound,
    UnknownSchemaId,
)
from kafkasource.formats.avro.derive import derived_schema
from kafkasource.formats.framing import Side
from kafkasource.formats.json.derive import derived_json_schema
from kafkasource.formats.json.types_of import column_type
from kafkasource.formats.record_formats import record_format
from kafkasource.formats.registry import (
    Compatibility,
    Definition,
    ReaderSchema,
    RegistryClient,
    RegistryOptions,
    registry_of,
    subject_of,
)
from kafkasource.formats.registry.function import FUNCTION, FunctionSchemas
from kafkasource.formats.schema_source import ANY_JSON, AVRO, JSON, KINDS, RegisteredSchema
from kafkasource.formats.writing.formats import WriteFormat
from kafkasource.kafka.process import PerProcess
from kafkasource.kafka.security.recent import Recent
from kafkasource.kafka.security.shipped_files import text_of_file
from kafkasource.options.types import is_schema

if TYPE_CHECKING:
    from kafkasource.options import Options

log = logging.getLogger("kafkasource.sink")

SIDES: tuple[Side, ...] = ("value", "key")
WRITER_OPTIONS: dict[Side, str] = {"key": "keyWriterSchema", "value": "writerSchema"}
REGISTER = "register"
MESSAGE_OPTIONS: dict[Side, str] = {"key": "keyMessageName", "value": "messageName"}
KEEP_S = 60.0  # how long a stream's schemas stay while no micro-batch asks for them
_DERIVED = {AVRO: derived_schema, JSON: derived_json_schema}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the options say of one side."""

    side: Side
    kind: str  # of its schema: AVRO
    schema: str | None  # the option's text; None: no schema, of JSON alone
    message_name: str | None = None  # of protobuf

    @property
    def option(self) -> str:
        return WRITER_OPTIONS[self.side]

    @property
    def own_text(self) -> str | None:
        """The schema itself, where the option has it or names a file of it. Raises OptionError."""
        assert self.schema is not None
        if self.schema.startswith("file:"):
            return text_of_file(self.schema.removeprefix("file:"), self.option)
        return self.schema if is_schema(self.schema, self.kind.lower()) else None


@dataclass(frozen=True, slots=True)
class WantedFormats:
    """What the options of a write say. Not for tasks: it has the registry's credentials."""

    text: tuple[Side, ...] = ()  # the sides with the format `string`
    sides: tuple[Wanted, ...] = ()  # those with a schema
    id_in: str = "prefix"  # schemaIdIn
    topic: str | None = None  # of all rows
    registry: RegistryOptions | None = None
    function: FunctionSchemas | None = None  # in place of a registry

    @classmethod
    def of(cls, options: Options, topic: str | None) -> WantedFormats:
        """Raises OptionError."""
        names = {side: options[f"{side}Format"] for side in SIDES}
        has_schemas = options["schemaRegistry.url"] is not None or options[FUNCTION] is not None
        sides = tuple(
            Wanted(
                side,
                KINDS[name],
                (options[WRITER_OPTIONS[side]] or "").strip()
                or (None if name == "json" and not has_schemas else "latest"),
                options[MESSAGE_OPTIONS[side]],
            )
            for side, name in names.items()
            if name in KINDS
        )
        registry = RegistryOptions.of_parsed(options) if sides and options["schemaRegistry.url"] is not None else None
        function = None if options[FUNCTION] is None else FunctionSchemas(options[FUNCTION])
        text = tuple(side for side, name in names.items() if name == "string")
        return cls(text, sides, options["schemaIdIn"], topic or None, registry, function)

    @property
    def typed(self) -> tuple[Side, ...]:
        """The sides whose columns have any type."""
        return tuple(each.side for each in self.sides)

    def column_types(self) -> dict[str, pa.DataType]:
        """The types that the schemas take, where no column has one of its own: lines of JSON. May ask the registry.

        Raises OptionError, SchemaError, RegistryError.
        """
        found: dict[str, pa.DataType] = dict.fromkeys(self.text, pa.string())
        for each in self.sides:
            if each.schema is None:
                raise OptionError(
                    f"the format json needs a schema for lines: they are JSON already. Leave {each.side}Format out, or"
                    f" set {each.option!r}"
                )
            if each.schema == REGISTER:
                raise OptionError(f"option {each.option!r}={REGISTER} needs a column with a type, and lines have none")
            schema = self._found(each, pa.null())[1]
            if schema.kind == JSON:
                found[each.side] = column_type(schema)
            else:
                found[each.side] = record_format(schema, each.message_name).type
        return found

    def resolved(self, types: Mapping[Side, pa.DataType], warn: Callable[[str], None]) -> tuple[WriteFormat, ...]:
        """The formats of the columns there are. May ask the registry, and registers a schema where that is wanted.

        `types`: of the columns. `warn` gets a text for what may fail in a task. Raises OptionError, SchemaError,
        RegistryError.
        """
        return tuple(self._resolved(each, types[each.side], warn) for each in self.sides if each.side in types)

    def _resolved(self, wanted: Wanted, kind: pa.DataType, warn: Callable[[str], None]) -> WriteFormat:
        schema_id, schema = self._found(wanted, kind)
        known = "" if schema_id is None else f" (id {schema_id})"
        if schema.kind != wanted.kind:
            raise OptionError(
                f"option {wanted.option!r}: the schema{known} is {schema.kind}, and the format needs {wanted.kind}"
            )
        found = WriteFormat(
            wanted.side,
            schema,
            None if self.id_in == "none" else schema_id,
            self.id_in == "header",
            wanted.message_name,
        )
        try:
            encoder = found.encoder(kind)
        except SchemaError as error:
            where = f"does not fit the schema of option {wanted.option!r}{known}"
            if wanted.schema is None:
                where = "cannot be written as JSON"
            raise SchemaError(f"the column {wanted.side!r} {where}: {error}") from None
        if encoder.may_fail:
            more = ", ..." if len(encoder.may_fail) > 5 else ""
            warn(
                f"the column {wanted.side!r} may be null where the schema of option {wanted.option!r}{known} has no"
                f" null: {', '.join(encoder.may_fail[:5])}{more}. A null there fails its task, or is a dead letter"
            )
        return found

    def _found(self, wanted: Wanted, kind: pa.DataType) -> tuple[int | None, RegisteredSchema]:
        if wanted.schema is None:
            return None, ANY_JSON
        if wanted.schema == REGISTER:
            if wanted.kind not in _DERIVED:
                raise OptionError(
                    f"option {wanted.option!r}={REGISTER} cannot derive a Protobuf schema, as it does not know the"
                    " numbers of the fields. Register the schema (`pykafka schemas register`), or name one"
                )
            found = RegisteredSchema(wanted.kind, _DERIVED[wanted.kind](kind))
            return self._registered(wanted, Definition(found.text, found.kind)), found
        text = wanted.own_text
        if text is not None:
            found = RegisteredSchema(wanted.kind, text)
            return None if self.id_in == "none" else self._id_of(wanted, text), found
        parsed = ReaderSchema.parse(wanted.schema, wanted.option)
        if parsed is None:
            raise OptionError(
                f"option {wanted.option!r}: expected latest, version:3, subject:NAME, id:7, file:PATH, register or a"
                f" schema's JSON, got {wanted.schema[:100]!r}"
            )
        if self.function is not None:
            return self._of_function(wanted, self.function, parsed.schema_id)
        by_itself = parsed.subject is not None or parsed.schema_id is not None
        subjects = [] if by_itself else [self._subject(wanted)]
        return parsed.resolve(self._client(), subjects, wanted.option)

    def _of_function(
        self, wanted: Wanted, function: FunctionSchemas, schema_id: int | None
    ) -> tuple[int, RegisteredSchema]:
        assert schema_id is not None  # `options.parse` has looked
        try:
            return schema_id, function.schema_as(schema_id, wanted.kind)
        except UnknownSchemaId as error:
            raise OptionError(f"option {wanted.option!r}: {error}") from None

    def _registered(self, wanted: Wanted, definition: Definition) -> int:
        """The id of the column's own schema, which the subject has or gets."""
        client, subject = self._client(), self._subject(wanted)
        try:
            return client.look_up(subject, definition).schema_id
        except SchemaNotFound:
            pass
        try:
            verdict = client.check(subject, definition)
        except SchemaNotFound:
            verdict = Compatibility(True)  # the subject has no versions yet
        if not verdict.is_compatible and verdict.messages:
            raise _refused(wanted, subject, definition, "; ".join(verdict.messages))
        try:  # Apicurio 3.0 gives the reason only when it refuses the registration itself
            schema_id = client.register(subject, definition)
        except SchemaIncompatible as error:
            raise _refused(wanted, subject, definition, str(error)) from None
        log.info("registered the schema of the column %r in subject %r: id %d", wanted.side, subject, schema_id)
        return schema_id

    def _id_of(self, wanted: Wanted, text: str) -> int:
        subject = self._subject(wanted)
        try:
            return self._client().look_up(subject, Definition(text, wanted.kind)).schema_id
        except SchemaNotFound as error:
            raise OptionError(
                f"option {wanted.option!r}: subject {subject!r} has no such schema ({error}). Register it first:"
                " `pykafka schemas register`. Or set schemaIdIn=none, for records that name no schema"
            ) from None

    def _subject(self, wanted: Wanted) -> str:
        if self.topic is None:
            raise OptionError(
                f"option {wanted.option!r}: the rows name their topics, so there is no one subject. Set the option"
                f" 'topic', or {wanted.option} to subject:NAME or id:7"
            )
        return subject_of(self.topic, wanted.side)

    def _client(self) -> RegistryClient:
        assert self.registry is not None  # `options.parse` has looked
        return registry_of(self.registry)


def _refused(wanted: Wanted, subject: str, definition: Definition, reason: str) -> OptionError:
    return OptionError(
        f"option {wanted.option!r}={REGISTER}: subject {subject!r} does not take the schema of the column"
        f" {wanted.side!r}: {reason}. Change the column, or the subject's rule. The schema is {definition.text[:2000]}"
    )


@dataclass(slots=True)
class _Entry:
    formats: tuple[WriteFormat, ...]
    used_s: float


class _Kept:
    """The formats of this process's streams."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: Recent[object, _Entry] = Recent(64)

    def of(self, key: object, make: Callable[[], tuple[WriteFormat, ...]]) -> tuple[WriteFormat, ...]:
        with self._lock:
            found = self._entries.get(key)
            if found is None or self._clock() - found.used_s > KEEP_S:
                found = _Entry(make(), 0)
            found.used_s = self._clock()
            self._entries.put(key, found)
            return found.formats


_kept: PerProcess[_Kept] = PerProcess(_Kept)


def of_stream(
    wanted: WantedFormats, types: Mapping[Side, pa.DataType], warn: Callable[[str], None]
) -> tuple[WriteFormat, ...]:
    """As `WantedFormats.resolved`, for a micro-batch. Each makes a new writer; the first alone asks the
    registry, and one after a minute without any, as perhaps the query was started again."""
    key = wanted, tuple(types.items())
    return _kept.get().of(key, lambda: wanted.resolved(types, warn))
