"""Compiles the fields of a message in one version into functions that read and write it.

What a version is made of is decided here, once, so that the functions only move values.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TypeAlias

from kafkasource.errors import ProtocolError
from kafkasource.kafka.protocol.primitives import ByteReader, ByteWriter, brief
from kafkasource.kafka.protocol.schema import Array, Body, Field, Fields, Primitive, Read, Struct, Type, Value, Write

ReadInto: TypeAlias = Callable[[ByteReader, Body], None]
WriteFrom: TypeAlias = Callable[[ByteWriter, Fields], None]


def _runs(fields: Sequence[Field], version: int) -> list[list[Field]]:
    """The untagged fields in order; neighbours that are numbers of fixed width share a run."""
    runs: list[list[Field]] = []
    previous_fixed = False
    for f in fields:
        if f.carried_by(version) and f.tag is None:
            fixed = isinstance(f.type, Primitive) and f.type.layout != ""
            if fixed and previous_fixed:
                runs[-1].append(f)
            else:
                runs.append([f])
            previous_fixed = fixed
    return runs


def _layout(run: Sequence[Field]) -> struct.Struct | None:
    letters = [f.type.layout for f in run if isinstance(f.type, Primitive)]
    return struct.Struct(">" + "".join(letters)) if all(letters) and letters else None


def _width(kind: Type, version: int, flexible: bool) -> int:
    """The least bytes that a value takes: what a count is checked against."""
    if isinstance(kind, Primitive):
        return kind.width(flexible)
    if isinstance(kind, Array):
        return 1 if flexible else 4
    fields = (f for f in kind.fields if f.carried_by(version) and f.tag is None)
    widths = (1 if _is_nullable_struct(f, version) else _width(f.type, version, flexible) for f in fields)
    return max(1, sum(widths) + flexible)


def _is_nullable_struct(f: Field, version: int) -> bool:
    return isinstance(f.type, Struct) and f.nullable_in(version)


_LIST_BYTES, _PLACE_BYTES = 64, 24  # an empty list; an element's place in one, which grows in steps


def _memory_bytes(kind: Type, version: int) -> int:
    """The most that a value takes, beside its text and the elements of its arrays.

    A decoded struct has all its fields, also those that did not come; of these only new objects take memory.
    """
    if isinstance(kind, Primitive):
        return kind.memory_bytes
    if isinstance(kind, Array):
        return _LIST_BYTES
    template, fresh = _template(kind.fields, version)
    made = {name for name, _ in fresh}
    own = (f for f in kind.fields if f.carried_by(version) or f.name in made)
    return sys.getsizeof(template.copy()) + sum(_memory_bytes(f.type, version) for f in own)


def _reader(kind: Type, version: int, flexible: bool, nullable: bool) -> Read:
    if isinstance(kind, Primitive):
        return kind.read(nullable, flexible)
    if isinstance(kind, Struct):
        read = struct_reader(kind.fields, version, flexible)
        return (lambda reader: None if reader.int8() < 0 else read(reader)) if nullable else read
    return _array_reader(kind, version, flexible, nullable)


def _writer(kind: Type, version: int, flexible: bool, nullable: bool) -> Write:
    if isinstance(kind, Primitive):
        return kind.write(nullable, flexible)
    if isinstance(kind, Struct):
        write = struct_writer(kind.fields, version, flexible)
        return _or_null(write) if nullable else write
    return _array_writer(kind, version, flexible, nullable)


def _or_null(write: Write) -> Write:
    """Writes a struct behind a byte 1, or null as the byte -1."""

    def write_nullable(writer: ByteWriter, value: Value) -> None:
        writer.int8(-1 if value is None else 1)
        if value is not None:
            write(writer, value)

    return write_nullable


def _array_reader(array: Array, version: int, flexible: bool, nullable: bool) -> Read:
    element = array.element
    width, memory = _width(element, version, flexible), _PLACE_BYTES + _memory_bytes(element, version)
    letter = element.layout if isinstance(element, Primitive) else ""
    read = _reader(element, version, flexible, nullable=False)
    read_rows = _rows_reader(element.fields, version, flexible) if isinstance(element, Struct) else None

    def read_array(reader: ByteReader) -> list[Value] | None:
        count = reader.array_length(compact=flexible, element_bytes=width, element_memory_bytes=memory)
        if count is None:
            if nullable:
                return None
            raise ProtocolError(f"null at byte {reader.pos} where an array must be")
        if letter:
            return list(reader.unpack(struct.Struct(f">{count}{letter}")))
        if read_rows is not None and (rows := read_rows(reader, count)) is not None:
            return rows
        return [read(reader) for _ in range(count)]

    return read_array


def _rows_reader(
    fields: Sequence[Field], version: int, flexible: bool
) -> Callable[[ByteReader, int], list[Body] | None] | None:
    """Reads structs of nothing but numbers all at once: ListOffsets answers with a row for each partition.

    None: these fields are not such. The reader gives None, and has read nothing, where a row has tagged fields.
    """
    runs = _runs(fields, version)
    layout = _layout(runs[0]) if len(runs) == 1 else None
    if layout is None:
        return None
    template, fresh = _template(fields, version)
    names = tuple(f.name for f in runs[0])
    row = struct.Struct(layout.format + "B" * flexible)  # the last byte: how many tagged fields

    def read_rows(reader: ByteReader, count: int) -> list[Body] | None:
        rows = reader.rows(row, count, zero_at_end=flexible)
        if rows is None:
            return None
        bodies = []
        for values in rows:
            body = template.copy()
            for name, default in fresh:
                body[name] = default()
            body.update(zip(names, values, strict=False))  # without the count of tags
            bodies.append(body)
        return bodies

    return read_rows


def _array_writer(array: Array, version: int, flexible: bool, nullable: bool) -> Write:
    element = array.element
    letter = element.layout if isinstance(element, Primitive) else ""
    write = _writer(element, version, flexible, nullable=False)
    write_rows = _rows_writer(element.fields, version, flexible) if isinstance(element, Struct) else None

    def write_array(writer: ByteWriter, values: Sequence[Value] | None) -> None:
        if values is None:
            if not nullable:
                raise ProtocolError("null where an array must be")
            writer.array_length(None, compact=flexible)
            return
        if not isinstance(values, list | tuple):
            raise ProtocolError(f"cannot write {brief(values)}: not an array")
        writer.array_length(len(values), compact=flexible)
        if letter:
            writer.pack(struct.Struct(f">{len(values)}{letter}"), *values)
            return
        if write_rows is not None and write_rows(writer, values):
            return
        for value in values:
            write(writer, value)

    return write_array


def _rows_writer(
    fields: Sequence[Field], version: int, flexible: bool
) -> Callable[[ByteWriter, Sequence[Value]], bool] | None:
    """Writes structs of nothing but numbers all at once: ListOffsets asks with a row for each partition, busy or idle.

    None: these fields are not such. The writer gives False, and has written nothing, where a row has more or fewer
    names or another type: to write one row after the other fills in defaults, and finds the words for what is wrong.
    """
    runs = _runs(fields, version)
    layout = _layout(runs[0]) if len(runs) == 1 else None
    if layout is None or len(runs[0]) == 1:
        return None
    names = tuple(f.name for f in runs[0])
    in_order = itemgetter(*names)
    row, no_tags = struct.Struct(layout.format + "B" * flexible), (0,) * flexible

    def write_rows(writer: ByteWriter, bodies: Sequence[Value]) -> bool:
        try:
            rows = [row.pack(*in_order(body), *no_tags) for body in bodies if len(body) == len(names)]
        except (KeyError, TypeError, struct.error):
            return False
        if len(rows) < len(bodies):
            return False
        writer.raw(b"".join(rows))
        return True

    return write_rows


def struct_reader(fields: Sequence[Field], version: int, flexible: bool, *, tags: bool = True) -> Read:
    """`tags`: the fields are all that the struct has, so that its tagged ones follow them where it is flexible."""
    steps: list[ReadInto] = []
    for run in _runs(fields, version):
        layout = _layout(run)
        if layout is not None and len(run) > 1:
            steps.append(_run_reader(layout, tuple(f.name for f in run)))
        else:
            f = run[0]
            steps.append(_field_reader(f.name, _reader(f.type, version, flexible, f.nullable_in(version))))
    if flexible and tags:
        steps.append(_tags_reader(fields, version))
    template, fresh = _template(fields, version)

    def read_struct(reader: ByteReader) -> Body:
        body = template.copy()
        for name, default in fresh:
            body[name] = default()
        for step in steps:
            step(reader, body)
        return body

    return read_struct


def _template(fields: Sequence[Field], version: int) -> tuple[Body, list[tuple[str, Callable[[], Value]]]]:
    """A body of defaults to copy, and functions for defaults that copies must not share."""
    template = {f.name: f.default_value() for f in fields}
    unread = [f for f in fields if f.tag is not None or not f.carried_by(version)]
    return template, [(f.name, _maker(f)) for f in unread if isinstance(template[f.name], list | dict)]


def _maker(f: Field) -> Callable[[], Value]:
    """A function that makes a field's mutable default, fast: a Fetch response is full of them."""
    value = f.default_value()
    nested = any(isinstance(each, list | dict) for each in (value.values() if isinstance(value, dict) else value))
    make: Callable[[], Value] = f.default_value if nested else value.copy
    return make


