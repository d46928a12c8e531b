"""What decode makes of batches written by hand."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest
import zstandard
from record_wire import CODECS, LOG_APPEND, batch, record, repaired

from kafkasource.errors import CorruptRecordBatch, MalformedRecordTimestamp, ProtocolError, UnsupportedRecordFormat
from kafkasource.kafka.records import kernel
from kafkasource.kafka.records.arrow import columns
from kafkasource.kafka.records.batches import ROW_SCHEMA, ROW_SCHEMA_WITH_HEADERS, decode, decode_all, next_fetch_offset
from kafkasource.kafka.records.compression import RecordBatchTooLarge

EVERYTHING = {"topic": "events", "partition": 3, "start_offset": 0, "end_offset": 1 << 62}


def rows(data, **changes):
    decoded = decode(data, **{**EVERYTHING, **changes})
    for arrow in decoded.batches:
        arrow.validate(full=True)
    return [row for arrow in decoded.batches for row in arrow.to_pylist()]


def offsets(data, **changes):
    return [row["offset"] for row in rows(data, **changes)]


def test_a_record_becomes_the_jvm_connectors_row():
    data = batch([record(key=b"id", value=b"\x00\xff", timestamp_delta=7)], 41, base_timestamp=1_600_000_000_123)
    assert rows(data) == [
        {
            "key": b"id",
            "value": b"\x00\xff",
            "topic": "events",
            "partition": 3,
            "offset": 41,
            "timestamp": datetime(2020, 9, 13, 12, 26, 40, 130_000, timezone.utc),
            "timestampType": 0,
        }
    ]


def test_the_schema_is_the_same_with_and_without_rows_and_headers():
    for include, schema in ((False, ROW_SCHEMA), (True, ROW_SCHEMA_WITH_HEADERS)):
        (arrow,) = decode(batch(), **EVERYTHING, include_headers=include).batches
        assert arrow.schema == schema
    assert [(f.name, str(f.type)) for f in ROW_SCHEMA_WITH_HEADERS] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int32"),
        ("offset", "int64"),
        ("timestamp", "timestamp[us, tz=UTC]"),
        ("timestampType", "int32"),
        ("headers", "list<element: struct<key: string, value: binary>>"),
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_null_and_empty_keys_and_values_stay_apart(codec):
    pairs = [(None, None), (b"", b""), (b"k", None), (None, b"v"), (b"", None)] * 3
    data = batch([record(i, k, v) for i, (k, v) in enumerate(pairs)], codec=codec)
    assert [(row["key"], row["value"]) for row in rows(data)] == pairs


@pytest.mark.parametrize("codec", CODECS)
def test_headers_keep_order_repeats_nulls_and_emptiness(codec):
    headers = [
        [(b"a", b"1"), (b"a", b"2"), (b"", None)],
        [],
        [("é".encode(), b"")],
        [(b"last", b"\xff")],
    ]
    data = batch([record(i, headers=h) for i, h in enumerate(headers)], codec=codec)
    assert [row["headers"] for row in rows(data, include_headers=True)] == [
        [{"key": "a", "value": b"1"}, {"key": "a", "value": b"2"}, {"key": "", "value": None}],
        None,
        [{"key": "é", "value": b""}],
        [{"key": "last", "value": b"\xff"}],
    ]


def test_headers_belong_to_the_rows_that_the_range_keeps():
    data = batch([record(i, headers=[(b"n", str(i).encode())] * i) for i in range(6)])
    kept = rows(data, include_headers=True, start_offset=2, end_offset=5)
    assert [[h["value"] for h in row["headers"]] for row in kept] == [[b"2"] * 2, [b"3"] * 3, [b"4"] * 4]


def test_a_header_key_that_is_not_utf8_reads_as_java_reads_it():
    data = batch([record(headers=[(b"a\xff", b"1"), (b"ok", b"2")])])
    assert [h["key"] for h in rows(data, include_headers=True)[0]["headers"]] == ["a�", "ok"]


def test_log_append_time_gives_every_record_the_batches_timestamp():
    append = [record(0, timestamp_delta=-5), record(1, timestamp_delta=9)]
    data = batch() + batch(append, 1, attributes=LOG_APPEND, max_timestamp=1_000) + batch(base_offset=3)
    decoded = decode(data, **EVERYTHING)
    assert [arrow["timestampType"].to_pylist() for arrow in decoded.batches] == [[0], [1, 1], [0]]
    one = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=1)
    assert decoded.batches[1]["timestamp"].to_pylist() == [one, one]


def test_no_timestamp_is_a_millisecond_before_the_epoch_as_in_the_jvm_connector():
    assert rows(batch(base_timestamp=-1))[0]["timestamp"].microsecond == 999_000


def test_offsets_left_by_compaction_are_kept_and_the_next_offset_counts_the_whole_batch():
    data = batch([record(3), record(8)], 100, last_offset_delta=11)
    assert offsets(data) == [103, 108]
    assert decode(data, **EVERYTHING).next_offset == 112
    assert next_fetch_offset(data) == 112


def test_a_batch_that_compaction_emptied_moves_the_next_offset_on():
    data = batch([], 50, last_offset_delta=9) + batch(base_offset=60)
    assert offsets(data) == [60]
    only = decode(batch([], 50, last_offset_delta=9), **{**EVERYTHING, "start_offset": 50})
    assert (only.batches, only.next_offset) == ([], 60)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("start", "end"), [(0, 30), (5, 6), (9, 21), (10, 20), (29, 30), (12, 12)])
def test_only_rows_of_the_range_come_out(codec, start, end):
    data = b"".join(batch([record(i) for i in range(10)], base, codec=codec) for base in (0, 10, 20))
    assert offsets(data, start_offset=start, end_offset=end) == list(range(start, end))


def test_batches_behind_the_range_are_not_used_and_the_next_offset_says_that_it_is_done():
    first, second = batch([record(0), record(1)]), batch(base_offset=7)
    decoded = decode(first + second, **{**EVERYTHING, "end_offset": 5})
    assert (decoded.next_offset, decoded.bytes_used) == (5, len(first))


@pytest.mark.parametrize("codec", CODECS)
def test_a_cut_last_batch_is_left_for_the_next_fetch_at_every_length(codec):
    first, second = batch([record(0)], codec=codec), batch([record(0), record(1)], 1, codec=codec)
    for size in range(len(second)):
        data = first + second[:size]
        decoded = decode(data, **EVERYTHING)
        assert (decoded.next_offset, decoded.bytes_used, decoded.num_rows) == (1, len(first), 1)
        assert next_fetch_offset(data) == 1
    assert decode(first + second, **EVERYTHING).next_offset == 3


def test_a_first_batch_that_is_cut_tells_how_many_bytes_it_needs():
    data = batch([record(value=bytes(500))])
    for size in range(1, len(data)):
        decoded = decode(data[:size], **{**EVERYTHING, "start_offset": 9})
        assert (decoded.batches, decoded.next_offset, decoded.bytes_used) == ([], 9, 0)
        assert decoded.required_bytes == (len(data) if size >= 12 else 61)
        assert next_fetch_offset(data[:size]) is None


def test_no_bytes_are_no_rows():
    decoded = decode(b"", **EVERYTHING)
    assert (decoded.batches, decoded.next_offset, decoded.required_bytes) == ([], 0, None)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, pa.py_buffer])
def test_any_buffer_is_read_and_not_kept(kind):
    source = bytearray(batch([record(value=b"kept")]))
    decoded = decode(kind(source), **EVERYTHING)
    source[:] = bytes(len(source))
    assert decoded.batches[0]["value"].to_pylist() == [b"kept"]


def test_rows_outlive_the_scratch_memory_of_later_calls():
    first = decode(batch([record(value=b"a" * 1000)], codec="lz4"), **EVERYTHING)
    decode(batch([record(value=b"b" * 1000)], codec="lz4"), **EVERYTHING)
    assert first.batches[0]["value"].to_pylist() == [b"a" * 1000]


def test_a_flipped_bit_anywhere_behind_the_crc_is_noticed():
    data = batch([record(i, value=b"value %d" % i) for i in range(4)], codec="gzip")
    for pos in range(17, len(data)):
        for bit in (0, 7):
            flipped = bytearray(data)
            flipped[pos] ^= 1 << bit
            with pytest.raises(CorruptRecordBatch, match="events-3, record batch at offset 0: CRC32C"):
                decode(flipped, **EVERYTHING)


@pytest.mark.parametrize("in_kernel", [True, False])
def test_the_crc_is_checked_by_the_kernel_or_a_library_at_every_length(monkeypatch, in_kernel):
    # 64 and 1024 bytes are the lanes of crc32c.h, three of which run side by side.
    monkeypatch.setattr(kernel, "CRC32C", in_kernel and kernel.CRC32C)
    rng = random.Random(6)
    edges = [lanes * lane for lanes in (1, 3, 6) for lane in (64, 1024)]
    for size in [*range(80), *(edge + extra for edge in edges for extra in range(-70, 20)), 200_000]:
        good = batch([record(value=rng.randbytes(max(size, 0)))])
        assert decode(batch() + good[:7] + b"\1" + good[8:], **EVERYTHING).num_rows == 2
        for pos in (21, rng.randrange(61, len(good)), len(good) - 1):
            bad = bytearray(good)
            bad[pos] ^= 1 << rng.randrange(8)
            with pytest.raises(CorruptRecordBatch, match="offset 0: CRC32C"):
                decode(bad, **EVERYTHING)


def test_batches_before_a_corrupt_one_do_not_hide_it():
    bad = bytearray(batch(base_offset=4))
    bad[-1] ^= 1
    for before in (batch(), batch(codec="lz4"), batch([record(i) for i in range(3)])):
        with pytest.raises(CorruptRecordBatch, match="batch at offset 4: CRC32C"):
            decode(before + bad + batch(base_offset=5), **EVERYTHING)


def test_an_arrow_batch_ends_before_its_bytes_pass_what_int32_offsets_reach():
    # As the kernel's table has them: 2 GiB would be one too many, and nothing is allocated here.
    sections = kernel.Sections(3)
    sections.scan(memoryview(b"".join(batch(base_offset=base) for base in range(3))), 0, 1 << 62, False)
    for section, size in ((0, 1 << 29), (1, 3 << 29), (2, 1 << 29)):
        assert sections.replace(section, 0, size)
    assert (sections.group(0), sections.rows, sections.bytes) == ((1, False), 1, 1 << 29)
    assert (sections.group(1), sections.rows, sections.bytes) == ((2, False), 1, 3 << 29)
    assert (sections.group(2), sections.rows, sections.bytes) == ((3, False), 1, 1 << 29)


def test_a_flipped_byte_before_the_crc_never_gives_other_payloads():
    data = batch([record(value=b"payload")], 5)
    for pos in range(17):
        flipped = bytearray(data)
        flipped[pos] ^= 0xFF
        try:
            found = rows(flipped)
        except ProtocolError:
            continue
        assert [row["value"] for row in found] in ([], [b"payload"])


def test_without_the_crc_check_the_rest_is_still_checked():
    data = bytearray(batch([record(value=b"x")]))
    data[17] ^= 1
    assert len(rows(data, check_crc=False)) == 1
    data[61] = 120  # the record's length
    with pytest.raises(CorruptRecordBatch, match="not within its batch"):
        rows(data, check_crc=False)


LIES = {
    "negative length": {"length": -1},
    "length below the header": {"length": 48},
    "unknown magic": {"magic": 3},
    "more records than bytes": {"count": 5_000_000, "last_offset_delta": 5_000_000},
    "more records than offsets": {"records": [record(0), record(1)], "last_offset_delta": 0},
    "one record more": {"count": 2, "last_offset_delta": 1, "section": record(value=b"long enough for two records")},
    "one record fewer": {"records": [record(0), record(1)], "count": 1},
    "negative count": {"count": -1, "last_offset_delta": 0},
    "no records but bytes": {"count": 0, "section": b"x"},
    "records but no bytes": {"count": 1, "section": b""},
    "negative base offset": {"base_offset": -1},
    "negative last offset delta": {"last_offset_delta": -1},
    "offset past int64": {"base_offset": (1 << 63) - 1},
    # These batches lack records, as after compaction. A batch with all its records is numbered by place.
    "record delta past the last": {"records": [record(10)], "last_offset_delta": 9},
    "negative record delta": {"records": [record(-1)], "last_offset_delta": 9},
    "record deltas that stand still": {"records": [record(3), record(3)], "last_offset_delta": 9},
    "record delta without end": {"section": b"\x16\x00\x00\xff\xff\xff\xff\xff\x00\x01\x01\x00"},
    "timestamp past microseconds": {"base_timestamp": 1 << 62},
    "timestamp delta past microseconds": {"records": [record(timestamp_delta=1 << 62)]},
    "timestamp varint without end": {"section": b"\x1c\x00" + b"\xff" * 12 + b"\x00"},
    "null header key": {"records": [record(headers=[(None, b"")])]},
    "header count past the record": {"section": b"\x0e\x00\x00\x00\x01\x01\x7f\x00"},
    "negative header count": {"section": b"\x0c\x00\x00\x00\x01\x01\x01"},
    "key past the record": {"section": b"\x0e\x00\x00\x00\x64\x01\x00\x00"},
    "value past the record": {"section": b"\x0e\x00\x00\x00\x01\x64\x00\x00"},
    "bytes behind the headers": {"section": b"\x0e\x00\x00\x00\x01\x01\x00\x00"},
    "bytes behind the last record": {"section": record() + b"\x00"},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_batch_that_contradicts_itself_is_corrupt(lie):
    # Headers that nobody asked for are passed over unread.
    for include_headers in (True,) if lie == "null header key" else (True, False):
        with pytest.raises(CorruptRecordBatch, match="events-3, record batch at offset"):
            decode(batch(**LIES[lie]), **EVERYTHING, include_headers=include_headers)


@pytest.mark.parametrize(
    "deltas", [(0, 0, 0), (2, 1, 0), (0, 2, 1), (-1, 0, 1), (0, 1, 5), (5, 6, 7), (-(1 << 31), 9, 9)]
)
@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_with_all_its_records_is_numbered_by_place_whatever_its_deltas_say(codec, deltas):
    """A broker that stores it compares their number with the last offset delta, and looks at no other delta."""
    data = batch([record(d, value=b"%d" % i) for i, d in enumerate(deltas)], 7, codec=codec) + batch(base_offset=10)
    assert [(row["offset"], row["value"]) for row in rows(data)] == [(7, b"0"), (8, b"1"), (9, b"2"), (10, b"v")]
    for start in range(7, 11):  # each record is in one range
        assert offsets(data, start_offset=start, end_offset=start + 1) == [start]


def number(raw):
    """The bytes of a number where a record has a plain one: key and value of a byte each, no headers."""
    parts = {"timestamp": b"\0", "delta": b"\0", "key": b"\2k", "value": b"\2v", "headers": b"\0"} | raw
    body = b"\0" + b"".join(parts.values())
    return batch([b"\0"], section=bytes([2 * len(body)]) + body)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"key": b"\x03"}, (None, b"v", None)),  # -2
        ({"value": b"\x09"}, (b"k", None, None)),  # -5
        ({"headers": b"\x02\x02h\x03"}, (b"k", b"v", [{"key": "h", "value": None}])),
        ({"key": b"\xff\xff\xff\xff\x0f"}, (None, b"v", None)),  # -(1 << 31)
        ({"key": b"\x82\x80\x80\x80\x70k"}, (b"k", b"v", None)),  # bits beyond the 32nd
        ({"timestamp": b"\x80" * 9 + b"\x7e"}, (b"k", b"v", None)),  # and beyond the 64th
        ({"timestamp": b"\x80" * 9 + b"\x00", "headers": b"\x80\x80\x00"}, (b"k", b"v", None)),
    ],
)
def test_numbers_are_read_as_javas_reader_does(raw, expected):
    """tests/peers/test_odd_batches.py has seen a broker take these, and Java's consumer read them so."""
    (row,) = rows(number(raw), include_headers=True)
    assert (row["key"], row["value"], row["headers"]) == expected
    assert row["timestamp"] == datetime.fromtimestamp(1_700_000_000, timezone.utc)


