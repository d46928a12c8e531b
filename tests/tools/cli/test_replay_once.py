"""A replay of dead letters sends each once, whatever brokers forget or leave out: on a broker in this process."""

import pyarrow as pa
import pytest
from fake_broker import FakeKafka, FakeTopic, serving

from kafkasource import options
from kafkasource.errors import BrokerError, MessageTooLarge
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.kafka.protocol.apis import OFFSET_COMMIT, PRODUCE
from kafkasource.kafka.records.arrow.columns import ROW_SCHEMA_WITH_HEADERS
from kafkasource.kafka.records.batches import decode
from kafkasource.tools.admin.dead_letters import LetterOrigin
from kafkasource.tools.admin.replay import Choice, Replay, group_of, kept_group_of, own_headers

AT_0 = {"key": None, "timestamp": 0, "timestampType": 0}
CUT, WIDE = "the bytes end", "bytes are left over"


class Brokers(FakeKafka):
    """Leave partitions out that are not named, whose first offset a transaction has just brought."""

    def _offset_fetch(self, request):
        if any(group["topics"] is None for group in request.body["groups"]):
            return {"groups": [{"group_id": group["group_id"], "topics": []} for group in request.body["groups"]]}
        return super()._offset_fetch(request)

    def _topic_row(self, name):
        code = {"taken": 17, "secret": 29}.get(name)  # INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED
        return {"error_code": code, "name": name, "partitions": []} if code else super()._topic_row(name)

    def __init__(self, **known):
        super().__init__(**known)
        self.refuses = set()  # topics that take no record: MESSAGE_TOO_LARGE

    def _produce_code(self, request, topic, data):
        return 10 if topic in self.refuses else super()._produce_code(request, topic, data)

    def written_to(self, topic):
        """The one record."""
        ids = {topic.topic_id: name for name, topic in self.topics.items()}
        (data,) = (
            topic_data["partition_data"][0]["records"]
            for request in self.asked(PRODUCE)
            for topic_data in request.body["topic_data"]
            if topic in (topic_data.get("name"), ids.get(topic_data.get("topic_id")))
        )
        place = {"topic": topic, "partition": 0, "start_offset": 0, "end_offset": 1 << 40}
        limits = {"max_decompressed_bytes": 1 << 20, "aborted_transactions": None}
        (batch,) = decode(bytes(data), include_headers=True, **place, **limits).batches
        (row,) = batch.to_pylist()
        return row

    def forget(self, group):
        """Drop the offsets, as a broker does after offsets.retention.minutes."""
        for kept in (self.committed, self.committed_metadata):
            for key in [key for key in kept if key[0] == group]:
                del kept[key]


class Letters:
    """A reader's stand-in: the dead letters of `dlq`, from the group's committed offset on. `letters`: their reasons,
    or further headers."""

    def __init__(self, kafka, letters):
        self.kafka, self.letters = kafka, letters
        self.cluster = Cluster(ClientConfig.of(kafka.bootstrap_servers))

    def __iter__(self):
        start = self.kafka.committed.get((group_of("dlq"), "dlq", 0), 0)
        rows = [self._row(offset, letter) for offset, letter in enumerate(self.letters) if offset >= start]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=ROW_SCHEMA_WITH_HEADERS)

    def _row(self, offset, letter):
        if letter is None:
            return {"value": b"no letter", "headers": [], "topic": "dlq", "partition": 0, "offset": offset} | AT_0
        said = {"topic": "orders", "partition": "0", "offset": str(offset), "message": CUT}
        said |= {"message": letter} if isinstance(letter, str) else letter
        headers = [{"key": f"__dlq.errors.{name}", "value": text.encode()} for name, text in said.items()]
        return {"value": b"v", "headers": headers, "topic": "dlq", "partition": 0, "offset": offset} | AT_0


@pytest.fixture
def kafka():
    with serving(Brokers(topics={"dlq": 1, "orders": 1})) as kafka:
        yield kafka


def run(kafka, letters, *, dry=False, **choice):
    reader = Letters(kafka, letters)
    parsed = options.parse({"kafka.bootstrap.servers": kafka.bootstrap_servers, "kafka.acks": "all"}, "sink")
    with reader.cluster:
        replay = Replay(reader, parsed, Choice("dlq", **choice))
        replay.count() if dry else replay.run()
    return replay


def replayed(kafka, reasons, reason=""):
    """(sent, left)"""
    replay = run(kafka, reasons, reason=reason)
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
    kept = [request for request in kafka.asked(OFFSET_COMMIT) if request.body["group_id"] == kept_group_of("dlq")]
    assert kept
    assert all(request.body["retention_time_ms"] > 50 * 365 * 24 * 3_600_000 for request in kept)


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
    """Kafka 3.9 may call a transaction complete before a request that names no partition gets its group's offsets."""
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


GONE, NO_PARTITION, HERE = {"topic": "gone"}, {"partition": "7"}, {}


