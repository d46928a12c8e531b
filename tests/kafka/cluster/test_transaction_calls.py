"""Transactions as the client asks for them: dialects, retries, and what a lost answer may not lead to."""

import pytest
from fake_broker import CLOSE, SILENCE, Cut, Error, FakeKafka, FakeNet

from kafkasource.errors import (
    DeadlineExceeded,
    InvalidProducerIdMapping,
    ProducerFenced,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
    UnsupportedApiVersion,
)
from kafkasource.kafka.cluster.transactions import add_partitions_body, check_added_partitions
from kafkasource.kafka.protocol.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    API_VERSIONS,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    OFFSET_FETCH,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from kafkasource.types import ProducerId, TopicPartition

T = [TopicPartition("t", i) for i in range(4)]
dialects = pytest.mark.parametrize("tv", [1, 2])
passing_codes = pytest.mark.parametrize("code", [14, 15, 16, 51])
lost_answers = pytest.mark.parametrize("fault", [CLOSE, Cut(0), Cut(9), SILENCE], ids=str)


@pytest.fixture
def kafka():
    return FakeKafka(nodes=3, topics={"t": 4})


@pytest.fixture
def net(kafka):
    return FakeNet(kafka)


@pytest.fixture
def cluster(net):
    return net.cluster(request_timeout_ms=5_000)


def opened(cluster, kafka, tv, name="task", partition=T[0]):
    """A producer with an open transaction that wrote to a partition."""
    kafka.transaction_version = tv
    producer = cluster.transactions.init_producer_id(name)
    if tv == 1:
        cluster.transactions.add_partitions(name, producer, [partition])
    else:  # as Produce v12 does
        kafka.transactions[name].state = "Ongoing"
        kafka.transactions[name].partitions.add((partition.topic, partition.partition))
    return producer


# Dialects.


@pytest.mark.parametrize(("level", "tv"), [(0, 1), (1, 1), (2, 2), (3, 2)])
def test_the_dialect_is_what_the_cluster_has_finalized_and_asked_anew_each_time(cluster, kafka, level, tv):
    kafka.transaction_version = 3 - tv
    assert cluster.transactions.version() == 3 - tv
    kafka.transaction_version = level
    assert cluster.transactions.version() == tv


def test_a_broker_that_tells_no_features_speaks_dialect_1(cluster, kafka):
    kafka.versions[API_VERSIONS.key] = (0, 2)
    assert cluster.transactions.version() == 1


@pytest.mark.parametrize(("api", "last"), [(END_TXN, 4), (TXN_OFFSET_COMMIT, 4), (PRODUCE, 11)])
def test_a_server_that_finalizes_dialect_2_and_lacks_its_requests_is_spoken_to_in_dialect_1(cluster, kafka, api, last):
    """Else a task would write, and the commit would find no request to make."""
    kafka.versions[api.key] = (0, last)
    assert cluster.transactions.version() == 1


@dialects
def test_each_dialect_keeps_to_its_versions_whatever_the_broker_offers(cluster, kafka, tv):
    producer = opened(cluster, kafka, tv)
    if tv == 1:
        cluster.transactions.add_offsets("task", producer, "g")
    cluster.transactions.commit_offsets("task", producer, "g", {T[1]: (5, "text")}, tv)
    after = cluster.transactions.end("task", producer, True, tv)
    assert {request.version for request in kafka.asked(END_TXN)} == {4 if tv == 1 else 5}
    assert {request.version for request in kafka.asked(TXN_OFFSET_COMMIT)} == {4 if tv == 1 else 5}
    assert {request.version for request in kafka.asked(ADD_PARTITIONS_TO_TXN)} <= {3}  # later ones are for brokers
    assert after == (producer if tv == 1 else ProducerId(producer.producer_id, 1))
    assert kafka.transactions["task"].state == "CompleteCommit"


def test_a_transaction_of_dialect_2_is_not_ended_in_another(cluster, kafka):
    producer = opened(cluster, kafka, 2)
    kafka.versions[END_TXN.key] = kafka.versions[TXN_OFFSET_COMMIT.key] = (0, 4)
    with pytest.raises(UnsupportedApiVersion, match=r"transaction\.version 2"):
        cluster.transactions.end("task", producer, True, 2)
    with pytest.raises(UnsupportedApiVersion, match=r"transaction\.version 2"):
        cluster.transactions.commit_offsets("task", producer, "g", {T[0]: (1, "")}, 2)
    assert kafka.transactions["task"].state == "Ongoing"
    assert not kafka.asked(END_TXN)


# One transaction.