def _run_reader(layout: struct.Struct, names: tuple[str, ...]) -> ReadInto:
    def read_run(reader: ByteReader, body: Body) -> None:
        body.update(zip(names, reader.unpack(layout), strict=False))  # as many of one as of the other

    return read_run


def _field_reader(name: str, read: Read) -> ReadInto:
    def read_field(reader: ByteReader, body: Body) -> None:
        body[name] = read(reader)

    return read_field


def _tags_reader(fields: Sequence[Field], version: int) -> ReadInto:
    reads = {
        f.tag: (f.name, _reader(f.type, version, True, f.nullable_in(version)))
        for f in fields
        if f.tag is not None and f.carried_by(version)
    }

    if not reads:
        return lambda reader, body: reader.skip_tagged_fields()

    def read_tags(reader: ByteReader, body: Body) -> None:
        def known(tag: int) -> bool:
            if tag not in reads:
                return False
            name, read = reads[tag]
            body[name] = read(reader)
            return True

        reader.tagged_fields(known)

    return read_tags


def struct_writer(fields: Sequence[Field], version: int, flexible: bool) -> Write:
    steps: list[WriteFrom] = []
    for run in _runs(fields, version):
        layout = _layout(run)
        if layout is not None:
            steps.append(_run_writer(layout, [(f.name, f.default_value()) for f in run]))
        else:
            (f,) = run
            steps.append(_field_writer(f, _writer(f.type, version, flexible, f.nullable_in(version))))
    if flexible:
        steps.append(_tags_writer(fields, version))
    names = {f.name for f in fields}
    dropped = [f for f in fields if not f.carried_by(version) and not f.ignorable]

    def write_struct(writer: ByteWriter, body: Fields) -> None:
        if not isinstance(body, Mapping):
            raise ProtocolError(f"cannot write {brief(body)}: not a struct")
        if not body.keys() <= names:
            raise ProtocolError(f"no such field: {', '.join(sorted(body.keys() - names))}")
        for f in dropped:
            if f.name in body and not f.is_default(body[f.name]):
                raise ProtocolError(f"{f.name} = {brief(body[f.name])} cannot be said in this version")
        for step in steps:
            step(writer, body)

    return write_struct


