"""A transaction's records are its transaction's alone: its id, epoch and sequences, in requests of its own."""

import pyarrow as pa
import pytest
from sink_fakes import T0, T1, FakeTransactions, Rig, is_transactional, producer_of

from kafkasource.errors import (
    ConnectionLost,
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    TransactionAbortable,
)
from kafkasource.kafka.producer.partitioner import Partitioner
from kafkasource.kafka.producer.producer import Producer
from kafkasource.kafka.producer.producer_id import TaskTransaction
from kafkasource.kafka.producer.rows import Rows
from kafkasource.types import ProducerId, TopicPartition

NOT_LEADER, OUT_OF_ORDER, EPOCH, TXN_STATE, CONCURRENT, UNKNOWN_PRODUCER, FENCED = 6, 45, 47, 48, 51, 59, 90


def open_transaction(calls=None, name="p-0", version=2):
    return TaskTransaction.open(calls or FakeTransactions(), name, 600_000, version)


def test_a_transaction_is_opened_with_the_timeout_of_its_transaction():
    calls = FakeTransactions()
    transaction = open_transaction(calls)
    assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == ("p-0", 5000, 0)
    assert calls.timeouts_ms == [600_000]
    assert open_transaction(calls).producer_epoch == 1


def test_a_transactions_batches_carry_its_id_epoch_and_own_sequences():
    rig, calls = Rig(), FakeTransactions()
    open_transaction(calls)
    delivery = rig.sender.begin(open_transaction(calls))
    for count in (3, 2):
        _, sent = rig.send(count=count, delivery=delivery)
        rig.answer(sent)
    assert [producer_of(sent.batches[T0]) for sent in rig.client.sent] == [(5000, 1, 0, 3), (5000, 1, 3, 2)]
    assert all(is_transactional(sent.batches[T0]) for sent in rig.client.sent)
    assert all(sent.body["transactional_id"] == "p-0" for sent in rig.client.sent)
    assert rig.client.inits == 0, "the producer's own id is not needed"


@pytest.mark.parametrize(("version", "last_produce_version"), [(1, 11), (2, 12)])
def test_the_version_of_produce_is_that_of_the_dialect(version, last_produce_version):
    """From v12 on a produce request adds its partitions to the transaction (KIP-890)."""
    rig = Rig()
    _, sent = rig.send(transaction=open_transaction(version=version))
    assert sent.max_version == last_produce_version


def test_records_outside_a_transaction_are_not_marked_as_of_one():
    rig = Rig()
    _, sent = rig.send()
    assert not is_transactional(sent.batches[T0])


def test_a_request_is_of_one_transaction():
    partitions = [TopicPartition("t", number) for number in range(6)]
    rig, calls = Rig(dict.fromkeys(partitions, 1)), FakeTransactions()
    names = [None, "p-0", "p-1", "p-0", None, "p-1"]
    deliveries = {name: rig.sender.begin(name and open_transaction(calls, name)) for name in (None, "p-0", "p-1")}
    for tp, name in zip(partitions, names, strict=True):
        rig.append(deliveries[name], tp)
    sent = rig.turn()
    assert {request.body["transactional_id"]: sorted(tp.partition for tp in request.batches) for request in sent} == {
        None: [0, 4],
        "p-0": [1, 3],
        "p-1": [2, 5],
    }
    assert len(sent) == 3


def test_transactions_share_what_may_be_in_flight():
    partitions = [TopicPartition("t", number) for number in range(4)]
    rig, calls = Rig(dict.fromkeys(partitions, 1), max_in_flight=2), FakeTransactions()
    for number, tp in enumerate(partitions):
        rig.append(rig.sender.begin(open_transaction(calls, f"p-{number}")), tp)
    assert len(rig.turn()) == 2


def test_a_transaction_need_not_wait_for_the_producers_own_id():
    rig = Rig()
    rig.client.init_codes = [15] * 100
    rig.append(rig.sender.begin(), T1)
    _, sent = rig.send(T0, transaction=open_transaction())
    assert list(sent.batches) == [T0]


def test_a_producer_id_refused_fails_no_transaction():
    rig = Rig()
    rig.client.init_codes = [31]
    plain, transactional = rig.sender.begin(), rig.sender.begin(open_transaction())
    rig.append(plain, T1)
    rig.append(transactional, T0)
    rig.turn()
    assert plain.error.code == 31  # type: ignore[attr-defined]
    assert not transactional.failed


def test_the_first_batch_of_each_epoch_goes_alone():
    rig, calls = Rig(), FakeTransactions()
    for _ in range(2):
        delivery = rig.sender.begin(open_transaction(calls))
        rig.append(delivery, count=130)  # four batches
        (first,) = rig.turn()
        first.answer()
        others = rig.turn()
        assert len(others) == 3
        for sent in others:
            sent.answer()
        rig.turn()
        rig.sender.end(delivery)
    assert [producer_of(sent.batches[T0])[1:3] for sent in rig.client.sent][4] == (1, 0)