@pytest.mark.parametrize("code", [-1, 999])
def test_a_producer_id_that_a_broker_fails_to_give_for_an_unknown_reason_is_asked_for_again(cluster, kafka, code):
    """librdkafka does so; each answer has an epoch of its own, so a request may be repeated."""
    kafka.fault(INIT_PRODUCER_ID, Error(code))
    assert cluster.transactions.init_producer_id("task").producer_id > 0
    kafka.fault(INIT_PRODUCER_ID, Error(code))
    assert cluster.transactions.init_producer_id().producer_id > 0


@dialects
@passing_codes
def test_a_passing_error_is_waited_off(cluster, kafka, net, tv, code):
    start = net.now
    kafka.transaction_version = tv
    for api in (INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT, END_TXN):
        kafka.fault(api, Error(code), Error(code))
    producer = cluster.transactions.init_producer_id("task")
    if tv == 1:
        cluster.transactions.add_partitions("task", producer, T)
        cluster.transactions.add_offsets("task", producer, "g")
    cluster.transactions.commit_offsets("task", producer, "g", {T[0]: (7, "x")}, tv)
    cluster.transactions.end("task", producer, True, tv)
    assert kafka.committed == {("g", "t", 0): 7}
    assert {(request.version, str(request.body)) for request in kafka.asked(END_TXN)} == {
        (kafka.asked(END_TXN)[0].version, str(kafka.asked(END_TXN)[0].body))  # always the same request
    }
    assert net.now - start < 3


def test_markers_that_are_being_written_cost_milliseconds(cluster, kafka, net):
    cluster.transactions.init_producer_id("task")
    kafka.fault(INIT_PRODUCER_ID, Error(51), Error(51))
    start = net.now
    cluster.transactions.init_producer_id("task")
    assert net.now - start < 0.04


@dialects
@lost_answers
@pytest.mark.parametrize("commit", [True, False])
def test_an_end_whose_answer_was_lost_is_asked_again_until_it_is_definite(cluster, kafka, tv, fault, commit):
    producer = opened(cluster, kafka, tv)
    kafka.fault(END_TXN, fault, fault)
    after = cluster.transactions.end("task", producer, commit, tv)
    assert kafka.transactions["task"].state == ("CompleteCommit" if commit else "CompleteAbort")
    assert after.producer_epoch == kafka.transactions["task"].epoch == producer.producer_epoch + (tv == 2)
    assert len({str(request[2:4]) for request in kafka.asked(END_TXN)}) == 1
    assert len(kafka.asked(END_TXN)) == 3


@dialects
def test_a_coordinator_that_moved_is_found_again(cluster, kafka, tv):
    producer = opened(cluster, kafka, tv)
    kafka.coordinators["task"] = 3
    cluster.transactions.end("task", producer, True, tv)
    assert [request.node_id for request in kafka.asked(END_TXN)] == [1, 3]


def test_an_end_that_stays_unknown_is_an_error_that_says_so(cluster, kafka, net):
    producer = opened(cluster, kafka, 2)
    kafka.fault(END_TXN, *[Error(51)] * 10_000)
    start = net.now
    with pytest.raises(DeadlineExceeded, match=r"EndTxn of 'task'.*CONCURRENT_TRANSACTIONS"):
        cluster.transactions.end("task", producer, True, 2)
    assert 58 < net.now - start <= 60


def test_an_attempt_that_the_deadline_cut_short_does_not_hide_what_the_broker_answered_before(cluster, kafka):
    producer = opened(cluster, kafka, 2)
    kafka.fault(END_TXN, Error(51), *[SILENCE] * 100)
    with pytest.raises(DeadlineExceeded, match=r"no complete response to EndTxn.*; before it: .*CONCURRENT"):
        cluster.transactions.end("task", producer, True, 2)


# Partitions of dialect 1.


def test_the_partition_at_fault_is_named_not_those_that_were_not_tried(cluster, net):
    producer = cluster.transactions.init_producer_id("task")
    absent = TopicPartition("t", 999)
    start = net.now
    with pytest.raises(UnknownTopicOrPartition, match="t-999"):
        cluster.transactions.add_partitions("task", producer, [T[0], absent, T[1]])
    assert 4 < net.now - start < 7  # it might have been made a moment ago


def test_a_fatal_code_of_one_partition_counts_more_than_a_passing_one_of_another():
    def answer(*codes):
        rows = [{"partition_index": i, "partition_error_code": code} for i, code in enumerate(codes)]
        return {"results_by_topic_v3_and_below": [{"name": "t", "results_by_partition": rows}]}

    assert check_added_partitions(answer(0, 0), "x")
    with pytest.raises(TopicAuthorizationFailed, match="x, t-2"):
        check_added_partitions(answer(55, 3, 29, 55), "x")
    with pytest.raises(UnknownTopicOrPartition):
        check_added_partitions(answer(55, 3), "x")


