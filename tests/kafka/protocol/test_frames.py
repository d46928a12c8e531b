"""Frames: what goes out, and what comes in whole, byte by byte, from the wrong kind of server, or from a liar."""

from __future__ import annotations

import pickle
import tracemalloc

import pytest

from kafkasource.errors import ProtocolError
from kafkasource.kafka.protocol.apis import API_VERSIONS, APIS, FETCH, INIT_PRODUCER_ID, METADATA, PRODUCE
from kafkasource.kafka.protocol.frames import (
    GROWTH,
    READ_AHEAD_BYTES,
    TRUSTED_BYTES,
    FrameBuffers,
    FrameReader,
    decode_response,
    encode_request,
    encode_request_parts,
    peek_correlation_id,
)

MIB = 1 << 20


def framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


def received(reader: FrameReader, data: bytes) -> list[bytes]:
    """As from a socket: whatever fits into `writable()` at a time."""
    frames = []
    while data:
        target = reader.writable()
        assert len(target) > 0
        size = min(len(target), len(data))
        target[:size] = data[:size]
        data = data[size:]
        frames += [bytes(frame) for frame in reader.advance(size)]
    return frames


def test_the_request_header_of_a_plain_and_of_a_flexible_version() -> None:
    plain = encode_request(METADATA, 1, 5, "me", {"topics": None})
    assert plain.hex() == "00000010000300010000000500026d65ffffffff"
    flexible = encode_request(API_VERSIONS, 3, 5, "me", {})
    assert flexible.hex() == "00000010001200030000000500026d6500010100"
    nobody = encode_request(API_VERSIONS, 0, 5, None, {})
    assert nobody.hex() == "0000000a0012000000000005ffff"


def test_records_go_out_as_the_callers_own_memory() -> None:
    records = bytearray(b"r" * 10_000)
    partition = {"index": 0, "records": records}
    body = {"acks": -1, "timeout_ms": 1, "topic_data": [{"name": "t", "partition_data": [partition, partition]}]}
    parts = encode_request_parts(PRODUCE, 9, 1, "me", body)
    whole = encode_request(PRODUCE, 9, 1, "me", body)
    assert b"".join(parts) == whole
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    views = [part for part in parts if len(part) == len(records)]
    assert len(views) == 2
    records[0] = ord("x")
    assert all(view[0] == ord("x") for view in views)


def test_the_response_header_of_a_plain_and_of_a_flexible_version() -> None:
    plain = bytes.fromhex("0000000700000000000000000000000000090001")
    assert peek_correlation_id(plain) == 7
    assert decode_response(INIT_PRODUCER_ID, 1, plain)["producer_id"] == 9
    flexible = bytes.fromhex("0000000701050241420000000000000000000000000009000100")
    assert decode_response(INIT_PRODUCER_ID, 2, flexible)["producer_epoch"] == 1  # an unknown tag in the header


def test_api_versions_answers_with_the_header_without_tags() -> None:
    frame = bytes.fromhex("00000007000002001200000004000000000000")
    assert decode_response(API_VERSIONS, 3, frame)["api_keys"] == [{"api_key": 18, "min_version": 0, "max_version": 4}]


def test_a_broker_too_old_for_our_api_versions_is_understood() -> None:
    frame = bytes.fromhex("00000007002300000001001200000002")  # in version 0, error UNSUPPORTED_VERSION
    body = decode_response(API_VERSIONS, 4, frame)
    assert body["error_code"] == 35
    assert body["api_keys"] == [{"api_key": 18, "min_version": 0, "max_version": 2}]


def test_a_response_with_the_wrong_header_is_refused() -> None:
    plain = bytes.fromhex("0000000700000000000000000000000000090001")
    with pytest.raises(ProtocolError):
        decode_response(INIT_PRODUCER_ID, 2, plain)
    with pytest.raises(ProtocolError):
        decode_response(INIT_PRODUCER_ID, 1, plain[:4] + b"\x00" + plain[4:])


@pytest.mark.parametrize("length", range(20))
def test_a_response_cut_short_is_refused(length: int) -> None:
    plain = bytes.fromhex("0000000700000000000000000000000000090001")
    assert len(plain) == 20
    with pytest.raises(ProtocolError):
        decode_response(INIT_PRODUCER_ID, 1, plain[:length])


def test_frames_come_out_whole_however_they_arrive() -> None:
    frames = [b"abcd", b"e" * 1000, b"f" * (3 * READ_AHEAD_BYTES), b"ghij", b"k" * READ_AHEAD_BYTES, b"lmno"]
    stream = b"".join(map(framed, frames))
    assert received(FrameReader(MIB), stream) == frames
    assert [bytes(frame) for frame in FrameReader(MIB).feed(stream)] == frames

    reader = FrameReader(MIB)
    assert [bytes(f) for at in range(len(stream)) for f in reader.feed(stream[at : at + 1])] == frames
    assert reader.pending_bytes == 0


