"""Each check on each server. The rows of `SERVERS` run: those of other servers, or with KAFKASOURCE_SERVERS=releases
each minor release of Kafka. With KAFKASOURCE_RECORD=1 the run writes what it found into tests/ran.json.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections import Counter

import pytest
import ran
from kafka_servers import OTHERS, RELEASES, Running, kfake
from server_checks import CHECKS, cluster_of, read, read_by_judge, send

from kafkasource.errors import TABLE, DuplicateSequenceNumber, KafkaSourceError
from kafkasource.kafka.protocol.apis import (
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
)
from kafkasource.types import TopicPartition

KIND, ROWS = ("releases", RELEASES) if os.environ.get("KAFKASOURCE_SERVERS") == "releases" else ("servers", OTHERS)


@pytest.fixture(scope="module", params=ROWS, ids=lambda row: row.name)
def row(request):
    with request.param.start() as running:
        yield request.param, running


@pytest.mark.extended
@pytest.mark.timeout(180)
@pytest.mark.parametrize("check", CHECKS)
def test_a_job_has_of_a_server_what_it_needs(row, check):
    server, running = row
    said = "works"
    try:
        CHECKS[check](running)
    except Exception as error:
        said = shown(error) if isinstance(error, KafkaSourceError) else ""
        if check not in server.lacks:
            raise
    if os.environ.get("KAFKASOURCE_RECORD") == "1":
        ran.record(KIND, server.name, check, said)
    assert (said != "works") == (check in server.lacks), "the server has it now"


FAULTS = {
    **dict.fromkeys((PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH), ":t"),
    **dict.fromkeys((FIND_COORDINATOR, INIT_PRODUCER_ID), ""),
}


@pytest.mark.extended
@pytest.mark.parametrize("api", FAULTS, ids=lambda api: api.name)
def test_each_error_code_once_is_passed_over_or_named_and_no_row_is_lost_or_doubled(api):
    """By kfake. tests/peers/codes_of_apis.py says which must be passed over."""
    acknowledged, ended = [], {}
    with kfake("-topics", "t:1") as (servers, fail):
        server = Running(servers)
        for code in filter(None, TABLE):
            fail(f"{api.key}:{code}{FAULTS[api]}")
            row = (b"", b"%d" % code)
            try:
                send(server, "t", [row])
                if code != DuplicateSequenceNumber.CODE:  # by which a server says that it has the row
                    acknowledged.append(row)
                with cluster_of(server) as cluster:
                    cluster.groups.commit("g", {TopicPartition("t", 0): len(acknowledged)})
                    cluster.groups.committed_offsets("g", [TopicPartition("t", 0)])
                assert set(read(server, "t")) >= set(acknowledged)
            except KafkaSourceError as error:
                ended[code] = str(error)
        found = Counter(read_by_judge(server, "t", [0]))
    assert not {code: said for code, said in ended.items() if f"({code})" not in said}
    assert max(found.values()) == 1
    assert set(found) >= set(acknowledged)


def shown(error: Exception) -> str:
    """The error. Leaves out the warnings before it, and names and numbers that are others in each run."""
    text = " ".join(str(error).split()).rpartition("pykafka: ")[2]
    text = re.sub(r"(127\.0\.0\.1:\d+,? ?)+", "HOST:PORT ", text)
    text = re.sub(r"-[0-9a-f-]{6,}|within \d+ ms and \d+ attempts ", "", text)
    return textwrap.shorten(text, 130, placeholder=" …")


@pytest.mark.parametrize(("kind", "rows"), [("servers", OTHERS), ("releases", RELEASES)])
def test_what_ran_is_what_the_tables_name(kind, rows):
    found = ran.results()[kind]
    lacking = {name: {check for check, said in cells.items() if said != "works"} for name, cells in found.items()}
    assert lacking == {row.name: row.lacks.keys() for row in rows}
    assert all(cells.keys() == CHECKS.keys() for cells in found.values())
