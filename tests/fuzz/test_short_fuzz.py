"""A short run of what `make fuzz` runs long, with a seed of its own, and proof that it would notice.

KAFKASOURCE_FUZZ_INPUTS asks for more.
"""

from __future__ import annotations

import os
import random
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product, repeat
from pathlib import Path

import pytest
import run
import under_way
from frame_mutations import (
    FetchedRecords,
    captured_frames,
    fetched_records,
    frames,
    with_records,
    with_right_crcs,
)

from kafkasource.kafka.protocol.apis import APIS, FETCH
from kafkasource.kafka.protocol.frames import decode_response
from kafkasource.kafka.records.batches import decode_all

pytestmark = pytest.mark.peers

INPUTS = int(os.environ.get("KAFKASOURCE_FUZZ_INPUTS", 14_000))


def test_bad_input_is_an_error_of_ours_or_taken() -> None:
    found = run.feed(20_261_121, range(INPUTS))
    assert found.failures == []
    for target in run.TARGETS:
        refused = sum(count for (name, _), count in found.refused.items() if name == target.name)
        assert refused > 3, target
        assert found.taken[target.name] > 3, target


def test_there_is_a_frame_of_every_api_and_version_most_of_them_from_brokers() -> None:
    every = {(api.name, v) for api in APIS.values() for v in range(api.versions[0], api.versions[1] + 1)}
    assert {(frame.api.name, frame.version) for frame in frames()} == every
    captured = {frame.api.name for frame in captured_frames()}
    assert captured >= {"Fetch", "Produce", "Metadata", "ListOffsets", "OffsetFetch", "FindCoordinator", "ApiVersions"}
    for frame in frames():
        decode_response(frame.api, frame.version, frame.data)


def test_the_records_are_of_every_format_and_codec() -> None:
    kinds = set()
    for fetched in fetched_records():
        magic = fetched.records[16]
        kinds.add((magic, fetched.records[22 if magic == 2 else 17] & 7))
    assert kinds == {*product((0, 1), range(4)), *product((2,), range(5))}


def test_records_put_back_unharmed_give_the_same_frame() -> None:
    assert len(fetched_records()) > 20
    for fetched in fetched_records():
        assert with_records(fetched, fetched.records) == fetched.frame.data
        assert with_right_crcs(fetched.records) == fetched.records


def rows(fetched: FetchedRecords) -> int:
    (topic,) = decode_response(FETCH, fetched.frame.version, fetched.frame.data)["responses"]
    asked = {"topic": "t", "partition": 0, "start_offset": 0, "end_offset": 1 << 62}
    return sum(int(decoded.num_rows) for decoded in decode_all(topic["partitions"][0]["records"], **asked))


def test_the_captured_records_are_read() -> None:
    assert all(rows(fetched) for fetched in fetched_records())


def planted(monkeypatch: pytest.MonkeyPatch, feed: object) -> run.Found:
    monkeypatch.setattr(run, "TARGETS", [replace(target, feed=feed) for target in run.TARGETS])
    return run.feed(1, range(3))


def test_an_error_that_is_not_ours_is_found_with_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def feed(rng: random.Random) -> bool:
        raise KeyError("planted")

    found = planted(monkeypatch, feed)
    assert len(found.failures) == 3
    assert "input 2 of seed 1" in found.failures[2]
    assert "planted" in found.failures[2]


def test_a_hang_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def feed(rng: random.Random) -> bool:
        while True:
            try:
                while True:
                    pass
            except Exception:  # what catches too much
                pass

    monkeypatch.setattr(run, "SECONDS", 0.05)
    assert all("TooSlow" in failure for failure in planted(monkeypatch, feed).failures)


inputs = 0  # of this process


def computes_for_ever(rng: random.Random) -> bool:
    global inputs
    inputs += 1
    return inputs < 4 or bool(deque(repeat(0), maxlen=0))  # in C, where no handler of Python's comes to run


def waits_for_ever(rng: random.Random) -> bool:
    global inputs
    inputs += 1
    return inputs < 4 or threading.Event().wait()


def start_of_a_process(feed: Callable[[random.Random], bool], folder: Path) -> None:
    """Of one whose every target is `feed`, with short limits. A short one on the wall only where it is the proof."""
    under_way.HANG_SECONDS = 1
    if feed is waits_for_ever:
        under_way.WAIT_SECONDS = 5
    run.TARGETS = [replace(target, feed=feed) for target in run.TARGETS]
    run.start_of_a_process(folder)


@pytest.mark.parametrize("feed", [computes_for_ever, waits_for_ever])
def test_a_process_that_hangs_ends_the_run_with_the_number_of_its_input(
    monkeypatch: pytest.MonkeyPatch, feed: Callable[[random.Random], bool]
) -> None:
    monkeypatch.setattr(run, "start_of_a_process", partial(start_of_a_process, feed))
    assert run.run(1, 6, (), processes=1).failures == ["a process died; the last inputs of seed 1 were 3"]