@pytest.mark.parametrize("trouble", [NOT_LEADER, CONCURRENT, ConnectionLost("gone")])
def test_what_passes_sends_the_same_bytes_again(trouble):
    rig = Rig()
    delivery, first = rig.send(transaction=open_transaction())
    if isinstance(trouble, int):
        first.answer(codes={T0: trouble})
    else:
        first.fail(trouble)
    rig.turn()
    rig.clock.now_ms += 1000
    (second,) = rig.turn()
    assert second.batches == first.batches
    assert second.body["transactional_id"] == "p-0"
    rig.answer(second, {T0: 7})
    delivery.wait(lambda: True)
    assert delivery.last_offsets == {T0: 7}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (EPOCH, InvalidProducerEpoch),
        (FENCED, ProducerFenced),
        (TXN_STATE, InvalidTxnState),
        (120, TransactionAbortable),
    ],
)
def test_a_transaction_ended_from_elsewhere_fails_the_task_and_says_by_whom(code, kind):
    rig = Rig()
    delivery, sent = rig.send(transaction=open_transaction())
    rig.answer(sent, codes=code)
    with pytest.raises(kind, match=r"'p-0'.*another attempt.*'transactionalIdPrefix'.*'kafka.transaction.timeout.ms'"):
        delivery.raise_if_failed()
    assert rig.leaked_bytes == 0


def test_two_tasks_in_one_partition_of_a_common_transaction_are_told_what_to_do():
    rig = Rig()
    delivery, sent = rig.send(transaction=TaskTransaction.join(FakeTransactions(), "p-driver", ProducerId(7, 3), 2))
    assert producer_of(sent.batches[T0])[:2] == (7, 3)
    rig.answer(sent, codes=OUT_OF_ORDER)
    assert "'atomicBatch'" in str(delivery.error)


def error_code(delivery):
    return delivery.error.code


@pytest.mark.parametrize("code", [OUT_OF_ORDER, UNKNOWN_PRODUCER])
def test_a_transaction_whose_producer_an_old_broker_has_forgotten_fails_its_task(code):
    """Outside of a transaction the batch goes again under another id."""
    rig = Rig()
    delivery = rig.sender.begin(open_transaction())
    rig.append(delivery)
    rig.turn()[0].answer({T0: 5})
    rig.turn()
    _, sent = rig.send(delivery=delivery)
    sent.answer(codes={T0: code}, log_start_offset=6)
    rig.clock.now_ms += 1000
    assert rig.turn() == []
    assert error_code(delivery) == code
    assert rig.client.inits == 0


def test_a_transaction_that_fails_costs_the_producer_nothing():
    rig = Rig()
    plain = rig.sender.begin()
    rig.append(plain)
    rig.turn()[0].answer()
    failing = rig.sender.begin(open_transaction())
    rig.append(failing)
    rig.turn()[0].answer(codes={T0: EPOCH})
    rig.turn()
    rig.sender.end(failing)
    _, sent = rig.send(delivery=plain)
    assert producer_of(sent.batches[T0]) == (1000, 0, 1, 1)
    assert not plain.failed


@pytest.mark.parametrize(("version", "added"), [(1, [[T0], [T1]]), (2, [])])
def test_partitions_are_added_once_before_their_first_batch(version, added):
    calls = FakeTransactions()
    transaction = open_transaction(calls, version=version)
    for partitions in ([T0], [T0, T1], [T1]):
        transaction.enroll(partitions)
    assert [(name, owner) for name, owner, _ in calls.added] == [("p-0", ProducerId(5000, 0))] * len(added)
    assert [partitions for _, _, partitions in calls.added] == added


def test_rows_are_handed_over_only_once_their_partitions_are_in_the_transaction():
    rig = Rig()
    refused = ProducerFenced(FENCED, "AddPartitionsToTxn")

    class Refusing(FakeTransactions):
        def add_partitions(self, transactional_id, producer_id, partitions):
            super().add_partitions(transactional_id, producer_id, partitions)
            raise refused

    calls = Refusing()
    producer = Producer(rig.config, client=rig.client)
    values = pa.array([b"a", b"b"], pa.binary())
    rows = Rows("t", 2, None, values, None, pa.array([0, 1], pa.int32()), None)
    try:
        with (
            pytest.raises(ProducerFenced, match=r"'p-0'.*another attempt"),
            producer.delivery(open_transaction(calls, version=1)) as delivery,
        ):
            producer.append(rows, Partitioner(1024), delivery)
    finally:
        producer.close()
    assert calls.added == [("p-0", ProducerId(5000, 0), [T0, T1])]
    assert rig.client.sent == []


def test_a_sequence_out_of_order_after_an_attempt_without_an_answer_still_names_the_transaction_and_its_rule():
    rig = Rig()
    delivery, first = rig.send(transaction=open_transaction())
    first.answer(codes={T0: NOT_LEADER})
    rig.turn()
    rig.clock.now_ms += 1000
    (again,) = rig.turn()
    rig.answer(again, codes=OUT_OF_ORDER)
    with pytest.raises(OutOfOrderSequenceNumber, match=r"'p-0'.*restarted broker.*repartition by it"):
        delivery.wait(lambda: True)
