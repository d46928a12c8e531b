"""Checks what a user wrote against the table, on the driver, before anything asks a broker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kafkasource.errors import OptionError, explained
from kafkasource.kafka.security.config import SecurityConfig
from kafkasource.kafka.security.exchange import is_this_machine
from kafkasource.kafka.security.option import MAX_INT32, SECRET, Option, Place, RefusedOption, Role, is_javas_default
from kafkasource.kafka.security.sasl import mechanisms
from kafkasource.kafka.security.secrets import Secret
from kafkasource.options.security import vendors_idle_time
from kafkasource.options.spelling import nearest
from kafkasource.options.table import BY_KEY, BY_NAME, OPTIONS, REFUSED, SPARKS_OWN
from kafkasource.options.types import REGISTERED_FORMATS, SCHEMA_FORMATS, is_schema
from kafkasource.types import BAD_RECORD_COLUMN, ROW_COLUMNS

log = logging.getLogger("kafkasource.options")

_DELIVERY = "kafka.delivery.timeout.ms"
WHAT_TO_READ = ("subscribe", "subscribePattern", "assign")  # a read needs one of them


@dataclass(frozen=True)
class Options(Mapping[str, Any]):
    """Parsed options by canonical name, defaults filled in. Plain values: pickled into every task."""

    values_by_name: Mapping[str, Any]
    given: frozenset[str]  # canonical names that the user wrote
    sparks_own: Mapping[str, str] = field(default_factory=dict)  # the given options of SPARKS_OWN, by lower-case key

    def __getitem__(self, name: str) -> Any:
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def no_effect_in(self, place: Place) -> list[str]:
        """The given options that the table says have no effect there, except switches that are off anyway."""
        rows = (BY_NAME[name] for name in sorted(self.given))
        return [row.name for row in rows if place in row.no_effect_in and (self[row.name] is not False or row.default)]

    def with_columns(self, names: tuple[str, ...]) -> Options:
        """The same options, for a row of these columns."""
        return replace(self, values_by_name={**self.values_by_name, "columns": names})

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{name}={self[name]!r}' for name in sorted(self.given))})"


def shown(written: Mapping[str, str]) -> dict[str, str]:
    """The options as they may be printed: secrets are hidden."""
    return {key: str(Secret("")) if is_secret(key) else text for key, text in written.items()}


def is_secret(key: str) -> bool:
    """Whether an option's value is a secret. `key`: its name as a user writes it, or an alias."""
    row = BY_KEY.get(key.lower())
    return row is not None and row.type is SECRET


def log_warning(text: str) -> None:
    log.warning("%s", text)  # `warnings` would quote our own line of code, in a process of Spark's


def no_warning(_text: str) -> None:
    """Ignore a warning: for `parse`, if an earlier step of the query has logged it."""


def parse(
    written: Mapping[str, str], role: Role, *, of_cluster: bool = False, warn: Callable[[str], None] = log_warning
) -> Options:
    """Check what the user wrote for one role (a read or a write) and fill in defaults.

    `of_cluster`: the options are those of one cluster among several (`sink.clusters.targets`, which asks
    `without_effect` itself: an option of all clusters may have an effect on some). Runs on the driver and contacts no
    broker. Raises OptionError. `warn` gets a text for each option that has no effect: Spark parses the options of a
    query many times, and one of them warns. Unknown names are an error if the user wants it so (`unknownOptions`).
    """
    values = {option.name: option.default for option in OPTIONS if role in option.used_by}
    given: dict[str, str] = {}
    strange: list[str] = []
    for key, text in written.items():
        option = _row_of(key, str(text), role, warn)
        if option is None:
            strange += [] if key.lower() in SPARKS_OWN or refused(key) else [key]
            continue
        if option.name in given:
            raise OptionError(f"options {given[option.name]!r} and {key!r} are the same option; give one of them")
        given[option.name] = key
        values[option.name] = option.parse(str(text))
    names_no_topic = role == "source" and not given.keys() & WHAT_TO_READ
    if names_no_topic and (misspelt := next((key for key in strange if nearest(key, BY_NAME) in WHAT_TO_READ), None)):
        raise OptionError(f"unknown option {misspelt!r} for a pykafka source: {unknown(misspelt, role)}")
    _tell_unknown(strange, role, fail=values["unknownOptions"] == "fail", warn=warn)
    for name, text in vendors_idle_time(values).items():
        if name not in given:
            values[name] = BY_NAME[name].parse(text)
    if role == "sink" and _DELIVERY not in given:
        waits_for_ever = of_cluster and values["onSlowCluster"] == "block"  # see `sink.clusters.targets`
        _raise_delivery_timeout(values, no_warning if waits_for_ever else warn)
    sparks_own = {key.lower(): str(text) for key, text in written.items() if key.lower() in SPARKS_OWN}
    options = Options(values, frozenset(given), sparks_own)
    _check(options, role, of_cluster)
    for text in _in_clear(options):
        warn(text)
    if not of_cluster:
        for text in without_effect(options, role).values():
            warn(text)
    return options.with_columns(_row_columns(options)) if role == "source" else options