def _run_writer(layout: struct.Struct, names: Sequence[tuple[str, Value]]) -> WriteFrom:
    def write_run(writer: ByteWriter, body: Fields) -> None:
        writer.pack(layout, *[body.get(name, default) for name, default in names])

    return write_run


def _field_writer(f: Field, write: Write) -> WriteFrom:
    name, default = f.name, f.default_value()

    def write_field(writer: ByteWriter, body: Fields) -> None:
        try:
            write(writer, body.get(name, default))
        except ProtocolError as error:
            raise ProtocolError(f"{name}: {error}") from None

    return write_field


def _tags_writer(fields: Sequence[Field], version: int) -> WriteFrom:
    tagged = sorted(
        ((f.tag, f, _writer(f.type, version, True, f.nullable_in(version)))
         for f in fields if f.tag is not None and f.carried_by(version)),
        key=lambda entry: entry[0],
    )  # fmt: skip
    if not tagged:
        return lambda writer, body: writer.unsigned_varint(0)

    def write_tags(writer: ByteWriter, body: Fields) -> None:
        present = [(tag, f, write) for tag, f, write in tagged if f.name in body and not f.is_default(body[f.name])]
        writer.unsigned_varint(len(present))
        for tag, f, write in present:
            value = ByteWriter()
            write(value, body[f.name])
            raw = value.getvalue()
            writer.unsigned_varint(tag)
            writer.unsigned_varint(len(raw))
            writer.raw(raw)

    return write_tags
