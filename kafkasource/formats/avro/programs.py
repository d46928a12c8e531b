"""Compiles (writer, reader) pairs into the kernel's programs (`kafkasource.formats.decoding.opcodes`).

A program reads the writer's bytes in the writer's order. A type that is used twice is there twice, and the number of
words is bounded, because schemas can stand for more than their text shows (as can a default of lists). A record within
itself goes as deep as the reader does; what is beyond is skipped by a routine, which calls itself.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from kafkasource.errors import SchemaError
from kafkasource.formats.avro.columns import AvroLayout, AvroNode
from kafkasource.formats.avro.resolution import branch_for, factor_between, least_bytes, matched_fields, reads
from kafkasource.formats.avro.schema import (
    Again,
    AvroArray,
    AvroEnum,
    AvroPrimitive,
    AvroRecord,
    Branch,
    Fixed,
    Map,
    Schema,
    Union,
    Value,
    describe,
    is_null,
    records_of,
)
from kafkasource.formats.bounds import Steps
from kafkasource.formats.decoding import kernel
from kafkasource.formats.decoding import opcodes as op
from kafkasource.formats.floats import single
from kafkasource.formats.words import MOST_WORDS, Words, int32

MOST_CALLS = 1_000  # within each other
_FORMATS = {"int": "=i", "long": "=q", "float": "=f", "double": "=d"}
_SKIPS = {"null": 0, "boolean": 1, "float": 4, "double": 8}


class Unreadable(SchemaError):
    """The reader's type takes no value of the writer's."""


class Programs(Words):
    """Programs of one reader, one after the other in `code`; where each begins is in `entries`."""

    def __init__(self, layout: AvroLayout) -> None:
        super().__init__()
        self.layout = layout
        self.entries = array("i")
        self.depth = 0  # frames that a program needs without its calls
        self._call_frames = 0  # that a call needs, with the frame for its return
        self._calls: list[tuple[int, str, str]] = []  # CALLs of routines that are not there yet: record, place
        self._records: Mapping[str, AvroRecord] = {}  # of the writer
        self._frames = 0
        self._skip_at = -1  # the SKIP that is last in the code and may become longer
        self._emitted = 0
        self._steps = Steps()
        self._image: tuple[memoryview, memoryview, memoryview, int] | None = None

    def add(self, writer: Schema, records: Mapping[str, AvroRecord] | None = None) -> int:
        """Compile a writer's program; its number. SchemaError where the reader cannot read it.

        `records`: what `Again` stands for, where the writer's own records do not say it.
        """
        before = self._mark()
        start = len(self.code)
        self._emitted = 0
        self._steps = Steps()
        self._records = records_of(writer) if records is None else records
        try:
            root = self.layout.root
            if root.column == 0 and not root.branches and self.layout.columns[0].nullable:
                self._emit(op.VALID, 0)
            self._read(writer, root, "$")
            self._emit(op.END)
            self._add_routines()
        except SchemaError:
            self._back_to(before)
            raise
        self.entries.append(start)
        self._image = None
        return len(self.entries) - 1

    def decoding(self, columns: Sequence[tuple[int, int, int, int]]) -> kernel.Decoding:
        """Make a decoding of the programs that exist now."""
        if self._image is None:
            depth = self.depth + MOST_CALLS * self._call_frames
            self._image = int32(self.code), int32(self.entries), self.constants, depth
        return kernel.Decoding(*self._image, columns)

    def _mark(self) -> tuple[int, int, int]:
        return len(self.code), len(self._places), self._frames

    def _back_to(self, mark: tuple[int, int, int]) -> None:
        del self.code[mark[0] :]
        del self._places[mark[1] :]
        self._calls = [call for call in self._calls if call[0] < mark[0]]
        self._frames = mark[2]
        self._skip_at = -1

    def _emit(self, *words: int) -> int:
        """Append an instruction; its pc."""
        self._emitted += len(words)
        if self._emitted > MOST_WORDS:
            raise SchemaError(f"{self.place_of(self.pc)}: the schemas are too large to compile")
        pc = len(self.code)
        self.code.extend(words)
        self._skip_at = -1
        return pc

    def _here(self) -> int:
        """The pc of the next instruction, which something jumps to."""
        self._skip_at = -1
        return len(self.code)

    # Values of the writer into the reader's columns.

    def _read(self, writer: Schema, node: AvroNode, place: str) -> None:
        """A value into a node: with its branch, and whether it is null."""
        self.at(place)
        writer = self._meant(writer)
        if isinstance(writer, Union):
            self._read_union(writer, node, place)
        elif node.branches:
            assert isinstance(node.schema, Union)
            self._steps.take(len(node.schema.branches), place)
            index = branch_for(writer, node.schema)
            if index is None:
                raise _unreadable(writer, node.schema, place)
            self._choose(node, index)
            branch = node.branches[index]
            if branch is not None:
                self._value(writer, branch, place)
        else:
            self._value(writer, node, place)

    def _read_union(self, writer: Union, node: AvroNode, place: str) -> None:
        if len(writer.branches) == 2 and self._is_optional(node) and sum(map(is_null, writer.branches)) == 1:
            null = 0 if is_null(writer.branches[0]) else 1
            other = self._meant(writer.branches[1 - null])
            assert isinstance(node.schema, Union)
            self._steps.take(len(node.schema.branches), place)
            index = branch_for(other, node.schema)
            branch = node.branches[index] if index is not None else None
            if branch is not None and not is_null(other):
                before = self._mark()
                try:
                    optional = self._emit(op.OPTIONAL, node.column, null, 0)
                    self._value(other, branch, place)
                    self.code[optional + 3] = self._here()
                    return
                except Unreadable:  # but null can be read
                    self._back_to(before)
        self._switch(writer, lambda branch: self._read(branch, node, place), place)

    def _is_optional(self, node: AvroNode) -> bool:
        return bool(node.branches) and None in node.branches and not node.members and len(node.branches) > 1

    def _switch(self, writer: Union, each: Callable[[Schema], None], place: str) -> None:
        """Code for each branch; one that the reader cannot read is the record's fault, unless none can be."""
        count = len(writer.branches)
        switch = self._emit(op.SWITCH, count, *[0] * count)
        ends: list[int] = []
        unreadable: list[Unreadable] = []
        for index, branch in enumerate(writer.branches):
            self.code[switch + 2 + index] = self._here()
            before = self._mark()
            try:
                each(branch)
            except Unreadable as error:
                self._back_to(before)
                unreadable.append(error)
                self.at(f"{place}({index})")
                self._emit(op.FAIL, op.UNREADABLE_BRANCH)
            else:
                ends.append(self._emit(op.JUMP, 0))
        if len(unreadable) == count:
            raise unreadable[0]
        for jump in ends:
            self.code[jump + 1] = self._here()

    def _choose(self, node: AvroNode, index: int) -> None:
        """A union's value is of this branch of the reader's."""
        column = self.layout.columns[node.column]
        branch = node.branches[index]
        if branch is None:
            self._emit(op.NULLS, node.column, column.last)
            return
        if column.nullable:
            self._emit(op.VALID, node.column)
        if node.members:
            member = self.layout.columns[branch.column]
            if branch.column > node.column + 1:
                self._emit(op.NULLS, node.column + 1, branch.column)
            if member.last < column.last:
                self._emit(op.NULLS, member.last, column.last)
            if member.nullable:
                self._emit(op.VALID, branch.column)

    def _meant(self, schema: Schema) -> Schema:
        return self._records[schema.name] if isinstance(schema, Again) else schema

    def _value(self, writer: Schema, node: AvroNode, place: str) -> None:
        """A value that is there, of no union on either side."""
        reader = node.schema
        if not reads(writer, reader):
            raise _unreadable(writer, reader, place)
        if isinstance(writer, AvroRecord):
            self._record(writer, node, place)
        elif isinstance(writer, AvroArray):
            self._list(node, least_bytes(writer.items), lambda: self._read(writer.items, node.parts[0], f"{place}[]"))
        elif isinstance(writer, Map):
            self._list(node, 1 + least_bytes(writer.values), lambda: self._pair(writer, node, place))
        elif isinstance(writer, AvroEnum) and isinstance(reader, AvroEnum):
            self._enum(writer, reader, node.column)
        elif isinstance(writer, Fixed):
            self._fixed(writer, node, place)
        elif isinstance(writer, AvroPrimitive) and isinstance(reader, AvroPrimitive):
            self._primitive(writer, reader, node, place)

    def _record(self, writer: AvroRecord, node: AvroNode, place: str) -> None:
        reader = node.schema
        assert isinstance(reader, AvroRecord)
        taken = matched_fields(writer, reader)
        for field in writer.fields:
            if field.name in taken:
                index = taken[field.name]
                self._read(field.schema, node.parts[index], f"{place}.{reader.fields[index].name}")
            else:
                self.at(f"{place}.{field.name}")
                self._skip(field.schema, f"{place}.{field.name}")
        there = set(taken.values())
        for index, field in enumerate(reader.fields):
            if index in there:
                continue
            here = f"{place}.{field.name}"
            if field.default is None:
                raise Unreadable(
                    f"{here}: the writer's {writer.name} has no such field, and the reader's has no default. Give the "
                    "reader's field a default"
                )
            self.at(here)
            self._default(field.default.value, node.parts[index], here)

    def _list(self, node: AvroNode, least: int, item: Callable[[], None]) -> None:
        self._emit(op.LIST, node.column)
        block = self._emit(op.BLOCK, node.column, least, 0)
        self._frames += 1
        self.depth = max(self.depth, self._frames)
        self._here()
        item()
        self._frames -= 1
        self._emit(op.NEXT, block)
        self.code[block + 3] = self._here()

    def _pair(self, writer: Map, node: AvroNode, place: str) -> None:
        self.at(f"{place}{{}}")
        self._emit(op.STRING, node.parts[0].column)
        self._read(writer.values, node.parts[1], f"{place}{{}}")

    def _enum(self, writer: AvroEnum, reader: AvroEnum, column: int) -> None:
        words: list[int] = []
        for symbol in writer.symbols:
            read = symbol if symbol in reader.symbols else reader.default
            data = b"" if read is None else read.encode()
            words += [self.constant(data), len(data) if read is not None else -1]
        self._emit(op.ENUM, column, len(writer.symbols), *words)

    def _fixed(self, writer: Fixed, node: AvroNode, place: str) -> None:
        limit = self._decimal_limit(writer, node, place)
        if limit is None:
            self._emit(op.FIXED, node.column, writer.size)
        else:
            self._emit(op.DECIMAL_FIXED, node.column, limit, writer.size)

    def _primitive(self, writer: AvroPrimitive, reader: AvroPrimitive, node: AvroNode, place: str) -> None:
        stored = _stored(node)
        if stored in ("bytes", "string"):
            limit = self._decimal_limit(writer, node, place)
            if limit is not None:
                self._emit(op.DECIMAL, node.column, limit)
            else:
                self._emit(op.STRING if stored == "string" else op.BYTES, node.column)
        elif stored == "long":
            self._long(writer, reader, node)
        elif stored != "null":
            opcode = {
                ("boolean", "boolean"): op.BOOLEAN,
                ("int", "int"): op.INT32,
                ("float", "float"): op.COPY4,
                ("float", "double"): op.FLOAT_TO_DOUBLE,
                ("double", "double"): op.COPY8,
            }.get((writer.kind, stored), op.TO_FLOAT if stored == "float" else op.TO_DOUBLE)
            self._emit(opcode, node.column)

    def _long(self, writer: AvroPrimitive, reader: AvroPrimitive, node: AvroNode) -> None:
        column = node.column
        times, divided_by = factor_between(writer, reader, as_number=not pa.types.is_timestamp(node.type))
        if times != 1:
            self._emit(op.MULTIPLY, column, times)
        elif divided_by != 1:
            self._emit(op.DIVIDE, column, divided_by)
        else:
            self._emit(op.INT64 if writer.kind == "int" else op.LONG, column)

    def _decimal_limit(self, writer: AvroPrimitive | Fixed, node: AvroNode, place: str) -> int | None:
        """Return where the constant is that a decimal's size stays below; None: the column is not a decimal."""
        reader = node.schema
        assert isinstance(reader, (AvroPrimitive, Fixed))
        if reader.logical is None or not reader.logical.precision:
            return None
        theirs = writer.logical
        if theirs is not None and theirs.precision and theirs.scale != reader.logical.scale:
            raise _unreadable(writer, reader, place)  # the same digits would be another number
        return self.constant((10**reader.logical.precision).to_bytes(16, "little"))

    # Values that the reader has no field for.

    def _skip(self, writer: Schema, place: str) -> None:
        if isinstance(writer, Again):
            self._calls.append((self._emit(op.CALL, 0, 0), writer.name, place))
        elif isinstance(writer, AvroRecord):
            for field in writer.fields:
                self._skip(field.schema, place)
        elif isinstance(writer, Union):
            self._switch(writer, lambda branch: self._skip(branch, place), place)
        elif isinstance(writer, AvroArray):
            self._skip_list(least_bytes(writer.items), lambda: self._skip(writer.items, place))
        elif isinstance(writer, Map):
            self._skip_list(1 + least_bytes(writer.values), lambda: self._skip_pair(writer, place))
        elif isinstance(writer, Fixed):
            self._skip_bytes(writer.size)
        elif isinstance(writer, AvroPrimitive) and writer.kind in _SKIPS:
            self._skip_bytes(_SKIPS[writer.kind])
        elif isinstance(writer, AvroPrimitive) and writer.kind in ("bytes", "string"):
            self._emit(op.SKIP_SIZED)
        else:
            self._emit(op.SKIP_VARINT)

    def _add_routines(self) -> None:
        """Append the programs that this program calls, near or far."""
        routines: dict[str, tuple[int, int]] = {}
        for call, name, place in self._calls:  # grows meanwhile
            if name not in routines:
                routines[name] = self._routine(name, place)
            self.code[call + 1 : call + 3] = array("i", routines[name])
        self._calls = []

    def _routine(self, name: str, place: str) -> tuple[int, int]:
        """(the pc of code that skips a record, the frames that a call of it needs)."""
        self.at(place)
        pc, outside, self.depth = self._here(), self.depth, 0
        try:
            self._skip(self._records[name], place)
            self._emit(op.RETURN)
            frames = 1 + self.depth
        finally:
            self.depth = outside
        self._call_frames = max(self._call_frames, frames)
        return pc, frames

    def _skip_pair(self, writer: Map, place: str) -> None:
        self._emit(op.SKIP_SIZED)
        self._skip(writer.values, place)

    def _skip_bytes(self, size: int) -> None:
        if size == 0:
            return
        if self._skip_at >= 0 and self.code[self._skip_at + 1] + size < 1 << 31:
            self.code[self._skip_at + 1] += size
        else:
            self._skip_at = self._emit(op.SKIP, size)

    def _skip_list(self, least: int, item: Callable[[], None]) -> None:
        self._emit(op.SKIP_LIST)
        block = self._emit(op.SKIP_BLOCK, least, 0)
        if least:
            self._frames += 1
            self.depth = max(self.depth, self._frames)
            self._here()
            item()
            self._frames -= 1
            self._emit(op.SKIP_NEXT, block)
        self.depth = max(self.depth, self._frames + 1)
        self.code[block + 2] = self._here()

    # Values that the writer has no field for.

    def _default(self, value: Value, node: AvroNode, place: str) -> None:
        if isinstance(value, Branch):
            self._choose(node, value.index)
            branch = node.branches[value.index]
            if branch is not None:
                self._default(value.value, branch, place)
        elif isinstance(value, tuple):
            self._default_of_many(value, node, place)
        elif isinstance(value, bool):
            self._emit(op.CONST, node.column, self.constant(bytes([value])))
        elif isinstance(value, (int, float)):
            self._emit(op.CONST, node.column, self.constant(_number(value, node, place)))
        elif isinstance(value, (str, bytes)):
            self._default_text(value.encode() if isinstance(value, str) else value, node, place)

    def _default_of_many(self, value: tuple[Value, ...], node: AvroNode, place: str) -> None:
        if isinstance(node.schema, AvroRecord):
            for each, part in zip(value, node.parts, strict=True):
                self._default(each, part, place)
            return
        self._emit(op.ITEMS, node.column, len(value))
        self._frames += 1
        self.depth = max(self.depth, self._frames)
        for each in value:
            pair = each if isinstance(node.schema, Map) else (each,)
            assert isinstance(pair, tuple)
            for item, part in zip(pair, node.parts, strict=True):
                self._default(item, part, place)
            self._emit(op.STEP)
        self._frames -= 1
        self._emit(op.ITEMS_END, node.column)

    def _default_text(self, data: bytes, node: AvroNode, place: str) -> None:
        reader = node.schema
        if isinstance(reader, (AvroPrimitive, Fixed)) and reader.logical is not None and reader.logical.precision:
            number = int.from_bytes(data, "big", signed=True)
            if not data or abs(number) >= 10**reader.logical.precision:
                raise Unreadable(f"{place}: the default is not a value of {describe(reader)}")
            low, high = number & ((1 << 64) - 1), number >> 64
            native = struct.pack("<Qq", low, high) if _little() else struct.pack(">qQ", high, low)
            self._emit(op.CONST, node.column, self.constant(native))
        else:
            self._emit(op.CONST_BYTES, node.column, self.constant(data), len(data))


def _stored(node: AvroNode) -> str:
    """The primitive that a node's column holds: of [int, long] a long, whichever branch it is."""
    width = {"int32": "int", "date32[day]": "int", "float": "float", "double": "double"}.get(str(node.type))
    if width is not None:
        return width
    assert isinstance(node.schema, AvroPrimitive)
    return "long" if node.schema.kind == "int" else node.schema.kind


def _number(value: int | float, node: AvroNode, place: str) -> bytes:
    stored = _stored(node)
    if stored == "long":
        assert isinstance(node.schema, AvroPrimitive)
        times, _ = factor_between(node.schema, node.schema, as_number=not pa.types.is_timestamp(node.type))
        value = int(value) * times
    elif stored == "float":
        value = single(value)
    try:
        return struct.pack(_FORMATS[stored], value)
    except struct.error:
        raise Unreadable(f"{place}: the default is beyond what microseconds can hold") from None


def _little() -> bool:
    return struct.pack("=h", 1) == struct.pack("<h", 1)


def _unreadable(writer: Schema, reader: Schema, place: str) -> Unreadable:
    return Unreadable(
        f"{place}: the writer's {describe(writer)[:200]} cannot be read as the reader's {describe(reader)[:200]}"
    )
