"""Reads records with Google's protobuf, in the shape of our columns' values; makes random schemas and records."""

from __future__ import annotations

import base64
import math
import random
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from kafkasource.formats.protobuf.decode import ProtobufDecoder
from kafkasource.formats.protobuf.schema import read_schema

F = descriptor_pb2.FieldDescriptorProto
SCALARS = [
    *(F.TYPE_DOUBLE, F.TYPE_FLOAT, F.TYPE_INT64, F.TYPE_UINT64, F.TYPE_INT32, F.TYPE_FIXED64, F.TYPE_FIXED32),
    *(F.TYPE_BOOL, F.TYPE_STRING, F.TYPE_BYTES, F.TYPE_UINT32, F.TYPE_SFIXED32, F.TYPE_SFIXED64, F.TYPE_SINT32),
    F.TYPE_SINT64,
]
KEYS = [each for each in SCALARS if each not in (F.TYPE_DOUBLE, F.TYPE_FLOAT, F.TYPE_BYTES)]
UNPACKABLE = (F.TYPE_STRING, F.TYPE_BYTES, F.TYPE_MESSAGE, F.TYPE_GROUP)
UNSIGNED = {F.TYPE_UINT32: 32, F.TYPE_FIXED32: 32, F.TYPE_UINT64: 64, F.TYPE_FIXED64: 64}
MOST_SECONDS = (1 << 63) // 1_000_000 - 1  # whose microseconds are an int64
MOST_MESSAGES = 4
WELL_KNOWN = (timestamp_pb2, duration_pb2, wrappers_pb2)
TIMES = ("google.protobuf.Timestamp", "google.protobuf.Duration")


