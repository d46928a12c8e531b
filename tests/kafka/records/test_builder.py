"""What BatchBuilder writes, read back by decoders that are not ours."""

from __future__ import annotations

import random
import struct
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from record_wire import CODECS, HEADER, TRANSACTIONAL, crc32c, rows_of

from kafkasource.kafka.records.builder import BatchBuilder, RecordColumns, append_spans, order_by_partition, stamp

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIME = 1_700_000_000_000


def columns(count, *, seed=0, with_headers=True, **changes):
    rng = random.Random(seed)
    pick: list[dict[str, Any]] = [
        {
            "keys": rng.choice([None, b"", b"key %d" % i]),
            "values": rng.choice([None, b"", rng.randbytes(rng.randrange(200))]),
            "timestamps_ms": rng.choice([None, TIME + rng.randrange(-(10**6), 10**6)]),
            "headers": rng.choice([None, [], [("a", b"1"), ("é" * rng.randrange(70), None), ("a", b"")]]),
        }
        for i in range(count)
    ]
    types = {"keys": pa.binary(), "values": pa.binary(), "timestamps_ms": pa.int64(), "headers": HEADERS}
    arrays = {
        name: pa.array(
            [
                [{"key": k, "value": v} for k, v in row[name]] if name == "headers" and row[name] else row[name]
                for row in pick
            ],
            type_,
        )
        for name, type_ in types.items()
        if with_headers or name != "headers"
    }
    return RecordColumns(**{**arrays, "default_timestamp_ms": TIME + 5, **changes})


def expected(source, rows):
    def cell(array, row):
        return None if array is None else array[row].as_py()

    return [
        (
            0,
            i,
            TIME + 5 if cell(source.timestamps_ms, row) is None else cell(source.timestamps_ms, row),
            cell(source.keys, row),
            cell(source.values, row),
            [(h["key"], h["value"]) for h in cell(source.headers, row) or []],
        )
        for i, row in enumerate(rows)
    ]


def built(source, rows=None, *, codec="none", size=1 << 20):
    builder = BatchBuilder(bytearray(size), codec=codec)
    index = None if rows is None else memoryview(struct.pack(f"{len(rows)}i", *rows)).cast("i")
    done = builder.append(source, index, 0)
    assert builder.record_count == done
    return builder.close()


@pytest.mark.parametrize("codec", CODECS)
def test_records_are_written_as_the_specification_has_them(codec):
    source = columns(300)
    batch = built(source, codec=codec)
    assert rows_of(batch) == expected(source, range(300))
    (base, length, epoch, magic, crc, attributes, last, first_time, max_time, *producer, count) = HEADER.unpack_from(
        batch
    )
    times = [row[2] for row in expected(source, range(300))]
    assert (base, length, epoch, magic, attributes) == (0, len(batch) - 12, -1, 2, CODECS[codec])
    assert (last, count, first_time, max_time) == (299, 300, times[0], max(times))
    assert producer == [-1, -1, -1]
    assert crc == crc32c(bytes(batch[21:]))


@pytest.mark.parametrize("missing", ["keys", "values", "timestamps_ms", "headers"])
def test_a_column_that_is_not_there_is_null(missing):
    source = columns(40, **{missing: None})
    assert rows_of(built(source)) == expected(source, range(40))


def test_rows_are_taken_in_the_order_of_the_index():
    source = columns(50)
    rows = [49, 0, 7, 7, 21]
    assert rows_of(built(source, rows)) == expected(source, rows)


def test_slices_of_columns_are_read_at_their_offset():
    whole = columns(90)
    names = ("keys", "values", "timestamps_ms", "headers")
    part = RecordColumns(**{n: getattr(whole, n).slice(31, 40) for n in names}, default_timestamp_ms=TIME + 5)
    assert rows_of(built(part)) == expected(whole, range(31, 71))


def test_headers_whose_structs_are_slices_are_read_at_their_offset():
    flat = pa.array([{"key": f"k{i}", "value": b"%d" % i} for i in range(10)], HEADERS.value_type)
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2, 3], pa.int32()), flat.slice(4, 5))
    source = RecordColumns(None, None, None, lists, TIME)
    assert [row[5] for row in rows_of(built(source))] == [[("k4", b"4"), ("k5", b"5")], [], [("k6", b"6")]]


def test_strings_stand_where_binary_does():
    source = RecordColumns(pa.array(["ä", None]), pa.array(["", "b"]), default_timestamp_ms=TIME)
    assert [row[3:5] for row in rows_of(built(source))] == [("ä".encode(), b""), (None, b"b")]


@pytest.mark.parametrize("size", [61, 62, 100, 200, 333, 1000, 5000])
def test_a_full_buffer_ends_the_batch_and_the_next_one_goes_on(size):
    source, first, rows = columns(60, with_headers=False), 0, []
    while first < 60:
        builder = BatchBuilder(bytearray(size))
        done = builder.append(source, None, first)
        assert builder.estimated_size <= size
        if done == first:
            # The one that alone is too large gets a buffer of the size it asks for.
            need = source.max_record_bytes(first)
            assert need > size
            builder = BatchBuilder(bytearray(need))
            done = builder.append(source, None, first, first + 1)
        batch = builder.close()
        assert len(batch) == builder.estimated_size
        rows += rows_of(batch)
        first = done
    assert [row[2:] for row in rows] == [row[2:] for row in expected(source, range(60))]