def _raise_delivery_timeout(values: dict[str, Any], warn: Callable[[str], None]) -> None:
    """Raise the default to the shortest time that makes sense beside the other options, as Java's producer does."""
    default, shortest = values[_DELIVERY], _shortest_delivery_ms(values)
    if default < shortest:
        values[_DELIVERY] = shortest
        warn(
            f"option {_DELIVERY!r} is {shortest} instead of its default {default}: it must be at least "
            "'kafka.linger.ms' + 'kafka.request.timeout.ms'"
        )


def _shortest_delivery_ms(values: Mapping[str, Any]) -> int:
    shortest: int = values["kafka.linger.ms"] + values["kafka.request.timeout.ms"]
    return min(shortest, MAX_INT32)


def _row_columns(options: Options) -> tuple[str, ...]:
    """All columns of a row, in their order: what `columns` and `includeHeaders` ask for together."""
    names: tuple[str, ...] = ROW_COLUMNS[:-1] if options["columns"] is None else options["columns"]
    names = (*names, "headers") if options["includeHeaders"] and "headers" not in names else names
    rescued = options["rescuedColumn"]
    names = (*names, rescued) if rescued is not None and rescued not in names else names
    wants_bad = options["badRecords"] == "column" and BAD_RECORD_COLUMN not in names
    return (*names, BAD_RECORD_COLUMN) if wants_bad else names


def _row_of(key: str, text: str, role: Role, warn: Callable[[str], None]) -> Option | None:
    """The row of a key as the user wrote it. None: the key is Spark's own, or unknown, or refused with the value that
    it has in Java anyway."""
    option = BY_KEY.get(key.lower())
    if option is not None and role in option.used_by:
        return option
    refusal = refused(key)
    if refusal is not None and not is_javas_default(key.lower().removeprefix("kafka."), text):
        raise refusal.error(key)
    if refusal is not None:
        warn(f"option {key!r} has no effect: {refusal.instead}")
    return None


def refused(key: str) -> RefusedOption | None:
    """The row of `REFUSED` for a key, in any case."""
    return next((row for row in REFUSED if row.matches(key)), None)


def unknown(key: str, role: Role) -> str | None:
    """The reason why a key means nothing for this role, with a hint. None: it means something, if only to Spark."""
    option = BY_KEY.get(key.lower())
    if (option is not None and role in option.used_by) or key.lower() in SPARKS_OWN:
        return None
    if is_others(key, role):
        other = "writing" if role == "source" else "reading"
        return f"it is an option for {other}"
    near = nearest(key, [name for name, row in BY_KEY.items() if role in row.used_by])
    return "it has no effect" if near is None else f"did you mean {BY_KEY[near].name!r}?"


def is_others(key: str, role: Role) -> bool:
    """Whether a key is an option of the other role alone: of writing, for a read."""
    option = BY_KEY.get(key.lower())
    return option is not None and role not in option.used_by


