"""Finds the reader's type that takes a writer's value, as the specification's schema resolution says.

Names: a record is taken for the reader's record whatever its name (as Java does), but in a union by its name; an enum
or a fixed by its name. A name fits with or without its namespace, or where the reader's aliases have it.
"""

from __future__ import annotations

from kafkasource.formats.avro.schema import (
    AvroArray,
    AvroEnum,
    AvroPrimitive,
    AvroRecord,
    Fixed,
    Map,
    Schema,
    Union,
    kind_of,
    short,
)

PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}

_TIMESTAMPS = {
    f"{family}-{unit}": (family, per_second)
    for family in ("timestamp", "local-timestamp")
    for unit, per_second in (("millis", 1000), ("micros", 1_000_000), ("nanos", 1_000_000_000))
}


def same_name(writer: AvroRecord | AvroEnum | Fixed, reader: AvroRecord | AvroEnum | Fixed) -> bool:
    return short(writer.name) == short(reader.name) or writer.name in reader.aliases


def reads(writer: Schema, reader: Schema) -> bool:
    """Whether the reader's type takes the writer's by what they are, whatever is within them. Neither is a union."""
    if isinstance(writer, AvroPrimitive) and isinstance(reader, AvroPrimitive):
        return reader.kind == writer.kind or reader.kind in PROMOTIONS.get(writer.kind, ())
    if isinstance(writer, Fixed) and isinstance(reader, Fixed):
        return writer.size == reader.size and same_name(writer, reader)
    if isinstance(writer, AvroEnum) and isinstance(reader, AvroEnum):
        return same_name(writer, reader)
    return type(writer) is type(reader) and isinstance(writer, (AvroRecord, AvroArray, Map))


def branch_for(writer: Schema, reader: Union) -> int | None:
    """The branch that takes the writer's type, which is not a union: by name, else the same type, else by promotion.

    A record of another name goes to the only record there is.
    """
    kind = kind_of(writer)
    same = [index for index, branch in enumerate(reader.branches) if kind_of(branch) == kind]
    if isinstance(writer, (AvroRecord, AvroEnum, Fixed)):
        for index in same:
            if getattr(reader.branches[index], "name", None) == writer.name:
                return index
        for index in same:
            branch = reader.branches[index]
            named = isinstance(branch, (AvroRecord, AvroEnum, Fixed)) and same_name(writer, branch)
            if named and reads(writer, branch):
                return index
        return same[0] if isinstance(writer, AvroRecord) and len(same) == 1 else None
    if same:
        return same[0]
    return next((index for index, branch in enumerate(reader.branches) if reads(writer, branch)), None)


def matched_fields(writer: AvroRecord, reader: AvroRecord) -> dict[str, int]:
    """The reader's field by the writer's name of it: names first, then the reader's aliases."""
    there = {field.name for field in writer.fields}
    taken = {field.name: index for index, field in enumerate(reader.fields) if field.name in there}
    for index, field in enumerate(reader.fields):
        if field.name not in there:
            name = next((alias for alias in field.aliases if alias in there and alias not in taken), None)
            if name is not None:
                taken[name] = index
    return taken


def least_bytes(schema: Schema) -> int:
    """The fewest bytes that a value takes; 0: every value takes none."""
    if isinstance(schema, AvroPrimitive):
        return {"null": 0, "float": 4, "double": 8}.get(schema.kind, 1)
    if isinstance(schema, Fixed):
        return schema.size
    if isinstance(schema, AvroRecord):
        return min(sum(least_bytes(field.schema) for field in schema.fields), (1 << 31) - 1)
    if isinstance(schema, Union):
        return min(1 + min(map(least_bytes, schema.branches)), (1 << 31) - 1)
    return 1


def factor_between(writer: Schema, reader: AvroPrimitive, *, as_number: bool) -> tuple[int, int]:
    """(times, divided by) that make a writer's long the column's: what is no timestamp stays as it is.

    `as_number`: the column is no timestamp, and has the number in the reader's unit. So it is of nanoseconds, and of a
    union of int and long, as in Spark's `from_avro`.

    Timestamps of one family keep their moment, whatever the units: as numbers, which is what the specification says,
    they would silently be another moment.
    """
    if reader.logical is None or reader.logical.name not in _TIMESTAMPS:
        return 1, 1
    family, reader_unit = _TIMESTAMPS[reader.logical.name]
    unit = reader_unit
    if isinstance(writer, AvroPrimitive) and writer.logical is not None and writer.logical.name in _TIMESTAMPS:
        other, writer_unit = _TIMESTAMPS[writer.logical.name]
        unit = writer_unit if other == family else reader_unit
    target = reader_unit if as_number else 1_000_000
    return (target // unit, 1) if target >= unit else (1, unit // target)