def test_partitions_are_added_topic_by_topic():
    other = TopicPartition("u", 0)
    assert add_partitions_body("task", ProducerId(7, 3), [T[0], other, T[2]]) == {
        "v3_and_below_transactional_id": "task",
        "v3_and_below_producer_id": 7,
        "v3_and_below_producer_epoch": 3,
        "v3_and_below_topics": [{"name": "t", "partitions": [0, 2]}, {"name": "u", "partitions": [0]}],
    }


# Many at once.


def many(cluster, kafka, tv, count=6):
    kafka.coordinators.update({f"task-{i}": 1 + i % 3 for i in range(count)})
    return [(f"task-{i}", opened(cluster, kafka, tv, f"task-{i}")) for i in range(count)]


@dialects
def test_many_are_ended_at_their_coordinators_found_with_one_request(cluster, kafka, net, tv):
    transactions = many(cluster, kafka, tv)
    fresh = net.cluster()
    kafka.requests.clear()
    assert fresh.transactions.end_each(transactions, True, tv) == dict.fromkeys(dict(transactions))
    assert {txn.state for txn in kafka.transactions.values()} == {"CompleteCommit"}
    assert len(kafka.asked(FIND_COORDINATOR)) == 1
    assert {(r.body["transactional_id"], r.node_id) for r in kafka.asked(END_TXN)} == {
        (f"task-{i}", 1 + i % 3) for i in range(6)
    }
    assert fresh.transactions.end_each(transactions, True, tv) == dict.fromkeys(dict(transactions))  # as a restart does
    assert fresh.transactions.end_each([], True, tv) == {}


@dialects
def test_one_that_was_lost_does_not_keep_the_others(cluster, kafka, tv):
    transactions = many(cluster, kafka, tv)
    cluster.transactions.init_producer_id("task-2")
    kafka.transactions.pop("task-4")
    ended = cluster.transactions.end_each(transactions, True, tv)
    assert isinstance(ended.pop("task-2"), ProducerFenced)
    assert isinstance(ended.pop("task-4"), InvalidProducerIdMapping)
    assert set(ended.values()) == {None}


@dialects
@pytest.mark.parametrize("fault", [Error(14), Error(15), Error(16), Error(51), CLOSE, Cut(3), SILENCE], ids=str)
def test_only_what_is_not_definite_is_asked_again(cluster, kafka, tv, fault):
    transactions = many(cluster, kafka, tv)
    kafka.fault(END_TXN, fault)
    assert set(cluster.transactions.end_each(transactions, True, tv).values()) == {None}
    assert 1 <= len(kafka.asked(END_TXN)) - 6 <= 2  # those of the connection that ended
    assert len({request.version for request in kafka.asked(END_TXN)}) == 1
    assert {txn.state for txn in kafka.transactions.values()} == {"CompleteCommit"}


def test_a_coordinator_that_moves_is_followed(cluster, kafka):
    transactions = many(cluster, kafka, 2)
    kafka.coordinators.update({name: 2 for name, _ in transactions})
    assert set(cluster.transactions.end_each(transactions, False, 2).values()) == {None}


def test_brokers_that_find_one_coordinator_at_a_time_are_asked_so(cluster, kafka, net):
    kafka.versions[FIND_COORDINATOR.key] = (0, 3)
    transactions = many(cluster, kafka, 1)
    assert set(net.cluster().transactions.end_each(transactions, True, 1).values()) == {None}


def test_an_id_that_may_not_be_used_is_an_error_of_its_own(cluster, kafka, net):
    transactions = many(cluster, kafka, 2, 2)
    fresh = net.cluster()
    kafka.fault(FIND_COORDINATOR, Error(53))
    assert all(
        isinstance(e, TransactionalIdAuthorizationFailed)
        for e in fresh.transactions.end_each(transactions, True, 2).values()
    )


def test_many_ids_are_fenced_at_once(cluster, kafka):
    transactions = dict(many(cluster, kafka, 2))
    found = cluster.transactions.init_producer_ids([*transactions, "new"])
    assert found["new"] == ProducerId(7, 0)
    assert all(found[name].producer_epoch == 2 for name in transactions)
    assert {txn.state for txn in kafka.transactions.values()} == {"Empty"}


# Offsets in transactions.