def canonical(key: str) -> str:
    """A key as the table spells it. A key that the table does not have stays as it is."""
    option = BY_KEY.get(key.lower())
    return key if option is None else option.name


def _tell_unknown(keys: list[str], role: Role, *, fail: bool, warn: Callable[[str], None]) -> None:
    said = [f"unknown option {key!r} for a pykafka {role}: {unknown(key, role)}" for key in keys]
    if fail and said:
        raise OptionError(f"{'; '.join(said)} (an error because of unknownOptions=fail)")
    for text in said:
        warn(text)


_NO_OPTION_AT_ALL = (
    "Spark gave no option of this format. Register the options of a table under a name, "
    "kafkasource.register(spark, name='orders', options={...}), and then CREATE TABLE orders USING orders: Spark does "
    f"not give the OPTIONS of a table to a Python source {explained('spark-gave-no-option-of-this-format')}"
)


def _check(options: Options, role: Role, of_cluster: bool) -> None:
    """Checks that need more than one option."""
    if not of_cluster and "clusters" in options.given:
        raise OptionError(
            "option 'clusters': only a DataFrame's write goes to several clusters. Leave it out, and name one cluster "
            "by 'kafka.bootstrap.servers'"
        )
    if options["kafka.bootstrap.servers"] is None:
        client = "consumer" if role == "source" else "producer"
        text = f"Option 'kafka.bootstrap.servers' must be specified for configuring Kafka {client}"
        raise OptionError(text if options.given or of_cluster else f"{text}. {_NO_OPTION_AT_ALL}")
    SecurityConfig.from_options(options)

    def other(name: str) -> Any:
        if name == "clusters":
            return of_cluster or None
        text = options.sparks_own.get(name.lower())
        return options.get(name) if text is None else text.strip().lower()

    for row in OPTIONS:
        if row.name in options.given:
            row.check(options[row.name], other)
    if role == "sink":
        _check_sink(options)
    else:
        _check_source(options)


def _in_clear(options: Options) -> Iterator[str]:
    """A warning where a password, or a token, goes to another machine without encryption."""
    if str(options["kafka.security.protocol"]).upper() != "SASL_PLAINTEXT":
        return  # mostly so: planning parses the options of each micro-batch
    security = SecurityConfig.from_options(options)
    if security.sasl is None:
        return
    row = mechanisms.BY_NAME.get(security.sasl.mechanism)  # None: it is a reference
    others = [host for host, _ in options["kafka.bootstrap.servers"] if not is_this_machine(host)]
    if row is not None and row.sends and others:
        yield (
            f"option 'kafka.security.protocol'={security.protocol}: the {row.sends} goes to {others[0]} unencrypted. "
            "Use SASL_SSL"
        )


def without_effect(options: Options, role: Role) -> dict[str, str]:
    """A warning for each known option that changes nothing beside the others, by its name."""
    security = SecurityConfig.from_options(options)
    said = {
        name: f"option {name!r} has no effect, as 'kafka.security.protocol' is {security.protocol}"
        for name in sorted(options.given)
        if (name.startswith("kafka.ssl.") and not security.encrypts)
        or (name.startswith("kafka.sasl.") and security.sasl is None)
    }
    if security.sasl is not None:
        said |= _of_other_mechanisms(options, security.sasl.mechanism)
    name = "groupIdPrefix"
    if role == "source" and options[name] is not None:
        if options["kafka.group.id"] is not None:
            said[name] = f"option {name!r} will be ignored, as option 'kafka.group.id' has been set"
        elif not options["commitOffsets"]:
            said[name] = f"option {name!r} has no effect without commitOffsets=true: no group is used to read"
    return said


def _of_other_mechanisms(options: Options, mechanism: str) -> dict[str, str]:
    """Return a warning for each option of another SASL mechanism than `mechanism`, by the option's name."""
    warnings = {}
    for name in sorted(options.given):
        others = mechanisms.of_option(name.removeprefix("kafka."))
        if others and mechanism not in others:
            warnings[name] = (
                f"option {name!r} has no effect: it is for {' and '.join(others)}, and 'kafka.sasl.mechanism' is "
                f"{mechanism}"
            )
    return warnings