def test_a_row_never_needs_more_than_it_was_said_to():
    source = columns(200, seed=4)
    for row in range(200):
        need = source.max_record_bytes(row)
        builder = BatchBuilder(bytearray(need))
        assert builder.append(source, None, row, row + 1) == row + 1
        assert need - builder.estimated_size < 31


def test_rows_of_several_appends_share_a_batch():
    builder = BatchBuilder(bytearray(1 << 16), codec="zstd")
    one, two = columns(20, seed=1), columns(20, seed=2)
    builder.append(one)
    builder.append(two, None, 5, 9)
    assert rows_of(builder.close()) == [
        (row[0], i, *row[2:]) for i, row in enumerate(expected(one, range(20)) + expected(two, range(5, 9)))
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_stamping_names_the_producer_and_renews_the_crc(codec):
    source = columns(30)
    builder = BatchBuilder(bytearray(1 << 16), codec=codec)
    builder.append(source)
    batch = builder.close(9000, 3, 17, transactional=True)
    fields = HEADER.unpack_from(batch)
    assert (fields[5], fields[9:12]) == (TRANSACTIONAL | CODECS[codec], (9000, 3, 17))
    stamp(batch, 1 << 40, 4, 0)
    fields = HEADER.unpack_from(batch)
    assert (fields[4], fields[5], fields[9:12]) == (crc32c(bytes(batch[21:])), CODECS[codec], (1 << 40, 4, 0))
    assert rows_of(batch) == expected(source, range(30))


def test_codec_none_is_closed_in_the_buffer_it_was_given():
    buffer = bytearray(4096)
    builder = BatchBuilder(memoryview(buffer)[100:])
    builder.append(columns(3))
    batch = builder.close()
    assert bytes(batch) == bytes(buffer[100 : 100 + len(batch)])
    assert buffer[:100] == bytes(100)


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ({"keys": pa.array([1, 2])}, "expected binary"),
        ({"keys": pa.array([b"1"])}, "different lengths"),
        ({"timestamps_ms": pa.array([1, 2], pa.int32())}, "int64"),
        ({"headers": pa.array([[1], [2]])}, "list<struct"),
        ({"headers": pa.array([[None], []], HEADERS)}, "a header is null"),
    ],
)
def test_columns_of_wrong_types_or_lengths_are_refused(bad, text):
    arrays = {"keys": pa.array([b"a", b"b"]), "values": pa.array([b"a", b"b"])}
    with pytest.raises((ValueError, TypeError), match=text):
        BatchBuilder(bytearray(1000)).append(RecordColumns(**{**arrays, **bad}))


@pytest.mark.parametrize(
    "bad",
    [
        {"timestamps_ms": pa.array([1, 1 << 60])},
        {"headers": pa.array([[], [{"key": None, "value": b""}]], HEADERS)},
    ],
)
def test_a_row_that_no_record_can_hold_is_refused_by_number_and_those_before_it_stay(bad):
    builder = BatchBuilder(bytearray(1000))
    with pytest.raises(ValueError, match="row 1 cannot be encoded"):
        builder.append(RecordColumns(pa.array([b"a", b"b"]), None, **bad))
    assert builder.record_count == 1


def test_indexes_outside_the_columns_are_refused():
    for row in (-1, 2, 1 << 30):
        with pytest.raises(ValueError, match=f"row {row} "):
            built(RecordColumns(pa.array([b"a", b"b"]), None), [row])
    with pytest.raises(ValueError, match="more rows"):
        BatchBuilder(bytearray(1000)).append(RecordColumns(pa.array([b"a"]), None), None, 0, 2)


def test_offsets_that_are_not_those_of_the_data_are_refused():
    offsets, data = pa.py_buffer(struct.pack("4i", 0, 900, 3, 9)), pa.py_buffer(b"0123456789")
    lying = pa.Array.from_buffers(pa.binary(), 3, [None, offsets, data])
    for row in (0, 1):
        with pytest.raises(ValueError, match=f"row {row} "):
            built(RecordColumns(lying, None), [2, row])


def test_an_empty_batch_and_an_unknown_codec_are_refused():
    with pytest.raises(ValueError, match="no records"):
        BatchBuilder(bytearray(1000)).close()
    with pytest.raises(ValueError, match="none, gzip, snappy, lz4, zstd"):
        BatchBuilder(bytearray(1000), codec="brotli")
    with pytest.raises(ValueError, match="60 bytes"):
        BatchBuilder(bytearray(60))


def test_columns_of_no_rows_append_nothing():
    empty = RecordColumns(pa.array([], pa.binary()), pa.array([], pa.binary()), headers=pa.array([], HEADERS))
    assert BatchBuilder(bytearray(1000)).append(empty) == 0