@dialects
@pytest.mark.parametrize("last_version", [7, 9])
def test_offsets_of_an_open_transaction_are_waited_for(cluster, kafka, net, tv, last_version):
    kafka.versions[OFFSET_FETCH.key] = (1, last_version)
    kafka.committed["g", "t", 0] = 1
    producer = opened(cluster, kafka, tv)
    if tv == 1:
        cluster.transactions.add_offsets("task", producer, "g")
    cluster.transactions.commit_offsets("task", producer, "g", {T[0]: (2, '{"batchId": 2}')}, tv)
    assert cluster.groups.committed("g", T[:2], require_stable=False) == {T[0]: (1, ""), T[1]: None}
    net.later(3, lambda: kafka._end(kafka.transactions["task"], commit=True))
    start = net.now
    assert cluster.groups.committed("g", T[:2]) == {T[0]: (2, '{"batchId": 2}'), T[1]: None}
    assert 3 <= net.now - start < 5
    assert cluster.groups.committed("g") == {T[0]: (2, '{"batchId": 2}')}
    assert cluster.groups.committed_offsets("g", T[:2]) == {T[0]: 2, T[1]: None}


# What an operator sees.


def test_open_transactions_are_listed_by_every_coordinator(cluster, kafka):
    transactions = many(cluster, kafka, 2)
    opened(cluster, kafka, 2, "else")
    cluster.transactions.end(*transactions[0], True, 2)
    listed = cluster.transactions.list("task-")
    assert [(txn.transactional_id, txn.state, txn.coordinator_id) for txn in listed] == [
        (f"task-{i}", "Ongoing", 1 + i % 3) for i in range(1, 6)
    ]
    assert len(cluster.transactions.list("task-", states=())) == 6
    assert cluster.transactions.list("task") != cluster.transactions.list("")
    assert {request.node_id for request in kafka.asked(LIST_TRANSACTIONS)} == {1, 2, 3}


def test_a_prefix_is_not_an_expression(cluster, kafka):
    cluster.transactions.list(r"a.b*\E-å_1")
    assert kafka.asked(LIST_TRANSACTIONS)[-1].body["transactional_id_pattern"] == r"a\.b\*\\E\-å\_1.*"
    kafka.versions[LIST_TRANSACTIONS.key] = (0, 1)
    opened(cluster, kafka, 2, "a.b")
    opened(cluster, kafka, 2, "axb")
    assert [txn.transactional_id for txn in cluster.transactions.list("a.b")] == ["a.b"]


@pytest.mark.parametrize("fault", [Error(14), Error(15), CLOSE], ids=str)
def test_a_list_is_whole_or_asked_for_again(cluster, kafka, fault):
    many(cluster, kafka, 2)
    kafka.fault(LIST_TRANSACTIONS, fault)
    assert len(cluster.transactions.list("task-")) == 6


def test_brokers_that_cannot_list_say_so(cluster, kafka):
    del kafka.versions[LIST_TRANSACTIONS.key]
    with pytest.raises(UnsupportedApiVersion, match="ListTransactions"):
        cluster.transactions.list("task-")


def test_a_transaction_is_described_by_its_coordinator(cluster, kafka):
    producer = opened(cluster, kafka, 2)
    kafka.coordinators["task"] = 2
    kafka.fault(DESCRIBE_TRANSACTIONS, Error(15))
    found = cluster.transactions.describe(["task", "nope"])
    assert found["nope"] is None
    task = found["task"]
    assert (task.state, task.producer_id, task.producer_epoch, task.timeout_ms) == ("Ongoing", *producer, 60_000)
    assert (task.partitions, task.start_time_ms) == ((T[0],), 1_700_000_000_000)
    cluster.transactions.end("task", producer, True, 2)
    assert cluster.transactions.describe(["task"])["task"].start_time_ms is None


def test_an_operators_abort_ends_it_fences_its_producer_and_invents_nothing(cluster, kafka):
    producer = opened(cluster, kafka, 2)
    kafka.transactions["task"].timeout_ms = 600_000
    assert cluster.transactions.abort("task").state == "Ongoing"
    assert cluster.transactions.list("task") == []
    assert cluster.transactions.describe(["task"])["task"].timeout_ms == 600_000
    with pytest.raises(ProducerFenced):
        cluster.transactions.end("task", producer, True, 2)
    with pytest.raises(TransactionalIdNotFound, match="'nope'"):
        cluster.transactions.abort("nope")
    assert "nope" not in kafka.transactions


def test_whose_transaction_is_open_in_a_partition_is_told_by_its_leader(cluster, kafka):
    producer = opened(cluster, kafka, 2, partition=T[1])
    found = cluster.transactions.producers(T)
    assert [each.producer for each in found[T[1]]] == [producer]
    assert found[T[1]][0].txn_start_offset == 100
    assert found[T[0]] == []