@pytest.mark.parametrize("base", [1 << 62, -(1 << 62), (1 << 63) - 1])
def test_a_base_timestamp_far_away_is_fine_where_the_records_times_are_not(base):
    data = batch([record(timestamp_delta=1_700_000_000_123 - base)], base_timestamp=base)
    assert rows(data)[0]["timestamp"] == datetime(2023, 11, 14, 22, 13, 20, 123_000, timezone.utc)
    wrapped = batch([record(timestamp_delta=(1 << 63) - 1)], base_timestamp=(1 << 63) - 1)
    assert rows(wrapped)[0]["timestamp"].timestamp() == -0.002  # as Java adds two longs


def with_its_last_byte_changed(data):
    return data[:-1] + bytes([data[-1] ^ 1])


DAMAGED = batch([record(0, value=b"x"), record(1, value=b"y")], 2)
BEHIND = {
    "another magic": DAMAGED[:16] + b"\x07" + DAMAGED[17:],
    "offset of before": bytes(8) + DAMAGED[8:],
    "wrong checksum": with_its_last_byte_changed(DAMAGED),
    "length of 3 bytes": DAMAGED[:8] + b"\x00\x00\x00\x03" + DAMAGED[12:],
    "cut": DAMAGED[:30],
}


@pytest.mark.parametrize("damage", BEHIND)
def test_what_is_wrong_behind_the_range_is_not_looked_at(damage):
    data = batch([record(0), record(1)]) + BEHIND[damage]
    decoded = decode(data, **{**EVERYTHING, "end_offset": 2})
    assert ([arrow["offset"].to_pylist() for arrow in decoded.batches], decoded.next_offset) == ([[0, 1]], 2)
    if damage != "cut":
        with pytest.raises(CorruptRecordBatch, match="events-3, record batch at offset"):
            decode(data, **{**EVERYTHING, "end_offset": 3})


