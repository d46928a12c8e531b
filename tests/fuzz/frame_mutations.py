"""Real frames, and how they are damaged. All by the random.Random that is handed in.

`frames.txt` holds what brokers of Kafka 4.3, 3.9, 0.9 and 0.8 answered in every version: release, API, version, and the
frame without its length. Of APIs and versions that are missing there, the frame is the one that Kafka's own classes
write for a body with every field set. Codecs that no captured frame has come from the writers of tests/kafka/records.
Damage within records is followed by the CRC that the damaged bytes should have, in
record batches (CRC32C) and in messages of before 0.11 (CRC32): else all would end at the first check.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import google_crc32c
from legacy_wire import TIME, pack, unpacked, wrapped
from message_bodies import full_body
from record_wire import CODECS, batch, compressed, decompressed, record

from kafkasource.kafka.protocol.apis import API_VERSIONS, APIS, FETCH, Api
from kafkasource.kafka.protocol.frames import decode_response

NUMBERS = (-(1 << 31), -(1 << 15), -129, -2, -1, 0, 1, 2, 3, 7, 63, 64, 127, 128, 255, 1 << 13, 100_001, (1 << 31) - 1)
BYTES = (0, 1, 2, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
MAGIC_POS, ATTRIBUTES_POS, HEADER_BYTES = 16, 21, 61
CODEC_NAMES = {code: name for name, code in CODECS.items()}


@dataclass(frozen=True)
class Frame:
    """One response as it came, without its length."""

    release: str
    api: Api
    version: int
    data: bytes


@cache
def captured_frames() -> tuple[Frame, ...]:
    by_name = {api.name: api for api in APIS.values()}
    lines = Path(__file__).with_name("frames.txt").read_text().splitlines()
    rows = (line.split() for line in lines)
    return tuple(Frame(where, by_name[name], int(version), bytes.fromhex(raw)) for where, name, version, raw in rows)


@cache
def frames() -> tuple[Frame, ...]:
    """Of every API in every version."""
    captured = captured_frames()
    known = {(frame.api, frame.version) for frame in captured}
    missing = [(api, v) for api in APIS.values() for v in range(api.versions[0], api.versions[1] + 1)]
    return (*captured, *(full_frame(api, version) for api, version in missing if (api, version) not in known))


def full_frame(api: Api, version: int) -> Frame:
    """Our writer's, whose bytes tests/kafka/protocol holds against Kafka's classes."""
    header = bytes(4 + (api is not API_VERSIONS and api.response.is_flexible(version)))
    return Frame("tables", api, version, header + api.response.encode(version, full_body(api.response, version)))


@dataclass(frozen=True)
class FetchedRecords:
    """A Fetch response cut where its records begin and end."""

    frame: Frame
    before: bytes
    records: bytes
    after: bytes


@cache
def fetched_records() -> tuple[FetchedRecords, ...]:
    """From brokers, and in each format and codec behind the same response."""
    captured = [found for frame in captured_frames() if frame.api is FETCH for found in _records_in(frame)]
    first = captured[0]
    written = [with_records(first, records) for records in _of_every_kind()]
    return (*captured, *(found for data in written for found in _records_in(replace(first.frame, data=data))))


def _records_in(frame: Frame) -> Iterator[FetchedRecords]:
    for topic in decode_response(FETCH, frame.version, frame.data)["responses"]:
        for partition in topic["partitions"]:
            records = bytes(partition["records"] or b"")
            if records and frame.data.count(records) == 1:
                before, after = frame.data.split(records)
                yield FetchedRecords(frame, before, records, after)


def _of_every_kind() -> Iterator[bytes]:
    rows = [(b"key", b"value"), (None, b"a value that repeats, " * 9), (b"", None), (b"k", b"")]
    headers = [(b"h", b"v"), ("å".encode(), None)]
    for codec in CODECS:
        records = [record(i, key, value, headers[:i], i) for i, (key, value) in enumerate(rows)]
        yield batch(records, codec=codec) + batch(records, len(rows), codec=codec)
    for magic in (0, 1):
        times = [(key, value, TIME if magic else -1) for key, value in rows]
        for codec in ("gzip", "snappy", "lz4"):
            yield wrapped(times, 3, codec=codec, magic=magic) + wrapped(times, 7, codec=codec, magic=magic)


def with_records(fetched: FetchedRecords, records: bytes) -> bytes:
    """The frame around other records, whose length is right."""
    flexible = FETCH.response.is_flexible(fetched.frame.version)
    old, new = (_length(len(each), flexible) for each in (fetched.records, records))
    assert fetched.before.endswith(old)
    return fetched.before[: -len(old)] + new + records + fetched.after


def _length(size: int, flexible: bool) -> bytes:
    if not flexible:
        return size.to_bytes(4, "big")
    out, value = bytearray(), size + 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def damaged(rng: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """`data` with one to four changes; `other` may lend a piece."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        kind, pos = rng.randrange(8), rng.randrange(len(out) + 1)
        if kind <= 1:
            out[pos : pos + 1] = bytes([rng.choice(BYTES)])
        elif kind == 2 and pos < len(out):
            out[pos] ^= 1 << rng.randrange(8)
        elif kind == 3:
            size = rng.choice((2, 4, 4, 8))
            out[pos : pos + size] = (rng.choice(NUMBERS) % (1 << 8 * size)).to_bytes(size, "big")
        elif kind == 4:
            del out[pos : pos + rng.randrange(1, 9)]
        elif kind == 5:
            out[pos:pos] = rng.randbytes(rng.randrange(1, 9))
        elif kind == 6 and len(out) > 1:
            start = rng.randrange(len(out))
            out[pos:pos] = (other or out)[start : start + rng.randrange(1, 65)]
        elif kind == 7 and rng.random() < 0.3:
            del out[pos:]
    return bytes(out)