class Schema:
    """A random file: message M0 has the others within it, none has itself."""

    def __init__(self, rng: random.Random, *, maps: bool = True) -> None:
        self._rng = rng
        self._maps = maps
        self.is_proto3 = rng.random() < 0.6
        self.file = descriptor_pb2.FileDescriptorProto(name="f.proto", package="p")
        self.file.syntax = "proto3" if self.is_proto3 else "proto2"
        self.file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/duration.proto"])
        enum = self.file.enum_type.add(name="E")
        numbers = [0, *rng.sample((1, 2, 3, 7, -1, 100, -(1 << 31), (1 << 31) - 1), rng.randrange(5))]
        for number in numbers:
            enum.value.add(name=f"V{number}".replace("-", "_"), number=number)
        for index in range(MOST_MESSAGES):
            self._message(index)
        pool = descriptor_pool.DescriptorPool()
        for module in WELL_KNOWN[:2]:
            pool.Add(file_of(module))
        pool.Add(self.file)
        self.descriptor = pool.FindMessageTypeByName("p.M0")
        self.type = message_factory.GetMessageClass(self.descriptor)

    @property
    def text(self) -> str:
        """Return the file as a registry may give it: base64."""
        return base64.b64encode(self.file.SerializeToString()).decode()

    def decoder(self) -> ProtobufDecoder:
        schema = read_schema(self.text)
        return ProtobufDecoder(schema, schema.message_named("p.M0"))

    def _message(self, index: int) -> None:
        message = self.file.message_type.add(name=f"M{index}")
        numbers = self._rng.sample([*range(1, 30), 500, 18999, 20000, (1 << 29) - 1], 8)
        for at in range(self._rng.randrange(1, 8)):
            self._field(message, index, f"f{at}", numbers[at])
        self._oneofs_last(message)

    def _field(self, message: Any, index: int, name: str, number: int) -> None:
        rng = self._rng
        field = message.field.add(name=name, number=number, label=F.LABEL_OPTIONAL)
        what = rng.random()
        if what < 0.12 and self._maps:
            self._map(message, field, index)
            return
        self._type(field, index)
        if not self.is_proto3 and rng.random() < 0.1:
            nested = message.nested_type.add(name=name.upper())
            field.name = name.upper().lower()
            nested.field.add(name="a", number=1, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)
            nested.field.add(name="b", number=2, type=F.TYPE_STRING, label=F.LABEL_REPEATED)
            field.type, field.type_name = F.TYPE_GROUP, f".p.{message.name}.{name.upper()}"
        if rng.random() < 0.3:
            field.label = F.LABEL_REPEATED
            if field.type not in UNPACKABLE and rng.random() < 0.5:
                field.options.packed = rng.random() < 0.5
        elif rng.random() < 0.2:
            if not message.oneof_decl:
                message.oneof_decl.add(name="one")
            field.oneof_index = 0
        elif self.is_proto3 and rng.random() < 0.3:
            field.proto3_optional = True
        elif not self.is_proto3 and rng.random() < 0.1:
            field.label = F.LABEL_REQUIRED
        elif not self.is_proto3 and rng.random() < 0.3 and field.type in DEFAULTS:
            field.default_value = DEFAULTS[field.type]

    def _oneofs_last(self, message: Any) -> None:
        """An `optional` of proto3 is a oneof of its own, and those stand behind the others."""
        for field in message.field:
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def _type(self, field: Any, index: int) -> None:
        what = self._rng.random()
        if what < 0.12:
            field.type, field.type_name = F.TYPE_ENUM, ".p.E"
        elif what < 0.4 and index + 1 < MOST_MESSAGES:
            below = self._rng.randrange(index + 1, MOST_MESSAGES)
            field.type, field.type_name = F.TYPE_MESSAGE, f".p.M{below}"
        elif what < 0.5:
            field.type = F.TYPE_MESSAGE
            field.type_name = "." + self._rng.choice(TIMES)
        else:
            field.type = self._rng.choice(SCALARS)

    def _map(self, message: Any, field: Any, index: int) -> None:
        entry = message.nested_type.add(name=f"{field.name.upper()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=F.LABEL_OPTIONAL, type=self._rng.choice(KEYS))
        self._type(entry.field.add(name="value", number=2, label=F.LABEL_OPTIONAL), index)
        field.label, field.type = F.LABEL_REPEATED, F.TYPE_MESSAGE
        field.type_name = f".p.{message.name}.{entry.name}"


DEFAULTS = {
    F.TYPE_INT64: "-77", F.TYPE_UINT32: "4000000000", F.TYPE_DOUBLE: "1.5", F.TYPE_BOOL: "true", F.TYPE_STRING: "täxt",
    F.TYPE_ENUM: "V0", F.TYPE_FLOAT: "-0.25", F.TYPE_SINT32: "-5", F.TYPE_FIXED64: "9",
}  # fmt: skip


def file_of(module: Any) -> Any:
    return descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def fill(rng: random.Random, message: Message) -> Message:
    """Some fields with random values."""
    descriptor = message.DESCRIPTOR
    if descriptor.full_name in TIMES:
        message.seconds = rng.randrange(-1_000_000, 2_000_000_000)
        message.nanos = rng.choice((0, 1, 999, 1000, 999_999_999, rng.randrange(10**9)))
        return message
    for field in descriptor.fields:
        if _is(field, "required") or rng.random() < 0.75:
            _fill_field(rng, message, field)
    return message


def _fill_field(rng: random.Random, message: Message, field: FieldDescriptor) -> None:
    value = getattr(message, field.name)
    if _is_map(field):
        of_key, of_value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        for _ in range(rng.randrange(3)):
            key = _scalar(rng, of_key)
            if of_value.message_type is not None:
                fill(rng, value[key])
            else:
                value[key] = _scalar(rng, of_value)
    elif field.message_type is not None and _is(field, "repeated"):
        for _ in range(rng.randrange(4)):
            fill(rng, value.add())
    elif field.message_type is not None:
        value.SetInParent()
        fill(rng, value)
    elif _is(field, "repeated"):
        value.extend(_scalar(rng, field) for _ in range(rng.randrange(5)))
    else:
        setattr(message, field.name, _scalar(rng, field))


def _scalar(rng: random.Random, field: FieldDescriptor) -> Any:
    if field.type == F.TYPE_STRING:
        return "".join(rng.choice("aé漢😀 ") for _ in range(rng.randrange(12)))
    if field.type == F.TYPE_BYTES:
        return rng.randbytes(rng.randrange(20))
    if field.type == F.TYPE_BOOL:
        return rng.random() < 0.5
    if field.type in (F.TYPE_DOUBLE, F.TYPE_FLOAT):
        return rng.choice((0.0, -0.0, 1.5, math.inf, -(2.0**-20), float(rng.randrange(1000))))
    if field.type == F.TYPE_ENUM:
        if field.enum_type.is_closed or rng.random() < 0.8:
            return rng.choice(field.enum_type.values).number
        return rng.choice((5, -2, 77))
    bits = 32 if field.cpp_type in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32) else 64
    number = rng.randrange(1 << bits) >> rng.randrange(bits)
    return number if field.type in UNSIGNED else number - (1 << bits if number >> (bits - 1) else 0)


def _is(field: FieldDescriptor, label: str) -> bool:
    """`required` or `repeated`. protobuf 6.31 gave the two attributes of their own, and 4 has the label alone."""
    if hasattr(field, f"is_{label}"):
        return getattr(field, f"is_{label}")
    return field.label == getattr(FieldDescriptor, f"LABEL_{label.upper()}")


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def row_of(message: Message) -> dict[str, Any]:
    """Show a message as Spark's `from_protobuf` does."""
    return {field.name: _column(message, field) for field in message.DESCRIPTOR.fields}


