"""The options of a write's formats, and the schemas that they name: resolved once, on the driver, before the tasks.

Besides what `schema_options` reads, `register` is the schema of the column's type, which the driver registers unless
the subject has it. The registry says the id of a schema's own text, as the subject has it. JSON needs no schema:
without a registry and without the option it is written as the column is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkasource.errors import (
    OptionError,
    SchemaError,
    SchemaIncompatible,
    SchemaNotFound,
)
from kafkasource.formats.avro.derive import derived_schema
from kafkasource.formats.framing import SIDES, Side
from kafkasource.formats.json.derive import derived_json_schema
from kafkasource.formats.json.types_of import column_type
from kafkasource.formats.record_formats import record_format
from kafkasource.formats.registry import (
    Compatibility,
    Definition,
    RegistryClient,
    registry_of,
)
from kafkasource.formats.registry.function import FunctionSchemas
from kafkasource.formats.schema_options import (
    MESSAGE_OPTIONS,
    WRITER_OPTIONS,
    RegistrySchemas,
    SchemaOption,
    has_schemas,
    schemas_of,
)
from kafkasource.formats.schema_source import ANY_JSON, AVRO, JSON, KINDS, RegisteredSchema
from kafkasource.formats.writing.formats import WriteFormat
from kafkasource.kafka.process import PerProcess, Recent

if TYPE_CHECKING:
    from kafkasource.options import Options

log = logging.getLogger("kafkasource.sink")

REGISTER = "register"
KEEP_S = 60.0  # how long a stream's schemas stay while no micro-batch asks for them
_DERIVED = {AVRO: derived_schema, JSON: derived_json_schema}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of one side."""

    side: Side
    kind: str  # of its schema: AVRO
    schema: str | None  # the option's text; None: no schema, of JSON alone
    message_name: str | None = None  # of protobuf

    @property
    def option(self) -> str:
        return WRITER_OPTIONS[self.side]

    @property
    def named(self) -> SchemaOption:
        assert self.schema is not None
        return SchemaOption(self.option, self.side, self.kind, self.schema, is_read=False)


@dataclass(frozen=True, slots=True)
class WantedFormats:
    """The options of a write. Not for tasks: it has the registry's credentials."""

    text: tuple[Side, ...] = ()  # the sides with the format `string`
    sides: tuple[Wanted, ...] = ()  # those with a schema
    id_in: str = "prefix"  # schemaIdIn
    topic: str | None = None  # of all rows
    schemas: FunctionSchemas | RegistrySchemas | None = None  # None: the options name neither, or no side has a schema

    @classmethod
    def of(cls, options: Options, topic: str | None) -> WantedFormats:
        """Raises OptionError."""
        names = {side: options[f"{side}Format"] for side in SIDES}
        sides = tuple(
            Wanted(
                side,
                KINDS[name],
                (options[WRITER_OPTIONS[side]] or "").strip()
                or (None if name == "json" and not has_schemas(options) else "latest"),
                options[MESSAGE_OPTIONS[side]],
            )
            for side, name in names.items()
            if name in KINDS
        )
        schemas = schemas_of(options) if sides and has_schemas(options) else None
        text = tuple(side for side, name in names.items() if name == "string")
        return cls(text, sides, options["schemaIdIn"], topic or None, schemas)

    @property
    def typed(self) -> tuple[Side, ...]:
        """The sides whose columns have any type."""
        return tuple(side.side for side in self.sides)

    def column_types(self) -> dict[str, pa.DataType]:
        """The types that the schemas take, where no column has one of its own: lines of JSON. May ask the registry.

        Raises OptionError, SchemaError, RegistryError.
        """
        found: dict[str, pa.DataType] = dict.fromkeys(self.text, pa.string())
        for side in self.sides:
            if side.schema is None:
                raise OptionError(
                    f"the format json needs a schema for lines: they are JSON already. Leave {side.side}Format out, or"
                    f" set {side.option!r}"
                )
            if side.schema == REGISTER:
                raise OptionError(f"option {side.option!r}={REGISTER} needs a column with a type, and lines have none")
            schema = self._found(side, pa.null())[1]
            if schema.kind == JSON:
                found[side.side] = column_type(schema)
            else:
                found[side.side] = record_format(schema, side.message_name).type
        return found

    def resolved(self, types: Mapping[Side, pa.DataType], warn: Callable[[str], None]) -> tuple[WriteFormat, ...]:
        """The formats of the columns there are. May ask the registry, and registers a schema where that is wanted.

        `types`: of the columns. `warn` gets a text for what may fail in a task. Raises OptionError, SchemaError,
        RegistryError.
        """
        return tuple(self._resolved(side, types[side.side], warn) for side in self.sides if side.side in types)

    def _resolved(self, wanted: Wanted, data_type: pa.DataType, warn: Callable[[str], None]) -> WriteFormat:
        schema_id, schema = self._found(wanted, data_type)
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
            encoder = found.encoder(data_type)
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

    def _found(self, wanted: Wanted, data_type: pa.DataType) -> tuple[int | None, RegisteredSchema]:
        if wanted.schema is None:
            return None, ANY_JSON
        if wanted.schema == REGISTER:
            if wanted.kind not in _DERIVED:
                raise OptionError(
                    f"option {wanted.option!r}={REGISTER} cannot derive a Protobuf schema, as it does not know the"
                    " numbers of the fields. Register the schema (`pykafka schemas register`), or name one"
                )
            found = RegisteredSchema(wanted.kind, _DERIVED[wanted.kind](data_type))
            return self._registered(wanted, Definition(found.text, found.kind)), found
        text = wanted.named.own_text
        if text is not None:
            found = RegisteredSchema(wanted.kind, text)
            return None if self.id_in == "none" else self._id_of(wanted, text), found
        return wanted.named.resolve(self.schemas, self._topics)

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

    @property
    def _topics(self) -> list[str] | None:
        return None if self.topic is None else [self.topic]

    def _subject(self, wanted: Wanted) -> str:
        return wanted.named.subjects(self._topics)[0]

    def _client(self) -> RegistryClient:
        assert isinstance(self.schemas, RegistrySchemas)  # `options.parse` has looked
        return registry_of(self.schemas.options)


def _refused(wanted: Wanted, subject: str, definition: Definition, reason: str) -> OptionError:
    return OptionError(
        f"option {wanted.option!r}={REGISTER}: subject {subject!r} does not take the schema of the column"
        f" {wanted.side!r}: {reason}. Change the column, or the subject's rule. The schema is {definition.text[:2000]}"
    )


_of_streams: PerProcess[Recent[object, tuple[WriteFormat, ...]]] = PerProcess(lambda: Recent(64, KEEP_S))


def of_stream(
    wanted: WantedFormats, types: Mapping[Side, pa.DataType], warn: Callable[[str], None]
) -> tuple[WriteFormat, ...]:
    """Resolve as `WantedFormats.resolved`, for a micro-batch. Each micro-batch makes a new writer; only the first asks
    the registry, or one after a minute without any: the query may have been started again."""
    key = wanted, tuple(types.items())
    return _of_streams.get().of(key, lambda: wanted.resolved(types, warn))