def damaged_records(rng: random.Random, records: bytes) -> bytes:
    """Batches and messages with lies in them and right CRCs; what is compressed is often opened first."""
    batches = list(_batches(records))
    if not batches or rng.random() < 0.3:
        return with_right_crcs(damaged(rng, records))
    which = rng.randrange(len(batches))
    batch = batches[which]
    codec = _codec_of(batch)
    if codec != "none" and rng.random() < 0.6:
        batch = _resized(_damaged_inside(rng, batch, codec))
    else:
        batch = damaged(rng, batch)
        if rng.random() < 0.7:
            batch = _resized(batch)
    kind = rng.randrange(8)
    batches[which : which + 1] = [batch] * (kind != 0) * (1 + (kind == 1))
    return with_right_crcs(b"".join(batches))


def _codec_of(data: bytes) -> str:
    """The codec of a batch, or of a message that wraps others."""
    if len(data) <= HEADER_BYTES and (len(data) < 34 or data[MAGIC_POS] >= 2):
        return "none"
    return CODEC_NAMES.get(data[ATTRIBUTES_POS + 1 if data[MAGIC_POS] == 2 else MAGIC_POS + 1] & 7, "none")


def _damaged_inside(rng: random.Random, data: bytes, codec: str) -> bytes:
    magic = data[MAGIC_POS]
    if magic == 2:
        section = damaged(rng, decompressed(data[HEADER_BYTES:], CODECS[codec]))
        return data[:HEADER_BYTES] + compressed(section, codec)
    value = 34 if magic else 26
    section = pack(with_right_crcs(damaged(rng, unpacked(data[value:], CODECS[codec], magic))), codec, magic)
    return data[: value - 4] + len(section).to_bytes(4, "big") + section


def with_right_crcs(records: bytes) -> bytes:
    """As far as the lengths lead."""
    out, pos = bytearray(records), 0
    while len(out) - pos > HEADER_BYTES or (len(out) - pos > MAGIC_POS and out[pos + MAGIC_POS] < 2):
        (length,) = struct.unpack_from(">i", out, pos + 8)
        end = pos + 12 + length
        if not pos + MAGIC_POS < end <= len(out):
            break
        if out[pos + MAGIC_POS] < 2:
            out[pos + 12 : pos + 16] = zlib.crc32(out[pos + MAGIC_POS : end]).to_bytes(4, "big")
        elif end > pos + ATTRIBUTES_POS:
            out[pos + 17 : pos + 21] = google_crc32c.value(bytes(out[pos + ATTRIBUTES_POS : end])).to_bytes(4, "big")
        pos = end
    return bytes(out)


def _batches(records: bytes) -> Iterator[bytes]:
    """The whole ones, batches or messages, and what is left as the last."""
    pos = 0
    while len(records) - pos > MAGIC_POS:
        (length,) = struct.unpack_from(">i", records, pos + 8)
        end = pos + 12 + length
        if end > len(records):
            break
        yield records[pos:end]
        pos = end
    if pos < len(records):
        yield records[pos:]


def _resized(data: bytes) -> bytes:
    """With the length of what is there."""
    return data if len(data) < 12 else data[:8] + (len(data) - 12).to_bytes(4, "big") + data[12:]