def test_an_unfinished_frame_is_kept_until_its_rest_comes() -> None:
    stream = framed(b"x" * 100)
    for cut in range(1, len(stream)):
        reader = FrameReader(MIB)
        assert reader.feed(stream[:cut]) == []
        assert reader.pending_bytes == (cut if cut < 4 else cut - 4)
        assert [bytes(frame) for frame in reader.feed(stream[cut:])] == [b"x" * 100]


def test_a_frame_keeps_its_bytes_while_others_arrive() -> None:
    for size in (10, 2 * READ_AHEAD_BYTES):
        reader = FrameReader(MIB)
        (first,) = reader.feed(framed(b"a" * size))
        reader.feed(framed(b"b" * size))
        assert first == b"a" * size


@pytest.mark.parametrize("hexed", ["ffffffff", "80000000", "00000000", "00000003", "00100001", "7fffffff"])
def test_an_absurd_length_is_refused(hexed: str) -> None:
    with pytest.raises(ProtocolError, match=f"0x{hexed}"):
        FrameReader(MIB).feed(bytes.fromhex(hexed))
    with pytest.raises(ProtocolError, match=f"0x{hexed}"):
        FrameReader(MIB).feed(framed(b"abcd") + bytes.fromhex(hexed) + b"abc")


@pytest.mark.parametrize("limit", [MIB, 2**31 - 1])
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"),
        (bytes.fromhex("15030300020228"), r"TLS: set kafka\.security\.protocol"),  # an alert
        (bytes.fromhex("160303007a0200"), r"TLS: set kafka\.security\.protocol"),  # a handshake
    ],
)
def test_the_wrong_kind_of_server_is_named(answer: bytes, says: str, limit: int) -> None:
    with pytest.raises(ProtocolError, match=f"speaks {says}"):
        FrameReader(limit).feed(answer)


def test_memory_follows_the_bytes_that_came_and_not_the_claim() -> None:
    claim = 64 * MIB
    tracemalloc.start()
    try:
        reader = FrameReader(claim)
        reader.feed(claim.to_bytes(4, "big"))
        reader.writable()
        assert tracemalloc.get_traced_memory()[1] < TRUSTED_BYTES + 2 * READ_AHEAD_BYTES
        for _ in range(64):
            reader.feed(bytes(READ_AHEAD_BYTES // 2))
            reader.writable()
        assert tracemalloc.get_traced_memory()[1] < 3 * GROWTH * reader.pending_bytes
    finally:
        tracemalloc.stop()


def test_memory_of_a_frame_is_used_again_when_nobody_views_it_and_not_before() -> None:
    buffers = FrameBuffers()
    reader = FrameReader(MIB, buffers)
    size = 4 * READ_AHEAD_BYTES
    (first,) = reader.feed(framed(b"a" * size))
    held = first[10:20]  # a record, say
    memory = first.obj
    del first
    (second,) = reader.feed(framed(b"b" * size))
    assert second.obj is not memory
    assert held == b"a" * 10
    del held, second
    (third,) = reader.feed(framed(b"c" * (size - 1)))
    assert third == b"c" * (size - 1)
    reader.feed(framed(b"d" * size))
    assert third == b"c" * (size - 1)
    assert buffers.kept_bytes == 2 * size


def test_memory_that_is_kept_has_a_bound() -> None:
    buffers = FrameBuffers(keep=2, most_bytes=4 * READ_AHEAD_BYTES)
    reader = FrameReader(64 * MIB, buffers)
    frames = [frame for n in (2, 3, 4, 5, 6) for frame in reader.feed(framed(b"x" * (n * READ_AHEAD_BYTES)))]
    assert len(frames) == 5
    assert buffers.kept_bytes == 7 * READ_AHEAD_BYTES


def test_memory_that_got_too_small_is_not_kept_beside_larger() -> None:
    buffers = FrameBuffers()
    reader = FrameReader(64 * MIB, buffers)
    for blocks in (2, 3, 5):
        assert len(reader.feed(framed(b"x" * (blocks * READ_AHEAD_BYTES)))) == 1
    assert buffers.kept_bytes == 5 * READ_AHEAD_BYTES


def test_a_frame_that_fits_what_is_at_hand_is_received_without_a_copy() -> None:
    reader = FrameReader(64 * MIB)
    large = framed(b"x" * (8 * MIB))
    reader.feed(large)
    reader.feed(large[: 2 * READ_AHEAD_BYTES])
    assert len(reader.writable()) > 7 * MIB


def test_a_fetched_record_is_never_copied_on_its_way_out_of_the_frame() -> None:
    body = {"responses": [{"topic": "t", "partitions": [{"records": b"r" * 100_000}]}]}
    raw = bytes.fromhex("00000007") + FETCH.response.encode(11, body)
    (frame,) = FrameReader(MIB).feed(framed(raw))
    records = decode_response(FETCH, 11, frame)["responses"][0]["partitions"][0]["records"]
    assert records.obj is frame.obj


def test_apis_cross_processes_as_themselves() -> None:
    for api in APIS.values():
        assert pickle.loads(pickle.dumps(api)) is api