@pytest.mark.parametrize("seed", range(8))
def test_rows_of_many_partitions_go_into_many_open_batches_until_each_is_full(seed):
    rng = random.Random(seed)
    source = columns(400, seed=seed, with_headers=seed % 2 == 0)
    count = rng.choice([1, 3, 60])
    partitions = [rng.randrange(count) for _ in range(400)]
    order, spans = order_by_partition(struct.pack("400i", *partitions), count)
    builders = {p: BatchBuilder(bytearray(rng.choice([61, 200, 900, 100_000]))) for p in range(count)}
    positions = append_spans(source, order, [(builders[p], first, last) for p, first, last in spans])
    for (partition, first, last), position in zip(spans, positions, strict=True):
        mine = [row for row in range(400) if partitions[row] == partition]
        assert order[first:last].tolist() == mine
        assert builders[partition].record_count == position - first
        if position < last:
            whole = BatchBuilder(bytearray(100_000))
            whole.append(source, order, first, position + 1)
            assert whole.estimated_size > len(builders[partition]._buffer)
        if position > first:
            assert rows_of(builders[partition].close()) == expected(source, mine[: position - first])


def test_wrong_indexes_or_offsets_in_any_span_are_refused_and_touch_no_other_memory():
    # Many cases for the sanitizers: what is appended before the error must be whole records.
    for seed in range(300):
        rng = random.Random(seed)
        offsets = [rng.choice([0, 3, 10, -1, 11, 1 << 30]) if rng.random() < 0.1 else i for i in range(11)]
        offsets[0], offsets[10] = 0, 10  # what Arrow checks itself
        lying = pa.Array.from_buffers(
            pa.binary(), 10, [None, pa.py_buffer(struct.pack("11i", *offsets)), pa.py_buffer(b"0123456789")]
        )
        source = RecordColumns(*rng.choice([(lying, None), (None, lying), (lying, lying)]))
        order = [rng.choice([-1, 10, 1 << 30]) if rng.random() < 0.02 else rng.randrange(10) for _ in range(40)]
        builders = [BatchBuilder(bytearray(rng.randrange(61, 200))) for _ in range(5)]
        cuts = sorted(rng.randrange(41) for _ in range(6))
        spans = [(rng.choice(builders), first, last) for first, last in pairwise(cuts)]
        fine = all(0 <= row < 10 and 0 <= offsets[row] <= offsets[row + 1] <= 10 for row in order)
        try:
            positions = append_spans(source, struct.pack("40i", *order), spans)
        except ValueError:
            assert not fine
        else:
            assert sum(b.record_count for b in builders) == sum(
                position - first for position, (_, first, _) in zip(positions, spans, strict=True)
            )
        for builder in builders:
            if builder.record_count:
                assert len(rows_of(builder.close())) == builder.record_count


def test_spans_of_rows_as_they_are_may_share_a_batch_and_may_be_empty():
    source = columns(30)
    one, two = BatchBuilder(bytearray(1 << 16)), BatchBuilder(bytearray(1 << 16))
    spans = [(one, 0, 10), (two, 10, 20), (two, 20, 20), (one, 20, 30)]
    assert append_spans(source, None, spans) == [10, 20, 20, 30]
    assert [row[2:] for row in rows_of(one.close())] == [
        row[2:] for row in expected(source, [*range(10), *range(20, 30)])
    ]
    assert rows_of(two.close()) == expected(source, range(10, 20))
    assert append_spans(source, None, []) == []


def test_a_wrong_span_is_refused_before_anything_is_written():
    source, good, closed = columns(5), BatchBuilder(bytearray(1000)), BatchBuilder(bytearray(1000))
    closed.append(source)
    closed.close()
    for wrong in ((good, -1, 2), (good, 3, 2), (good, 0, 6), (closed, 0, 1)):
        with pytest.raises(ValueError, match=r"more rows|closed"):
            append_spans(source, None, [(good, 0, 2), wrong])
    with pytest.raises((TypeError, AttributeError)):
        append_spans(source, None, [(good, 0, 2), (None, 0, 1)])
    assert good.record_count == 0


def test_spans_before_a_row_that_cannot_be_encoded_are_written():
    source = RecordColumns(pa.array([b"a", b"b", b"c"]), None, pa.array([1, 1 << 60, 3]))
    one, two, three = (BatchBuilder(bytearray(1000)) for _ in range(3))
    with pytest.raises(ValueError, match="row 1 cannot be encoded"):
        append_spans(source, struct.pack("3i", 2, 0, 1), [(one, 0, 1), (two, 1, 3), (three, 0, 1)])
    assert (one.record_count, two.record_count, three.record_count) == (1, 1, 0)


def test_a_closed_batch_takes_no_more_rows():
    builder = BatchBuilder(bytearray(1000))
    builder.append(columns(1))
    batch = bytes(builder.close())
    with pytest.raises(ValueError, match="closed"):
        builder.append(columns(1))
    assert bytes(builder.close()) == batch