@pytest.mark.parametrize("wrong", [{"base_timestamp": 1 << 62}, {"records": [record(timestamp_delta=1 << 62)]}])
def test_times_that_no_row_has_are_not_looked_at(wrong):
    """Java reads such records: with LogAppendTime the broker leaves the producer's times in the batch."""
    far = batch(**wrong, attributes=LOG_APPEND, max_timestamp=1_000)
    assert [row["timestamp"].timestamp() for row in rows(far)] == [1.0]
    before = batch([record(0, timestamp_delta=1 << 62), record(1)])
    assert offsets(before, start_offset=1) == [1]
    with pytest.raises(MalformedRecordTimestamp, match="events-3, record batch at offset 0"):
        rows(before)


def test_batches_must_ascend():
    with pytest.raises(CorruptRecordBatch, match="base offset 0"):
        decode(batch([record(0), record(1)]) + batch(base_offset=0), **EVERYTHING)


def test_an_unknown_codec_is_refused_by_name():
    data = bytearray(batch())
    data[22] |= 6
    with pytest.raises(UnsupportedRecordFormat, match="codec 6"):
        decode(repaired(data), **EVERYTHING)


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "none"])
def test_garbage_where_compressed_records_should_be_is_corrupt(codec):
    good = batch([record(i) for i in range(50)], codec=codec)[61:]
    for section in (b"\x00" * 40, b"\xff" * 40, good[:-5], good[: len(good) // 2], b"\x82SNAPPY\x00" * 2):
        with pytest.raises(CorruptRecordBatch):
            decode(batch([record()] * 50, codec=codec, section=section), **EVERYTHING)


def test_a_call_in_pieces_gives_the_same_rows_as_one_call():
    records = [record(i, value=b"v" * 1000) for i in range(10)]
    data = b"".join(batch(records, base, codec="zstd") for base in range(0, 100, 10)) + batch(base_offset=100)[:69]
    whole = decode(data, **EVERYTHING)
    pieces = list(decode_all(data, **EVERYTHING, max_decompressed_bytes=25_000))
    assert len(pieces) == 5
    assert [row for p in pieces for arrow in p.batches for row in arrow.to_pylist()] == rows(data)
    assert (pieces[-1].next_offset, whole.next_offset) == (100, 100)
    assert sum(piece.bytes_used for piece in pieces) == whole.bytes_used


def zstd_stream(data):
    """As Java's producer and librdkafka write it: no content size, and at level 3 a window of 2 MiB."""
    encoder = zstandard.ZstdCompressor(level=3, write_content_size=False).compressobj()
    return encoder.compress(data) + encoder.flush()


@pytest.mark.parametrize("count", [900, 1300])
def test_zstd_whose_matches_reach_far_back_comes_in_pieces(count):
    """The room that is left in a piece is smaller than the distance of a match that the decoder meets ahead of it."""
    rng = random.Random(1)
    pool = [rng.randbytes(40) + b"x" * 960 for _ in range(900)]
    section = zstd_stream(b"".join(record(i, value=pool[i % len(pool)]) for i in range(count)))
    batches = [
        batch(base_offset=first, codec="zstd", count=count, section=section) for first in range(0, 8 * count, count)
    ]
    pieces = list(decode_all(b"".join(batches), **EVERYTHING))
    assert [o for piece in pieces for arrow in piece.batches for o in arrow["offset"].to_pylist()] == list(
        range(8 * count)
    )
    values = [value for piece in pieces for arrow in piece.batches for value in arrow["value"].to_pylist()]
    assert values == [pool[i % len(pool)] for i in range(count)] * 8
    with pytest.raises(RecordBatchTooLarge, match=r"offset 0: .* hold more than the 260000 bytes"):
        decode(batches[0], **EVERYTHING, max_decompressed_bytes=260_000)


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "none"])
def test_a_small_fetch_that_holds_much_comes_in_pieces(codec):
    records = [record(i, value=b"%d" % i * 100_000) for i in range(10)]
    data = b"".join(batch(records, base, codec=codec) for base in range(0, 150, 10))
    pieces = list(decode_all(data, **EVERYTHING))
    assert max(sum(arrow.nbytes for arrow in piece.batches) for piece in pieces) < 5 << 20
    assert [o for piece in pieces for arrow in piece.batches for o in arrow["offset"].to_pylist()] == list(range(150))


def test_many_rows_come_in_several_arrow_batches():
    count = (1 << 17) + 5
    records = b"".join(record(i, b"", None) for i in range(count))
    decoded = decode(batch([], count=count, section=records), **EVERYTHING)
    assert [arrow.num_rows for arrow in decoded.batches] == [1 << 17, 5]
    assert decoded.batches[1]["offset"].to_pylist() == list(range(1 << 17, count))
    assert set(decoded.batches[1]["topic"].to_pylist()) == {"events"}


def test_constant_columns_that_are_kept_are_not_of_a_pool_that_is_set_for_a_while(monkeypatch):
    monkeypatch.setattr(columns, "_kept", {})
    default = pa.default_memory_pool()
    passing = pa.proxy_memory_pool(default)
    pa.set_memory_pool(passing)
    try:
        assert rows(batch())
        assert columns._kept
    finally:
        pa.set_memory_pool(default)
    assert passing.bytes_allocated() == 0