@pytest.mark.parametrize("dry", [True, False])
@pytest.mark.parametrize(
    ("letter", "why"),
    [
        (GONE, "topic 'gone' does not exist"),
        (NO_PARTITION, "topic 'orders' has no partition 7"),
        ({"topic": "not a name!"}, "'not a name!' is not the name of a topic"),
        ({"topic": "x" * 40_000}, f"'{'x' * 120}...' is not the name of a topic"),  # more than a request can name
        ({"topic": "taken"}, "topic 'taken': INVALID_TOPIC_EXCEPTION"),
        ({"topic": "secret"}, "topic 'secret': TOPIC_AUTHORIZATION_FAILED"),
        ({"cluster.id": "another"}, "topic 'orders' is of cluster another, and this is fake-cluster"),
    ],
)
def test_a_letter_that_cannot_go_back_holds_up_no_other_and_is_counted_with_the_reason(kafka, letter, why, dry):
    for sent in (3, 3 if dry else 0):
        replay = run(kafka, [HERE, letter, HERE, letter, HERE], dry=dry)
        assert (replay.sent.total(), replay.left) == (sent, 0)
        ((said, count),) = replay.passed_over.items()
        assert said.startswith(why)
        assert count == 2


def test_a_letter_that_its_topic_refuses_holds_up_no_other_and_is_a_dead_letter_again(kafka):
    kafka.refuses.add("orders")
    kafka.topics["payments"] = FakeTopic([1])
    letters = [HERE, {"topic": "payments"}]
    replay = run(kafka, letters)
    assert replay.sent == {"payments": 1}
    assert replay.passed_over == {"their topics refuse them: dead letters of dlq again": 1}
    again = LetterOrigin.of(kafka.written_to("dlq")["headers"])
    assert (again.topic, again.partition, again.cluster_id) == ("orders", "0", "fake-cluster")
    assert again.reason.startswith("MESSAGE_TOO_LARGE")
    assert run(kafka, letters).sent == {}  # the old one is done
    kafka.refuses.clear()
    assert run(kafka, [*letters, HERE]).sent == {"orders": 1}
    kafka.refuses.add("payments")
    with pytest.raises(MessageTooLarge, match="payments"):
        run(kafka, [*letters, HERE, HERE], to="payments")


def test_a_letter_that_could_not_go_back_goes_when_its_topic_is_there_again(kafka):
    assert run(kafka, [HERE, GONE, HERE]).sent == {"orders": 2}
    kafka.topics["gone"] = FakeTopic([1])
    assert run(kafka, [HERE, GONE, HERE]).sent == {"gone": 1}
    assert run(kafka, [HERE, GONE, HERE]).sent == {}


def test_letters_of_this_cluster_go_back_and_of_another_only_to_a_topic_that_is_named(kafka):
    """The topic of that name here may be another one."""
    of_this, of_another = {"cluster.id": "fake-cluster"}, {"cluster.id": "another"}
    replay = run(kafka, [of_this, of_another])
    assert (replay.sent, replay.passed_over.total()) == ({"orders": 1}, 1)
    assert run(kafka, [of_this, of_another], to="orders").sent == {"orders": 1}


def test_the_cluster_of_an_earlier_life_as_a_dead_letter_says_nothing_of_the_later_one():
    """A record of another cluster's that was copied here, and that the broker here has refused since."""
    first = [("topic", b"orders"), ("message", b"x"), ("cluster.id", b"another")]
    second = [("topic", b"orders"), ("message", b"x")]
    headers = [{"key": f"__dlq.errors.{name}", "value": text} for name, text in (*first, *second)]
    assert LetterOrigin.of(headers).cluster_id is None
    assert LetterOrigin.of(headers[: len(first)]).cluster_id == "another"


def test_other_records_stay_and_rows_as_json_are_passed_over_and_counted(kafka):
    kafka.topics["payments"] = FakeTopic([1])
    letters = [HERE, {"value.format": "json"}, None, HERE]
    for dry in (True, False):
        replay = run(kafka, letters, to="payments", dry=dry)
        assert (replay.sent, replay.left, replay.rows) == ({"payments": 2}, 1, 1)
    assert run(kafka, letters, to="payments").sent == {}


def test_one_topics_letters_can_go_back_alone(kafka):
    kafka.topics["payments"] = FakeTopic([1])
    letters = [HERE, {"topic": "payments"}, GONE, HERE]
    replay = run(kafka, letters, from_topic="payments")
    assert (replay.sent, replay.left, replay.passed_over) == ({"payments": 1}, 3, {})
    replay = run(kafka, letters, from_topic="gone", to="payments")
    assert (replay.sent, replay.left, replay.passed_over) == ({"payments": 1}, 2, {})
    assert run(kafka, letters).sent == {"orders": 2}


def test_headers_of_an_earlier_life_as_a_dead_letter_go_back_with_the_record():
    def life(*names):
        return [{"key": f"__dlq.errors.{name}", "value": b"x"} for name in names]

    row = life("topic", "message", "field", "value.format")
    assert own_headers([*row, *life("topic", "partition", "offset", "message")]) == row
    read = life("topic", "partition", "offset", "message")
    assert own_headers([*read, *life("topic", "partition", "message")]) == read  # refused by a broker: no offset
    assert own_headers(read) is None