def _check_source(options: Options) -> None:
    for name in options["columns"] or ():
        if name == options["rescuedColumn"] or (name == BAD_RECORD_COLUMN and options["badRecords"] == "column"):
            continue
        if name not in ROW_COLUMNS:
            raise OptionError(f"option 'columns': {no_such_column(name)}")
    if options["badRecords"].startswith("topic:"):
        raise OptionError(
            "option 'badRecords'=topic:NAME is for writing: a read writes nothing, and hands bad records on with "
            "badRecords=column"
        )
    rescued = options["rescuedColumn"]
    if rescued is not None and rescued.lower() in {name.lower() for name in (*ROW_COLUMNS, BAD_RECORD_COLUMN)}:
        raise OptionError(f"option 'rescuedColumn': the source has a column {rescued!r} already. Choose another name")
    _check_formats(options)
    most, least = options["maxOffsetsPerTrigger"], options["minOffsetsPerTrigger"]
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most}). "
            "Lower minOffsetsPerTrigger or raise maxOffsetsPerTrigger"
        )
    for low, high in (("minPartitions", "maxPartitions"), ("minRecordsPerPartition", "maxRecordsPerPartition")):
        if options[low] is not None and options[high] is not None and options[low] > options[high]:
            raise OptionError(f"option {low!r} ({options[low]}) is higher than {high!r} ({options[high]})")
    if options["commitOffsets"] and options["kafka.group.id"] is None and options["groupIdPrefix"] is None:
        raise OptionError("option 'commitOffsets' needs a group to commit to: set 'kafka.group.id'")


def _check_formats(options: Options) -> None:
    formats = {options["valueFormat"], options["keyFormat"]}
    if formats == {"binary"} and options["badRecords"] == "column":
        raise OptionError(
            "option 'badRecords'=column has no effect on binary keys and values: set 'valueFormat' or 'keyFormat'"
        )
    for name in sorted(options.given):
        if name.startswith("protobuf.") and "protobuf" not in formats and options[name] is not False:
            raise OptionError(
                f"option {name!r} needs 'valueFormat' or 'keyFormat' to be protobuf. Leave it out, or set one"
            )
    named = _registered_formats(options)
    if options["schemaIdIn"] in ("none", "fingerprint"):
        _check_without_ids(options, named)
        return
    if named and options["schemaRegistry"] is None and options["schemaRegistry.url"] is None:
        raise OptionError(
            f"the format {named[0]} needs the schemas that records were written with: set 'schemaRegistry.url', or "
            "'schemaRegistry' to module:function. Only where records are bare and name no schema, set schemaIdIn=none "
            "and 'readerSchema'"
        )


def _check_without_ids(options: Options, named: Sequence[str]) -> None:
    """Check a read of records without ids. `named`: the formats of records that otherwise name their schemas by ids."""
    word = options["schemaIdIn"]
    takes = REGISTERED_FORMATS if word == "none" else ("avro",)
    if not named or not set(named).issubset(takes):
        raise OptionError(
            f"option 'schemaIdIn'={word} needs 'valueFormat' or 'keyFormat' to be {' or '.join(takes)}, and none to be "
            "another format with schema ids; json needs no id. Change the format, or leave 'schemaIdIn' out"
        )
    for side, text in (("valueFormat", "readerSchema"), ("keyFormat", "keyReaderSchema")):
        if options[side] in named and not (options[text] or "").strip():
            raise OptionError(
                f"option 'schemaIdIn'={word} needs {text!r} with {side!r}={options[side]}: the schema that all records "
                f"were written by. Set {text!r} to file:PATH or the schema's text"
            )
    if options["rescuedColumn"] is not None and word == "none" and options["valueFormat"] in named:
        raise OptionError(
            "option 'rescuedColumn' cannot be combined with 'schemaIdIn'=none: the reader's schema has written all "
            "values, so the columns lack none of their fields. Leave out one of the two"
        )
    if options["recordTypes"] is not None:
        raise OptionError(
            f"option 'recordTypes' cannot be combined with 'schemaIdIn'={word}: records without a schema id do not say "
            "their type. Leave out one of the two"
        )


