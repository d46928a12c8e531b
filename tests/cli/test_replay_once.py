"""A replay of dead letters sends each once, whatever brokers forget or leave out: on a broker in this process."""

import pyarrow as pa
import pytest
from fake_broker import FakeKafka, serving

from kafkasource import options
from kafkasource.admin.replay import Choice, Replay, group_of, kept_group_of, own_headers
from kafkasource.client.cluster import Cluster
from kafkasource.client.config import ClientConfig
from kafkasource.errors import BrokerError
from kafkasource.protocol.apis import OFFSET_COMMIT, PRODUCE
from kafkasource.records.arrow.columns import ROW_SCHEMA_WITH_HEADERS

CUT, WIDE = "the bytes end", "bytes are left over"


class Brokers(FakeKafka):
    """Leave partitions out that are not named, whose first offset a transaction has just brought."""

    def _offset_fetch(self, request):
        if any(group["topics"] is None for group in request.body["groups"]):
            return {"groups": [{"group_id": each["group_id"], "topics": []} for each in request.body["groups"]]}
        return super()._offset_fetch(request)

    def forget(self, group):
        """As after offsets.retention.minutes."""
        for kept in (self.committed, self.committed_metadata):
            for key in [key for key in kept if key[0] == group]:
                del kept[key]


class Letters:
    """What `Replay` needs of a reader: the dead letters of `dlq`, from what the group has committed."""

    def __init__(self, kafka, reasons):
        self.kafka, self.reasons = kafka, reasons
        self.cluster = Cluster(ClientConfig.of(kafka.bootstrap_servers))

    def __iter__(self):
        start = self.kafka.committed.get((group_of("dlq"), "dlq", 0), 0)
        rows = [self._row(offset, reason) for offset, reason in enumerate(self.reasons) if offset >= start]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=ROW_SCHEMA_WITH_HEADERS)

    def _row(self, offset, reason):
        said = {"topic": "orders", "partition": "0", "offset": str(offset), "message": reason}
        headers = [{"key": f"__dlq.errors.{name}", "value": text.encode()} for name, text in said.items()]
        place = {"topic": "dlq", "partition": 0, "offset": offset, "timestamp": 0, "timestampType": 0}
        return {"key": None, "value": b"v", "headers": headers, **place}


@pytest.fixture
def kafka():
    with serving(Brokers(topics={"dlq": 1, "orders": 1})) as kafka:
        yield kafka


def replayed(kafka, reasons, reason=""):
    """(sent, left)"""
    letters = Letters(kafka, reasons)
    parsed = options.parse({"kafka.bootstrap.servers": kafka.bootstrap_servers, "kafka.acks": "all"}, "sink")
    with letters.cluster:
        replay = Replay(letters, parsed, Choice("dlq", reason))
        replay.run()
    return replay.sent.total(), replay.left


def test_what_was_sent_is_known_when_brokers_have_forgotten_the_offsets_of_the_group(kafka):
    assert replayed(kafka, [CUT, CUT, WIDE, CUT], CUT) == (3, 1)
    kafka.forget(group_of("dlq"))
    assert replayed(kafka, [CUT, CUT, WIDE, CUT], CUT) == (0, 1)
    assert replayed(kafka, [CUT, CUT, WIDE, CUT, CUT]) == (2, 0)
    kafka.forget(group_of("dlq"))
    assert replayed(kafka, [CUT, CUT, WIDE, CUT, CUT]) == (0, 0)


def test_the_copy_is_kept_for_longer_than_brokers_keep_offsets(kafka):
    replayed(kafka, [CUT])
    kept = [each for each in kafka.asked(OFFSET_COMMIT) if each.body["group_id"] == kept_group_of("dlq")]
    assert kept
    assert all(each.body["retention_time_ms"] > 50 * 365 * 24 * 3_600_000 for each in kept)


def test_a_run_makes_good_the_copy_that_a_killed_run_has_not_written(kafka):
    replayed(kafka, [CUT, CUT])
    kafka.forget(kept_group_of("dlq"))
    assert replayed(kafka, [CUT, CUT]) == (0, 0)
    kafka.forget(group_of("dlq"))
    assert replayed(kafka, [CUT, CUT]) == (0, 0)


def test_an_older_copy_of_a_run_that_was_fenced_takes_nothing_back(kafka):
    replayed(kafka, [CUT])
    older = {key: kafka.committed[key] for key in kafka.committed if key[0] == kept_group_of("dlq")}
    replayed(kafka, [CUT, CUT])
    kafka.committed.update(older)
    assert replayed(kafka, [CUT, CUT]) == (0, 0)


def test_ranges_that_a_transaction_has_just_brought_are_seen(kafka):
    """Kafka 3.9 may call a transaction complete before its group's offsets are there for who names no partition."""
    assert replayed(kafka, [WIDE, CUT, CUT], CUT) == (2, 1)
    kafka.forget(kept_group_of("dlq"))
    assert replayed(kafka, [WIDE, CUT, CUT]) == (1, 0)


def test_nothing_is_sent_where_the_copy_may_not_be_written(kafka):
    refused = kafka._offset_commit

    def refuse(request):
        answer = refused(request)
        for topic in answer["topics"]:
            for row in topic["partitions"]:
                row["error_code"] = 30
        return answer

    kafka._offset_commit = refuse
    with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
        replayed(kafka, [CUT])
    assert kafka.asked(PRODUCE) == []


def test_headers_of_an_earlier_life_as_a_dead_letter_go_back_with_the_record():
    def life(*names):
        return [{"key": f"__dlq.errors.{name}", "value": b"x"} for name in names]

    row = life("topic", "message", "field", "value.format")
    assert own_headers([*row, *life("topic", "partition", "offset", "message")]) == row
    read = life("topic", "partition", "offset", "message")
    assert own_headers([*read, *life("topic", "partition", "message")]) == read  # refused by a broker: no offset
    assert own_headers(read) is None
