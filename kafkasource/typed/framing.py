"""Where a record says which schema wrote it: `frames_of` finds that of each row of a column.

    Confluent          0x00, id (int32), record
    Apicurio           0x00, id (int64, its first four bytes are zero), record: 8 bytes where Confluent has 4
    a record's header  `__value_schema_id` or `__key_schema_id`: 0x01, UUID (16 bytes), or 0x00, id (int32); the
                       record's bytes have nothing in front

Of a Protobuf schema, the message index stands behind the id (`protobuf.message_index`), in a header, too.

All numbers are big-endian. A header goes before the bytes, as in Confluent's deserializers; of several headers of the
name the last counts. Registries give no id 0, so four zero bytes behind the first begin an id of eight bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from kafkasource.typed.protobuf.message_index import MessageIndex, may_begin, message_index_of

Side: TypeAlias = Literal["key", "value"]

HEADER_NAMES: dict[Side, str] = {"key": "__key_schema_id", "value": "__value_schema_id"}
ID_BYTES = 5  # the first byte and Confluent's id
LONG_ID_BYTES = 9  # the first byte and Apicurio's id
MOST_ID = (1 << 31) - 1
_LONG = bytes(ID_BYTES)
MOST_INDEX_BYTES = 64
_UUID_BYTES = 17


@dataclass(frozen=True, slots=True)
class Frame:
    """What is in front of a record, or in its header."""

    schema_id: int | UUID | None = None
    size: int = 0  # bytes in front of the record
    message: MessageIndex | None = None  # of a Protobuf schema
    fault: str = ""  # why the record is bad; then there is no id


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a column: few different ones, and of each row the number of its own."""

    frames: Sequence[Frame]
    rows: pa.Int32Array  # null where the row is null


def frame_of(start: bytes) -> Frame:
    """The frame of a record. `start`: its first LONG_ID_BYTES, or all there is."""
    if not start:
        return Frame(fault="the record is empty, which is no tombstone: a tombstone is null")
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


def with_index(frame: Frame, start: bytes) -> Frame:
    """With the message index behind the id. `start`: of the record, or what a header has from its index on."""
    if frame.schema_id is None:
        return frame
    found = message_index_of(start, frame.size)
    if found is None:
        return replace(
            frame, schema_id=None, fault="behind the schema id there is no message index, as Protobuf has it"
        )
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
    """`headers`: the rows' (`records.columns.HEADERS_TYPE`); None: they have none. `indexed`: with message indexes."""
    starts = pc.binary_slice(values, 0, ID_BYTES)
    encoded = starts.dictionary_encode()
    if _LONG in encoded.dictionary.to_pylist():
        is_long = pc.equal(starts, pa.scalar(_LONG, pa.binary()))
        starts = pc.if_else(is_long, pc.binary_slice(values, 0, LONG_ID_BYTES), starts)
        encoded = starts.dictionary_encode()
    if indexed:
        encoded = _with_index_bytes(values, starts, encoded)
        frames = [with_index(frame_of(start[:LONG_ID_BYTES]), start) for start in encoded.dictionary.to_pylist()]
    else:
        frames = [frame_of(start) for start in encoded.dictionary.to_pylist()]
    of_headers = _of_headers(headers, HEADER_NAMES[side])
    if not of_headers:
        return Frames(frames, encoded.indices)
    rows = encoded.indices.to_pylist()
    numbers: dict[bytes | None, int] = {}
    for row, value in of_headers.items():
        if rows[row] is not None:
            if value not in numbers:
                numbers[value] = len(frames)
                frames.append(frame_of_header(value, HEADER_NAMES[side], indexed=indexed))
            rows[row] = numbers[value]
    return Frames(frames, pa.array(rows, pa.int32()))


def _with_index_bytes(
    values: pa.BinaryArray, starts: pa.BinaryArray, encoded: pa.DictionaryArray
) -> pa.DictionaryArray:
    """The rows' starts as far as their message indexes go: no byte of a record, or each would be a frame of its own."""
    for more in range(1, MOST_INDEX_BYTES + 1):
        unfinished = [
            number for number, start in enumerate(encoded.dictionary.to_pylist()) if _has_more(start, more - 1)
        ]
        if not unfinished:
            break
        goes_on = pc.is_in(encoded.indices, pa.array(unfinished, pa.int32()))
        # An id of nine bytes begins with five that are zero.
        is_long = pc.equal(pc.binary_slice(values, 0, ID_BYTES), pa.scalar(_LONG, pa.binary()))
        longer = pc.if_else(
            is_long,
            pc.binary_slice(values, 0, LONG_ID_BYTES + more),
            pc.binary_slice(values, 0, ID_BYTES + more),
        )
        starts = pc.if_else(goes_on, longer, starts)
        encoded = starts.dictionary_encode()
    return encoded


def _has_more(start: bytes, index_bytes: int) -> bool:
    """Whether the index goes on behind so many bytes of it, as far as the record has them."""
    frame = frame_of(start[:LONG_ID_BYTES])
    if frame.schema_id is None or len(start) < frame.size + index_bytes:
        return False
    return message_index_of(start, frame.size) is None and may_begin(start, frame.size)


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
