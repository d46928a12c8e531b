"""Finds which schema wrote each record of a column (`frames_of`), by the frames of these systems:

    Confluent          0x00, id (int32), record
    Apicurio           0x00, id (int64, its first four bytes are zero), record: 8 bytes where Confluent has 4
    single object      0xC3, 0x01, the schema's fingerprint (8 bytes, the lowest first), record: Avro's specification
    AWS Glue           0x03, then as `formats.glue` says
    a record's header  `__value_schema_id` or `__key_schema_id`: 0x01, UUID (16 bytes), or 0x00, id (int32); the
                       record's bytes have nothing in front

For a Protobuf schema, the message index follows the id (`protobuf.message_index`), in a header, too.

All other numbers are big-endian. A header goes before the bytes, as in Confluent's deserializers; of several headers
of the name the last counts. Registries give no id 0, so four zero bytes behind the first begin an id of eight bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.formats.decoding import kernel
from kafkasource.formats.decoding.decode import view_of
from kafkasource.formats.glue import GLUE_BYTES
from kafkasource.formats.protobuf.message_index import MessageIndex, message_index_of, place_of
from kafkasource.formats.schema_source import Fingerprint, SchemaId

Side: TypeAlias = Literal["key", "value"]
SIDES: tuple[Side, ...] = ("value", "key")

HEADER_NAMES: dict[Side, str] = {"key": "__key_schema_id", "value": "__value_schema_id"}
ID_BYTES = 5  # the first byte and Confluent's id
LONG_ID_BYTES = 9  # the first byte and Apicurio's id
FINGERPRINT_BYTES = 10  # the first two bytes and a fingerprint
MOST_FRAME_BYTES = max(LONG_ID_BYTES, FINGERPRINT_BYTES, GLUE_BYTES)
MOST_ID = (1 << 31) - 1
MOST_INDEX_BYTES = 64
MOST_KNOWN = 64  # frames that the kernel looks for in a column
_UUID_BYTES = 17
_GLUE = 0x03
_NOT_PLAIN = "the record is not compressed by zlib as its frame of AWS Glue says, or has more than 16 MiB"
_SINGLE_OBJECT = b"\xc3\x01"


@dataclass(frozen=True, slots=True)
class Frame:
    """The bytes in front of a record, or in its header, that name its schema."""

    schema_id: SchemaId | None = None
    size: int = 0  # bytes in front of the record
    message: MessageIndex | None = None  # of a Protobuf schema
    fault: str = ""  # why the record is bad; then there is no id


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a column: few different ones, and of each row the number of its own."""

    frames: Sequence[Frame]  # the first is that of null rows, which have none
    rows: pa.Int32Array

    @property
    def has_compressed(self) -> bool:
        """Whether records are compressed, which `glue.plain_parts` changes."""
        return any(frame.fault == _NOT_PLAIN for frame in self.frames)


def frame_of(start: bytes) -> Frame:
    """The frame of a record. `start`: its first MOST_FRAME_BYTES, or all there is."""
    if not start:
        return Frame(fault="the record is empty; a tombstone is null, not empty")
    if start[0] == _GLUE:
        return _glue_frame(start)
    if start[:2] == _SINGLE_OBJECT and len(start) >= FINGERPRINT_BYTES:
        return Frame(Fingerprint(start[2:FINGERPRINT_BYTES]), FINGERPRINT_BYTES)
    if start[0] != 0:
        return Frame(fault=f"the first byte is 0x{start[0]:02x}, not 0x00 as in front of a schema id")
    if len(start) < ID_BYTES:
        return Frame(fault=f"the record has {len(start)} bytes, fewer than a schema id needs ({ID_BYTES})")
    number, size = int.from_bytes(start[1:ID_BYTES], "big", signed=True), ID_BYTES
    if number == 0:
        if len(start) < LONG_ID_BYTES:
            return Frame(fault="the schema id is 0, which no registry gives")
        number, size = int.from_bytes(start[ID_BYTES:LONG_ID_BYTES], "big", signed=True), LONG_ID_BYTES
    if number <= 0:
        return Frame(fault=f"the schema id is {number}, which no registry gives")
    return Frame(number, size)


def _glue_frame(start: bytes) -> Frame:
    if len(start) < GLUE_BYTES:
        return Frame(fault=f"the record has {len(start)} bytes, fewer than the frame of AWS Glue ({GLUE_BYTES})")
    if start[1] == 5:  # `glue.plain_parts` has left it as it was
        return Frame(fault=_NOT_PLAIN)
    if start[1] != 0:
        return Frame(fault=f"the compression is 0x{start[1]:02x}, neither 0x00 nor 0x05 as in the frame of AWS Glue")
    return Frame(UUID(bytes=start[2:GLUE_BYTES]), GLUE_BYTES)


def frame_bytes(schema_id: int) -> bytes:
    """Confluent's frame of an id: in front of a record, or in its header."""
    return b"\0" + schema_id.to_bytes(4, "big")


