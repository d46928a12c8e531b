"""A topic that the user of a query with `subscribePattern` may not describe any more, by a real authorizer."""

import json
import uuid

import pytest
from rights_jobs import World, warnings

from kafkasource import options
from kafkasource.errors import DataLoss
from kafkasource.kafka.cluster.cluster import Cluster
from kafkasource.kafka.config import ClientConfig
from kafkasource.source.spark.stream import StreamReader
from kafkasource.testing.broker.security.acls import Acl

pytestmark = pytest.mark.broker

SAID = "With subscribePattern, a topic on which this client lacks the right Describe looks like one that does not exist"


@pytest.fixture
def world(secured_broker, tmp_path):
    """A user, its topic with records, and another one without."""
    secured, name = secured_broker.secured, f"hidden-{uuid.uuid4().hex[:8]}"
    made = World(secured, secured.client_properties("SASL_PLAINTEXT", "OAUTHBEARER", name), tmp_path, name)
    made.prepare()
    with Cluster(ClientConfig.of(made.super_user)) as cluster:
        cluster.topics.create([f"{name}-topic-2"], partitions=1)
        yield made
        cluster.topics.delete([made.topic, f"{name}-topic-2"])
        cluster.groups.delete([made.group])


@pytest.fixture
def hide(secured_broker):
    """Takes Describe on topics from the user of a world."""
    acls = []

    def deny(world, *topics):
        new = [Acl(world.name, "describe", "topic", topic, permission="deny") for topic in topics]
        acls.extend(new)
        secured_broker.secured.create_acls(*new)

    yield deny
    secured_broker.secured.delete_acls(*acls)


@pytest.fixture
def stream(world):
    """A query over both topics, behind its first micro-batch: the reader, and how far it is."""
    reading = {**world.options, "subscribePattern": f"^{world.topic}", "startingOffsets": "earliest"}
    reader = StreamReader(options.parse({**reading, "fetchOffset.retryIntervalMs": "10"}, "source"))
    end = json.loads(json.dumps(reader.latestOffset(json.loads(json.dumps(reader.initialOffset())))))
    yield reader, end
    reader.stop()


def test_a_topic_that_a_stream_may_not_describe_any_more_is_lost_and_the_error_says_what_it_may_be(world, hide, stream):
    reader, end = stream
    hide(world, world.topic)
    with warnings() as messages:
        after = json.loads(json.dumps(reader.latestOffset(end)))
    assert any(f"{world.topic}-0, read already, do not exist any more ({SAID})" in text for text in messages), messages
    with pytest.raises(DataLoss, match=rf"Partitions {world.topic}-0 have been deleted[.] {SAID}[.]"):
        reader.partitions(end, after)


def test_a_stream_without_any_topic_left_goes_on_with_a_warning(world, hide, stream):
    """As with the JVM connector there is no micro-batch and no error (tests/peers/parity_cases/loss.py)."""
    reader, end = stream
    hide(world, world.topic, f"{world.topic}-2")
    with warnings() as messages:
        assert reader.latestOffset(end) == end
    assert messages[-1].startswith("option 'subscribePattern': no topic has a match of ")
    assert messages[-1].endswith(SAID)
