"""Every API and version, encoded and then lied about: one length, count or tag is another number, all others right.

Each answer is a body or a `ProtocolError`, within bounds of memory. A body that is taken can be written, and reads as
the same again; kafka-python, where it takes the bytes too, reads the same.
"""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lying_encoder import Place, encoded, encoded_with_a_lie, lies
from message_bodies import EVERY_VERSION, at_length, bodies, full_body, named
from peak_memory import peak_bytes
from test_peer_codec import from_peer, peer_class

from kafkasource.errors import ProtocolError
from kafkasource.kafka.protocol.message import Message
from kafkasource.kafka.protocol.schema import Body

pytestmark = [pytest.mark.peers, pytest.mark.slow]
versions_at_length = pytest.mark.parametrize(("message", "version"), at_length(EVERY_VERSION), ids=named)


def read(message: Message, version: int, data: bytes) -> Body | None:
    """None where it is refused; anything but a ProtocolError goes through and fails the test."""
    try:
        body = message.decode(version, data)
    except ProtocolError:
        return None
    assert message.decode(version, message.encode(version, body)) == body
    return body


def read_by_the_peer(message: Message, version: int, data: bytes) -> Body | None:
    """None too where kafka-python goes another way: it takes version 0 of ApiVersions for any error."""
    if message.name == "ApiVersionsResponse" and data[:2] != b"\0\0":
        return None
    try:
        theirs = peer_class(message).decode(data, version=version)
        return from_peer(message.fields, theirs, version)
    except Exception:  # whatever it likes
        return None


@versions_at_length
def test_told_the_truth_the_encoder_of_this_suite_writes_what_ours_writes(message: Message, version: int) -> None:
    for body in (full_body(message, version), {}):
        assert encoded(message, version, body)[0] == message.encode(version, body)


@versions_at_length
def test_a_lie_in_any_place_is_refused_or_reads_as_something_that_can_be_said(message: Message, version: int) -> None:
    body = full_body(message, version)
    raw, places = encoded(message, version, body)
    chance = random.Random(f"{message.name} {version}")
    for lie_at, place in enumerate(places):
        for lie in chance.sample(lies(place), 4):
            liar = encoded_with_a_lie(message, version, body, lie_at, lie)
            ours = read(message, version, liar)
            if ours is not None:
                assert read_by_the_peer(message, version, liar) in (None, ours), (place, lie)
    assert read(message, version, raw) is not None


@versions_at_length
@settings(max_examples=5, deadline=1000)
@given(data=st.data())
def test_a_lie_about_any_body_is_refused_or_reads_as_something_that_can_be_said(
    message: Message, version: int, data: st.DataObject
) -> None:
    body = data.draw(bodies(message, version))
    _, places = encoded(message, version, body)
    if not places:
        return
    lie_at = data.draw(st.integers(0, len(places) - 1))
    lie = data.draw(st.sampled_from(lies(places[lie_at])))
    raw = encoded_with_a_lie(message, version, body, lie_at, lie)
    cut = data.draw(st.none() | st.integers(0, len(raw)))
    read(message, version, raw[:cut])


@pytest.mark.parametrize("form", ["varint", "int16", "int32"])
def test_the_lies_hold_what_matters(form: str) -> None:
    told = set(lies(Place("count", form, 5)))
    if form == "varint":
        assert {b"\x00", b"\x06", b"\xff\xff\xff\xff\x07", b"\x85\x00", b"\xff" * 5} <= told
    else:
        size = {"int16": 2, "int32": 4}[form]
        assert {(n).to_bytes(size, "big", signed=True) for n in (-2, -1, 0, 4, 6, (1 << 8 * size - 1) - 1)} <= told
    assert not {b"\x05", b"\x00\x05", b"\x00\x00\x00\x05"} & told


@versions_at_length
def test_no_lie_costs_memory(message: Message, version: int) -> None:
    body = full_body(message, version)
    raw, places = encoded(message, version, body)
    message.decode(version, raw)  # compiled before we measure
    liars = [
        encoded_with_a_lie(message, version, body, lie_at, max(lies(place), key=lambda lie: (len(lie) <= 5, lie)))
        for lie_at, place in enumerate(places)
    ]

    def decode_all() -> None:
        for liar in liars:
            with contextlib.suppress(ProtocolError):
                message.decode(version, liar)

    allowed = (256 << 10) + 100 * len(raw)
    assert peak_bytes(decode_all, allowed) <= allowed