def with_index(frame: Frame, start: bytes) -> Frame:
    """Add the message index behind the id. `start`: the record's first bytes, or a header's bytes from its index on."""
    if frame.schema_id is None:
        return frame
    found = (place_of if start[:1] == bytes([_GLUE]) else message_index_of)(start, frame.size)
    if found is None:
        return replace(frame, schema_id=None, fault="no message index of Protobuf follows the schema id")
    return replace(frame, message=found[0], size=found[1])


def frame_of_header(value: bytes | None, name: str, *, indexed: bool = False) -> Frame:
    """The frame that a record's header says. `name`: the header's, for errors; `indexed`: with a message index."""
    if indexed and value is not None:
        size = _UUID_BYTES if value[:1] == b"\1" else ID_BYTES
        return replace(with_index(frame_of_header(value[:size], name), value[size:]), size=0)
    if value is not None and len(value) == _UUID_BYTES and value[0] == 1:
        return Frame(UUID(bytes=value[1:]))
    if value is not None and len(value) == ID_BYTES and value[0] == 0:
        number = int.from_bytes(value[1:], "big", signed=True)
        return Frame(number) if number > 0 else Frame(fault=f"header {name}: no registry gives the schema id {number}")
    shown = "null" if value is None else f"0x{value[:_UUID_BYTES].hex()} ({len(value)} bytes)"
    return Frame(fault=f"header {name} is {shown}: neither 0x01 and a UUID, nor 0x00 and an id")


def frames_of(
    values: pa.BinaryArray, side: Side, headers: pa.ListArray | None = None, *, indexed: bool = False
) -> Frames:
    """`headers`: the rows' (`arrow.columns.HEADERS_TYPE`); None: they have none. `indexed`: with message indexes."""
    of_headers = _of_headers(headers, HEADER_NAMES[side])
    if len(of_headers) == len(values):  # what is in front are the records: each would look like a frame of its own
        frames, rows = [Frame()], values.is_valid().cast(pa.int32())
    else:
        frames, numbers = _in_front(values, indexed)
        rows = pa.Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(numbers)])
    if not of_headers:
        return Frames(frames, rows)
    places: dict[bytes | None, int] = {}
    changed = rows.to_pylist()
    for row, value in of_headers.items():
        if changed[row]:
            if value not in places:
                places[value] = len(frames)
                frames.append(frame_of_header(value, HEADER_NAMES[side], indexed=indexed))
            changed[row] = places[value]
    return Frames(frames, pa.array(changed, pa.int32()))


def _in_front(values: pa.BinaryArray, indexed: bool) -> tuple[list[Frame], memoryview]:
    """(frames, of each row the number).

    The kernel knows the frames that came before, by their bytes; a row that begins with none of them is parsed here. No
    frame begins with another, as each says itself how long it is.
    """
    valid, offsets, data = map(view_of, values.buffers())
    places = offsets.cast("i") if len(offsets) else memoryview(bytes(4)).cast("i")
    numbers = memoryview(bytearray(4 * len(values))).cast("i")
    known: list[Frame] = []
    starts, ends = bytearray(), array("i")
    others: dict[Frame, int] = {}  # with a fault, whose bytes say nothing of other rows; or too many to be known
    of_others: list[tuple[int, int]] = []  # (row, number among the others)
    row = 0
    while True:
        seen = memoryview(bytes(starts)), memoryview(bytes(ends)).cast("i")
        row = kernel.match_frames(data, places, valid, values.offset, *seen, numbers, row, len(values))
        if row == len(values):
            break
        begin, end = places[row + values.offset : row + values.offset + 2]
        start = bytes(data[begin : min(end, begin + MOST_FRAME_BYTES + MOST_INDEX_BYTES)])
        frame = frame_of(start[:MOST_FRAME_BYTES])
        if indexed:
            frame = with_index(frame, start)
        if frame.schema_id is None or len(known) == MOST_KNOWN:
            of_others.append((row, others.setdefault(frame, len(others))))
            row += 1
        else:
            known.append(frame)
            starts += start[: frame.size]
            ends.append(len(starts))
    for row, number in of_others:
        numbers[row] = 1 + len(known) + number
    return [Frame(), *known, *others], numbers


def rows_with_header(headers: pa.ListArray | None, side: Side) -> Container[int]:
    """The rows whose header names the schema: in front of these records there is nothing."""
    return _of_headers(headers, HEADER_NAMES[side]).keys()


def _of_headers(headers: pa.ListArray | None, name: str) -> dict[int, bytes | None]:
    """The values of the header of this name, by row."""
    if headers is None or headers.null_count == len(headers):
        return {}
    entries = headers.flatten()
    ours = pc.equal(entries.field("key"), name).fill_null(False)
    if not pc.any(ours).as_py():
        return {}
    rows = pc.list_parent_indices(headers).filter(ours).to_pylist()
    return dict(zip(rows, entries.field("value").filter(ours).to_pylist(), strict=True))
