"""Tests which broker is asked for an idempotent producer's id, on a network whose clock moves when code waits."""

import pytest
from fake_broker import FakeKafka, FakeNet
from one_record import write_a_record

from kafkasource.kafka.protocol.apis import INIT_PRODUCER_ID, PRODUCE


class ThreeBrokers(FakeKafka):
    """One of them never answers InitProducerId, or says that it cannot give an id now."""

    def __init__(self, sick, code=None):
        super().__init__(nodes=3, topics={"t": 1})
        self.move_leader("t", 0, 2 if sick != 2 else 3)
        self.sick, self.code = sick, code

    def answer(self, request):
        if request.api is not INIT_PRODUCER_ID or request.node_id != self.sick:
            return super().answer(request)
        return self.code and {"error_code": self.code, "producer_id": -1, "producer_epoch": -1}

    def asked_nodes(self):
        return [request.node_id for request in self.asked(INIT_PRODUCER_ID)]


@pytest.mark.parametrize("seed", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("sick", [1, 2, 3])
def test_a_broker_that_gives_no_answer_is_not_asked_again_while_others_can_be(sick, seed):
    kafka = ThreeBrokers(sick)
    took = write_a_record(FakeNet(kafka, seed))
    assert kafka.asked_nodes().count(sick) <= 1
    assert took < 31  # one request.timeout.ms, where the sick one came first
    assert kafka.asked(PRODUCE)


@pytest.mark.parametrize("seed", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("sick", [1, 2, 3])
def test_a_broker_that_cannot_give_an_id_now_is_not_asked_again_while_others_can_be(sick, seed):
    """Answers like a broker without a connection to the controller: COORDINATOR_LOAD_IN_PROGRESS."""
    kafka = ThreeBrokers(sick, 14)
    took = write_a_record(FakeNet(kafka, seed))
    assert kafka.asked_nodes().count(sick) <= 1
    assert took < 1


@pytest.mark.parametrize("code", [None, 14])
@pytest.mark.parametrize("seed", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("sick", [1, 2, 3])
def test_no_call_for_any_broker_goes_to_the_same_sick_one_twice(sick, seed, code):
    kafka = ThreeBrokers(sick, code)
    cluster = FakeNet(kafka, seed).cluster()
    assert cluster.supports(INIT_PRODUCER_ID)  # it knows the brokers now, and is connected to the first
    assert cluster.transactions.init_producer_id().producer_id > 0
    assert kafka.asked_nodes().count(sick) <= 1


def test_the_only_broker_is_asked_again():
    kafka = FakeKafka(nodes=1, topics={"t": 1})
    answers = iter([14, 14, 14])
    real = kafka._init_producer_id
    kafka._init_producer_id = lambda request: {
        **real(request),
        **({"error_code": code} if (code := next(answers, 0)) else {}),
    }
    write_a_record(FakeNet(kafka))
    assert len(kafka.asked(INIT_PRODUCER_ID)) == 4
