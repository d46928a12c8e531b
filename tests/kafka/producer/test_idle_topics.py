"""A producer stops asking about topics that nobody writes to, as Java's does."""

from fake_broker import FakeKafka
from test_buffer_lifetime import NetRig

from kafkasource.kafka.protocol.apis import METADATA


def asked_about(kafka: FakeKafka):
    return [topic["name"] for topic in kafka.asked(METADATA)[-1].body["topics"] or ()]


def run(rig, seconds):
    until = rig.net.now + seconds
    while rig.net.now < until:
        rig.sender.run_once()


def test_a_deleted_topic_is_not_asked_about_for_ever():
    rig = NetRig()
    delivery = rig.sender.begin()
    rig.sender.run_once()
    rig.append(delivery)
    delivery.flushing = True
    rig.settle_all(delivery)
    rig.sender.end(delivery)
    assert delivery.records == 1
    del rig.kafka.topics["t"]
    run(rig, 300)
    assert asked_about(rig.kafka) == ["t"]
    run(rig, 900)
    assert asked_about(rig.kafka) == []
    assert rig.client.metadata.topic_errors == {}


def test_a_topic_that_is_written_to_again_is_asked_about_again():
    rig = NetRig()
    run(rig, 1200)
    assert asked_about(rig.kafka) == []
    delivery = rig.sender.begin()
    rig.append(delivery)
    delivery.flushing = True
    rig.settle_all(delivery)
    assert delivery.records == 1
