"""Message sets v0 and v1 to rows, alone and mixed with record batches; what is wrong with them is named."""

from __future__ import annotations

import random
import struct

import lz4.frame
import pyarrow as pa
import pytest
from legacy_wire import CODECS, LOG_APPEND, TIME, message, pack, rows_of, wrapped, wrapper
from record_wire import batch, record

from kafkasource.errors import CorruptRecordBatch
from kafkasource.kafka.records.arrow.columns import HEADERS_TYPE
from kafkasource.kafka.records.batches import decode, decode_all, next_fetch_offset
from kafkasource.kafka.records.compression import RecordBatchTooLarge, with_right_lz4_header

EVERYTHING = {"topic": "events", "partition": 3, "start_offset": 0, "end_offset": (1 << 63) - 1}
COMPRESSED = [codec for codec in CODECS if codec != "none"]


def rows(data, **changes):
    found = []
    for decoded in decode_all(data, **{**EVERYTHING, **changes}):
        for arrow in decoded.batches:
            arrow.validate(full=True)
            assert set(arrow["topic"].to_pylist()) == {"events"}
            assert set(arrow["partition"].to_pylist()) == {3}
            columns = [arrow[name].to_pylist() for name in ("offset", "timestampType", "key", "value")]
            times = [us // 1000 for us in arrow["timestamp"].cast(pa.int64()).to_pylist()]
            found += [(o, kind, t, k, v) for o, kind, k, v, t in zip(*columns, times, strict=True)]
    return found


def sample(seed, magic, first=0, count=20):
    """Messages in every shape, compressed and not: their bytes."""
    rng = random.Random(f"{seed} {magic}")
    data, offset = b"", first
    while offset < first + count:
        codec = rng.choice(list(CODECS))
        some = [
            (rng.choice([None, b"", b"key"]), rng.choice([None, b"", rng.randbytes(rng.randrange(90))]), TIME + i)
            for i in range(rng.randrange(1, 5))
        ]
        attributes = LOG_APPEND if magic and rng.random() < 0.3 else 0
        if codec == "none":
            key, value, timestamp = some[0]
            data += message(offset, key, value, magic=magic, attributes=attributes, timestamp=timestamp)
            offset += 1
        else:
            data += wrapped(some, offset, codec=codec, magic=magic, attributes=attributes, timestamp=TIME + 9)
            offset += len(some)
        offset += rng.choice([0, 0, 3])  # a hole, as compaction leaves
    return data


@pytest.mark.parametrize("magic", [0, 1])
def test_what_is_wrong_behind_the_range_is_not_looked_at(magic):
    damaged = message(2, magic=magic)
    data = message(0, magic=magic) + message(1, magic=magic) + damaged[:-1] + bytes([damaged[-1] ^ 1])
    assert [row[0] for row in rows(data, end_offset=2)] == [0, 1]
    with pytest.raises(CorruptRecordBatch, match="message at offset 2: CRC32"):
        rows(data, end_offset=3)


def test_a_damaged_wrapper_behind_a_hole_may_hold_messages_of_the_range():
    damaged = wrapped([(b"k", b"v", TIME)] * 3, 1, codec="gzip")
    with pytest.raises(CorruptRecordBatch, match="message at offset 3: CRC32"):
        rows(message(0) + damaged[:-1] + bytes([damaged[-1] ^ 1]), end_offset=2)


def test_times_that_no_row_has_are_not_looked_at():
    far = 1 << 62
    inner = [message(i, timestamp=far) for i in range(2)]
    data = wrapper(inner, 1, codec="gzip", attributes=LOG_APPEND, timestamp=TIME)
    assert [row[2] for row in rows(data)] == [TIME, TIME]
    data = wrapper([message(0, timestamp=TIME)], 0, codec="gzip", timestamp=far)
    assert [row[2] for row in rows(data)] == [TIME]
    assert [row[0] for row in rows(message(0, timestamp=far) + message(1), start_offset=1)] == [1]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("seed", range(10))
def test_every_message_is_a_row_with_its_key_value_offset_and_time(magic, seed):
    data = sample(seed, magic)
    assert rows(data) == rows_of(data)
    assert next_fetch_offset(data) == rows_of(data)[-1][0] + 1


def test_a_message_v0_has_no_timestamp_as_kafkas_client_says_it():
    # Java: RecordBatch.NO_TIMESTAMP is -1, TimestampType.NO_TIMESTAMP_TYPE has the id -1.
    assert rows(message(7, b"k", None, magic=0)) == [(7, -1, -1, b"k", None)]


def test_a_message_v1_has_create_time_or_log_append_time():
    assert rows(message(7, timestamp=-1)) == [(7, 0, -1, b"k", b"v")]
    assert rows(message(7, attributes=LOG_APPEND)) == [(7, 1, TIME, b"k", b"v")]


@pytest.mark.parametrize("codec", COMPRESSED)
def test_log_append_time_is_the_wrappers_for_all_that_it_holds(codec):
    inner = [(None, b"a", 5), (None, b"b", 6)]
    data = wrapped(inner, 10, codec=codec, attributes=LOG_APPEND, timestamp=99)
    assert [row[:3] for row in rows(data)] == [(10, 1, 99), (11, 1, 99)]
    data = wrapped(inner, 10, codec=codec, timestamp=99)
    assert [row[:3] for row in rows(data)] == [(10, 0, 5), (11, 0, 6)]


@pytest.mark.parametrize("codec", COMPRESSED)
def test_offsets_in_a_wrapper_are_relative_in_v1_and_absolute_in_v0(codec):
    # Compaction has taken 100 and 102 away. KIP-31: the wrapper has the offset of the last message in it.
    inner = [message(1, magic=1), message(3, magic=1)]
    assert [row[0] for row in rows(wrapper(inner, 103, codec=codec, magic=1))] == [101, 103]
    inner = [message(101, magic=0), message(103, magic=0)]
    assert [row[0] for row in rows(wrapper(inner, 103, codec=codec, magic=0))] == [101, 103]


def test_headers_are_null():
    (decoded,) = decode_all(message(), **EVERYTHING, include_headers=True)
    assert decoded.batches[0].schema.field("headers").type == HEADERS_TYPE
    assert decoded.batches[0]["headers"].to_pylist() == [None]


@pytest.mark.parametrize("start", [0, 3, 7, 12, 25])
@pytest.mark.parametrize("end", [5, 12, 13, 30])
def test_only_rows_of_the_range_come(start, end):
    data = sample("range", 0) + sample("range", 1, 30)
    decoded = list(decode_all(data, **{**EVERYTHING, "start_offset": start, "end_offset": end}))
    assert rows(data, start_offset=start, end_offset=end) == [row for row in rows_of(data) if start <= row[0] < end]
    assert decoded[-1].next_offset >= max(start, end)


def test_old_messages_and_record_batches_in_one_response_come_in_their_order():
    old = sample("mixed", 0) + sample("mixed", 1, 30)
    new = batch([record(i) for i in range(3)], 60)
    later = message(70, b"again", b"v1")  # after a downgrade
    assert rows(old + new + later) == [
        *rows_of(old),
        *[(60 + i, 0, 1_700_000_000_000, b"k", b"v") for i in range(3)],
        (70, 0, TIME, b"again", b"v1"),
    ]
    assert next_fetch_offset(old + new) == 63
    assert next_fetch_offset(old + new[:-1]) == next_fetch_offset(old)


def test_transactions_pass_by_messages_untouched():
    aborted = ((5, 40), (6, 70))
    assert decode(message(), **EVERYTHING, aborted_transactions=aborted).aborted_transactions == aborted


@pytest.mark.parametrize("magic", [0, 1])
def test_a_cut_last_message_is_left_for_the_next_fetch(magic):
    data = message(4, magic=magic)
    last = message(5, b"key", b"value", magic=magic)
    for size in range(len(last)):
        (decoded,) = decode_all(data + last[:size], **EVERYTHING)
        assert (decoded.num_rows, decoded.next_offset, decoded.bytes_used) == (1, 5, len(data))
        assert next_fetch_offset(data + last[:size]) == 5
        (decoded,) = decode_all(last[:size], **EVERYTHING)
        assert (decoded.num_rows, decoded.next_offset) == (0, 0)
        assert next_fetch_offset(last[:size]) is None
        if size > 16:
            assert decoded.required_bytes == len(last)


def test_a_wrong_crc_is_corrupt_unless_nobody_asks():
    data = bytearray(message(9))
    data[-1] ^= 1
    with pytest.raises(CorruptRecordBatch, match="events-3, message at offset 9: CRC32"):
        rows(data)
    assert rows(data, check_crc=False)[0][4] == b"w"
    inner = bytearray(message())
    inner[-1] ^= 1
    with pytest.raises(CorruptRecordBatch, match="CRC32"):
        rows(wrapper([bytes(inner)], 9, codec="gzip"))


LIES = {
    "size below the least of v0": message(5, magic=0, size=13),
    "size below the least of v1": message(5, magic=1, size=21),
    "negative size": message(5, size=-1),
    "negative offset": message(-5),
    "offset past int64": message((1 << 63) - 1),
    "key past the message": message(5, body=struct.pack(">i", 9) + b"key" + struct.pack(">i", -1)),
    "key of length -2": message(5, body=struct.pack(">ii", -2, -1)),
    "no room for the value's length": message(5, body=struct.pack(">i", 6) + bytes(6)),
    "value past the message": message(5, body=struct.pack(">iii", -1, 5, 0)),
    "value of length -2": message(5, body=struct.pack(">ii", -1, -2)),
    "bytes behind the value": message(5, body=struct.pack(">iib", -1, -1, 0)),
    "timestamp past microseconds": message(5, timestamp=1 << 62),
    "compressed null": message(5, None, None, attributes=1),
    "zstd": message(5, None, b"(\xb5/\xfd", attributes=4),
    "empty wrapper": wrapper([], 5, codec="gzip"),
    "cut within a wrapper": wrapper([message(0), message(1)[:-1]], 5, codec="gzip"),
    "wrapper in a wrapper": wrapper([wrapper([message()], 0, codec="gzip")], 5, codec="gzip"),
    "v0 in a wrapper of v1": wrapper([message(magic=0)], 5, codec="gzip"),
    "record batch in a wrapper": wrapper([batch()], 5, codec="gzip"),
    "more offsets than the wrapper's": wrapper([message(0), message(9)], 5, codec="gzip"),
    "offsets that stand still": wrapper([message(0), message(0), message(1)], 5, codec="gzip"),
    "offsets in v0 beyond the wrapper's": wrapper([message(6, magic=0)], 5, codec="gzip", magic=0),
    "unknown magic behind a message": message(4) + message(5, magic=3),
    "garbage": wrapper([], 5, codec="gzip", section=b"\x00" * 30),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_message_that_contradicts_itself_is_corrupt(lie):
    with pytest.raises(CorruptRecordBatch, match=r"events-3, (message|record batch) at offset"):
        rows(LIES[lie])


def test_messages_must_ascend():
    with pytest.raises(CorruptRecordBatch, match="offset 4 where 6 or more was due"):
        rows(message(5) + message(4))
    with pytest.raises(CorruptRecordBatch, match="6 or more was due"):
        rows(message(5) + batch(base_offset=3))
    assert next_fetch_offset(message(5) + message(4)) == 6
    with pytest.raises(CorruptRecordBatch, match="it holds offsets"):
        rows(message(5) + wrapper([message(0), message(2)], 7, codec="lz4"))


@pytest.mark.parametrize("codec", COMPRESSED)
def test_what_a_wrapper_holds_is_bounded(codec):
    data = wrapper([message(value=bytes(1 << 20))], 5, codec=codec)
    with pytest.raises(RecordBatchTooLarge, match=f"message at offset 5: .* more than the {1 << 20} bytes"):
        rows(data, max_decompressed_bytes=1 << 20)
    assert len(rows(data, max_decompressed_bytes=1 << 21)) == 1


@pytest.mark.parametrize("codec", CODECS)
def test_a_large_response_comes_in_pieces(codec):
    big = (b"k", bytes(600_000), TIME)
    if codec == "none":
        data = b"".join(message(i, *big[:2]) for i in range(30))
    else:
        data = b"".join(wrapped([big, big], i, codec=codec) for i in range(0, 30, 2))
    pieces = list(decode_all(data, **EVERYTHING))
    assert max(sum(arrow.nbytes for arrow in piece.batches) for piece in pieces) < 6 << 20
    assert [o for piece in pieces for arrow in piece.batches for o in arrow["offset"].to_pylist()] == list(range(30))


def test_many_messages_come_in_several_arrow_batches():
    count = (1 << 17) + 5
    inner = [message(i, None, None, magic=0) for i in range(count)]
    (decoded,) = decode_all(wrapper(inner, count - 1, codec="gzip", magic=0), **EVERYTHING)
    assert [arrow.num_rows for arrow in decoded.batches] == [1 << 17, 5]
    assert decoded.batches[1]["offset"].to_pylist() == list(range(1 << 17, count))
    assert decoded.batches[1]["key"].null_count == 5


@pytest.mark.parametrize("content_size", [True, False])
def test_the_wrong_header_checksum_of_the_first_lz4_is_put_right(content_size):
    frame = lz4.frame.compress(b"text" * 100, store_size=content_size)
    at = 14 if content_size else 6
    for wrong in (0, 0x55, 0xFF):
        assert with_right_lz4_header(memoryview(frame[:at] + bytes([wrong]) + frame[at + 1 :])) == frame


def test_lz4_of_v1_with_a_wrong_header_checksum_is_corrupt():
    section = pack(message(magic=1), "lz4", 0)
    with pytest.raises(CorruptRecordBatch, match="lz4 data is corrupt"):
        rows(wrapper([], 5, codec="lz4", magic=1, section=section))