def _registered_formats(options: Options) -> list[str]:
    """The formats whose records name their schemas, among those of keys and values. OptionError for options of a
    registry where no format has schemas."""
    formats = {options["valueFormat"], options["keyFormat"]}
    for name in sorted(options.given):
        of_registry = name in ("schemaRegistry", "schemaIdIn") or name.startswith("schemaRegistry.")
        if of_registry and not formats.intersection(SCHEMA_FORMATS):
            raise OptionError(
                f"option {name!r} needs 'valueFormat' or 'keyFormat' to be one of {', '.join(SCHEMA_FORMATS)}. "
                "Leave it out, or set one"
            )
    return sorted(formats.intersection(REGISTERED_FORMATS))


def _check_written_formats(options: Options) -> None:
    _registered_formats(options)  # for its errors
    if options["schemaIdIn"] == "fingerprint":
        raise OptionError("option 'schemaIdIn'=fingerprint is for reading: a write has prefix, header and none")
    if options["schemaRegistry.url"] is not None:
        return
    function = options["schemaRegistry"] is not None
    named = 0  # sides with a schema
    for side, text in (("valueFormat", "writerSchema"), ("keyFormat", "keyWriterSchema")):
        given = (options[text] or "").strip()
        if options[side] not in SCHEMA_FORMATS or (options[side] == "json" and not given and not function):
            continue  # JSON says itself what it is
        named += 1
        own = given.startswith("file:") or is_schema(given, options[side])
        if own and options["schemaIdIn"] == "none":
            continue
        if function and not given.startswith("id:"):
            raise OptionError(
                "option 'schemaRegistry': a function knows ids alone, and registers nothing. Set "
                f"{text!r} to id:7, or to file:PATH or a schema's text with schemaIdIn=none"
            )
        if not function:
            raise OptionError(
                f"option {side!r}={options[side]} needs 'schemaRegistry.url': the registry has the schema and its id. "
                f"Only with schemaIdIn=none and {text}=file:PATH, or a schema's text, none is needed"
            )
    if named == 0 and "schemaIdIn" in options.given and options["schemaIdIn"] != "none":
        raise OptionError(
            "option 'schemaIdIn' needs a schema, and JSON is written without one here: set 'schemaRegistry.url', or"
            " leave 'schemaIdIn' out"
        )


def no_such_column(name: str) -> str:
    """The reason and the next step for a column that the source does not have."""
    near = nearest(name, ROW_COLUMNS)
    hint = "" if near is None else f" (did you mean {near!r}?)"
    return f"the source has no column {name!r}{hint}; it has {', '.join(ROW_COLUMNS)}"


def _check_sink(options: Options) -> None:
    if options["badRecords"] == "column":
        raise OptionError("option 'badRecords'=column is for reading: a write has fail and topic:NAME")
    _check_written_formats(options)
    if options["badRecords"] != "fail" and options["atomicBatch"]:
        raise OptionError(
            "option 'badRecords'=topic:NAME cannot be combined with 'atomicBatch': several tasks would write dead "
            "letters to one partition, where only one may write. Leave out one of the two"
        )
    shortest = _shortest_delivery_ms(options)
    if options[_DELIVERY] < shortest:
        raise OptionError(
            f"option {_DELIVERY!r} ({options[_DELIVERY]}) must be at least 'kafka.linger.ms' + "
            f"'kafka.request.timeout.ms' ({shortest})"
        )
    if options["kafka.batch.size"] > options["kafka.buffer.memory"]:
        raise OptionError(
            f"option 'kafka.batch.size' ({options['kafka.batch.size']}) is larger than "
            f"'kafka.buffer.memory' ({options['kafka.buffer.memory']})"
        )