def _column(message: Message, field: FieldDescriptor) -> Any:
    value = getattr(message, field.name)
    if _is_map(field):
        of = field.message_type.fields_by_name["value"]
        of_key = field.message_type.fields_by_name["key"]
        return {_shown(of_key, key): _shown(of, each) for key, each in value.items()}
    if _is(field, "repeated"):
        return [_shown(field, item) for item in value]
    if field.has_presence:
        if not message.HasField(field.name) and not (field.message_type is None and field.has_default_value):
            return None
    elif not value and math.copysign(1, value if isinstance(value, float) else 1) > 0:
        return None
    return _shown(field, value)


def _shown(field: FieldDescriptor, value: Any) -> Any:
    if field.type == F.TYPE_ENUM:
        named = field.enum_type.values_by_number.get(value)
        return named.name if named is not None else f"UNKNOWN_ENUM_VALUE_{field.enum_type.name}_{value}"
    if field.message_type is not None:
        if field.message_type.full_name in TIMES:
            if abs(value.seconds) > MOST_SECONDS:
                raise OverflowError
            return value.seconds * 1_000_000 + abs(value.nanos) // 1000 * (-1 if value.nanos < 0 else 1)
        return row_of(value)
    if field.type in UNSIGNED:
        bits = UNSIGNED[field.type]
        return value - (1 << bits) if value >> (bits - 1) else value
    return value


def plain(array: pa.Array) -> list[Any]:
    """Our rows; times as microseconds, a map as a dict, in which the last of equal keys counts."""
    array.validate(full=True)
    numbers = array.cast(_without_times(array.type))
    return plain_values(numbers.type, numbers.to_pylist())


def plain_values(kind: pa.DataType, values: list[Any]) -> list[Any]:
    return [_plain(kind, value) for value in values]


def canonical(value: Any) -> Any:
    """The value with the entries of its dicts in one order."""
    if isinstance(value, dict):
        return dict(sorted(((key, canonical(each)) for key, each in value.items()), key=lambda entry: repr(entry[0])))
    return [canonical(item) for item in value] if isinstance(value, list) else value


def _without_times(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_without_times(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_times(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_times(field.type)) for field in kind])
    return pa.int64() if pa.types.is_temporal(kind) else kind


def _plain(kind: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: _plain(kind.item_type, each) for key, each in value}
    if pa.types.is_list(kind):
        return [_plain(kind.value_type, item) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _plain(field.type, value[field.name]) for field in kind}
    return value


def theirs(schema: Schema, data: bytes) -> dict[str, Any] | None:
    """None: the record is not a message of the schema."""
    try:
        message = schema.type.FromString(data)
    except DecodeError:
        return None
    try:
        return row_of(message) if message.IsInitialized() else None
    except OverflowError:
        return None


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def with_short_numbers(kind: Any, data: bytes) -> bytes:
    """The record with the numbers of its fields and the lengths in no more bytes than they need; `kind`: the message's
    descriptor. Google's Python refuses those of more than five bytes, which Java's classes, and we, take.

    What is wrong with the record otherwise stays wrong: from where it cannot be read, its bytes are as they were.
    """
    out, at = bytearray(), 0
    while at < len(data):
        try:
            field, end = _short_field(kind, data, at)
        except IndexError:
            return bytes(out) + data[at:]
        out += field
        at = end
    return bytes(out)


def _short_field(kind: Any, data: bytes, at: int) -> tuple[bytes, int]:
    """One field, and where the next begins. A group's begin and end are fields of their own. Raises IndexError."""
    tag, at = _varint_at(data, at)
    number, wire_type = tag >> 3, tag & 7
    end = at
    if wire_type == 0:
        end = _varint_at(data, at)[1]
    elif wire_type in (1, 5):
        end = at + (8 if wire_type == 1 else 4)
    elif wire_type == 2:
        length, at = _varint_at(data, at)
        end = at + length
    if end > len(data):
        raise IndexError("the bytes end within the field")
    value = data[at:end]
    if wire_type != 2:
        return varint(tag) + value, end
    field = kind.fields_by_number.get(number)
    if field is not None and field.message_type is not None:
        value = with_short_numbers(field.message_type, value)
    return varint(tag) + varint(len(value)) + value, end


def _varint_at(data: bytes, at: int) -> tuple[int, int]:
    """Read a varint of 32 bits: (number, where the next byte is). Raises IndexError."""
    number = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & 0xFFFFFFFF, at
    raise IndexError("a varint of more than ten bytes")
